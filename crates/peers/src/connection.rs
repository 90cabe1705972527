//! Connections to nodes: TCP, and TLS where the address says https.

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

/// A connection to a node, encrypted or not.
pub type Connection = Box<dyn ByteStream>;

/// A stream that can be read and written.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Connects to the node at an address.
pub(crate) async fn connect(address: &Url, tls: &TlsConnector) -> Result<Connection, String> {
    let text = |error: std::io::Error| error.to_string();
    let host = address.host_str().ok_or("the address names no host")?.trim_matches(['[', ']']).to_owned();
    let port = address.port_or_known_default().ok_or("the address names no port")?;
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(text)?;
    let _ = stream.set_nodelay(true);
    if address.scheme() != "https" {
        return Ok(Box::new(stream));
    }
    let name = rustls::pki_types::ServerName::try_from(host).map_err(|error| error.to_string())?;
    Ok(Box::new(tls.connect(name, stream).await.map_err(text)?))
}

/// Connects to the node at an address, for HTTP requests.
pub(crate) async fn connect_http(
    address: &Url,
    tls: &TlsConnector,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = connect(address, tls).await?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // It ends with the sender. A request that is under way then fails with the reason.
        let _ = connection.await;
    });
    Ok(sender)
}

/// The path of an address of a node, followed by a path of the API.
pub(crate) fn path_of(address: &Url, path: &str) -> String {
    format!("{}{path}", address.path().trim_end_matches('/'))
}
