//! Sessions at the executors' door of other nodes.

use http::header;
use punctual_protocol::native::{FRAME_MAX, PATH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use url::Url;

use crate::connection::{Connection, connect, path_of};

/// Opens a WebSocket at the executors' door of the node at an address. `wrap` turns the connection into the stream
/// that the caller wants to use.
pub async fn open_session<S: AsyncRead + AsyncWrite + Unpin>(
    address: &str,
    token: &str,
    tls: &TlsConnector,
    wrap: impl FnOnce(Connection) -> S,
) -> Result<WebSocketStream<S>, String> {
    let address = Url::parse(address).map_err(|error| error.to_string())?;
    let stream = wrap(connect(&address, tls).await?);
    let scheme = if address.scheme() == "https" { "wss" } else { "ws" };
    let mut request = format!("{scheme}://{}{}", address.authority(), path_of(&address, PATH))
        .into_client_request()
        .map_err(|error| error.to_string())?;
    let bearer = format!("Bearer {token}").parse().map_err(|_| "the token is no header".to_owned())?;
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    let config = WebSocketConfig::default().max_message_size(Some(FRAME_MAX)).max_frame_size(Some(FRAME_MAX));
    let opened = client_async_with_config(request, stream, Some(config)).await;
    opened.map(|(socket, _)| socket).map_err(|error| error.to_string())
}
