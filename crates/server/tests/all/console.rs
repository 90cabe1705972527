//! The console beside the API: a browser gets the page, programs get what they always got.

use crate::house::{Folder, Reply, Server, ask};

async fn visit(server: &Server, path: &str, accept: &str) -> Reply {
    ask(&server.url, "GET", path, &[("accept", accept)], "").await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_gets_the_page_wherever_it_goes_and_programs_get_problems() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let (browser, program) = ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json");
    for path in ["/", "/jobs", "/jobs/17/edit"] {
        let page = visit(&server, path, browser).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8")),
            "{path}"
        );
        assert!(
            page.header("content-security-policy").is_some_and(|policy| policy.contains("script-src 'self'")),
            "{path}"
        );
    }
    for (path, accept) in [("/jobs", program), ("/api/v1/nowhere", browser), ("/assets/gone.js", browser)] {
        let answer = visit(&server, path, accept).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, Some("application/problem+json")),
            "{path}"
        );
    }
    assert_eq!(visit(&server, "/healthz", browser).await.header("content-type"), Some("application/json"));
    assert_eq!(visit(&server, "/api/v1/jobs", browser).await.status, 401);
}
