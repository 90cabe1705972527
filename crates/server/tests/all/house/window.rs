//! A window on a server: what comes through is passed on as it is, and of a stream that has no end the first piece is
//! shown. Whoever reads whole answers can so be let loose on streams too.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A window that is open as long as the value lives.
pub(crate) struct Window {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Window {
    pub(crate) async fn on(url: &str) -> Window {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let task = tokio::spawn(serve(listener, url.trim_start_matches("http://").to_owned()));
        Window { address, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, behind: String) {
    while let Ok((stream, _)) = listener.accept().await {
        let behind = behind.clone();
        let service = service_fn(move |request| pass_on(request, behind.clone()));
        let serving =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(serving);
    }
}

async fn pass_on(request: Request<Incoming>, behind: String) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let stream = TcpStream::connect(behind).await.expect("a connection");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (mut head, body) = sender.send_request(request).await?.into_parts();
    let is_endless = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let body = if is_endless { first_piece(body).await? } else { body.collect().await?.to_bytes() };
    connection.abort();
    // The whole has a length of its own.
    head.headers.remove(TRANSFER_ENCODING);
    Ok(Response::from_parts(head, Full::new(body)))
}

async fn first_piece(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let piece = body.frame().await.transpose()?;
    Ok(piece.and_then(|piece| piece.into_data().ok()).unwrap_or_default())
}
