//! The console beside the API: its files, and its page at every address that a person visits and the API does not
//! serve.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::future::RouteFuture;
use tower::Service;

/// The API with the console beside it.
#[derive(Clone)]
pub(crate) struct Site {
    api: Router,
    /// The API behind the console's files and in front of its page.
    beside: Router,
}

impl Site {
    pub(crate) fn new(api: Router) -> Site {
        Site { beside: api.clone().layer(middleware::from_fn(serve)), api }
    }
}

impl Service<Request> for Site {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.api, context)
    }

    fn call(&mut self, request: Request) -> RouteFuture<Infallible> {
        let path = request.uri().path();
        // Paths that programs ask for all day, and where the console has nothing.
        match path == "/api" || path.starts_with("/api/") {
            true => self.api.call(request),
            false => self.beside.call(request),
        }
    }
}

#[cfg(feature = "console")]
async fn serve(request: Request, next: Next) -> Response {
    use axum::body::Body;
    use http::StatusCode;

    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    if let Some(file) = punctual_console::file(method, path, headers) {
        return file.map(Body::from);
    }
    let page = punctual_console::page(method, path, headers);
    let answer = next.run(request).await;
    match page {
        Some(page) if answer.status() == StatusCode::NOT_FOUND => page.map(Body::from),
        _ => answer,
    }
}

#[cfg(not(feature = "console"))]
async fn serve(request: Request, next: Next) -> Response {
    use axum::response::IntoResponse;
    use http::Method;

    let is_root = request.uri().path() == "/" && [Method::GET, Method::HEAD].contains(request.method());
    if is_root {
        let said =
            "This node was built without its console (--no-default-features). The API is at /api/v1.\n";
        return said.into_response();
    }
    next.run(request).await
}
