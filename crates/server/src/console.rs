//! The console beside the API: its files, and its page wherever a person goes and the API has nothing.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;

/// The API with the console beside it.
pub(crate) fn beside(router: Router) -> Router {
    router.layer(middleware::from_fn(serve))
}

#[cfg(feature = "console")]
async fn serve(request: Request, next: Next) -> Response {
    use axum::body::Body;
    use http::StatusCode;

    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    if let Some(file) = punctual_console::file(method, path, headers) {
        return file.map(Body::from);
    }
    let is_of_api = path == "/api" || path.starts_with("/api/");
    let page = if is_of_api { None } else { punctual_console::page(method, path, headers) };
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
