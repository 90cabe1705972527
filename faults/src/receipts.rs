//! The agent: an HTTP server that records every request before it answers, and accepts all but those with an outdated
//! token.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::clock::now;
use crate::history::{Receipt, millis};

/// An agent that runs until this is dropped.
pub struct Agent {
    address: SocketAddr,
    book: Arc<Book>,
    task: JoinHandle<()>,
}

/// The receipts, in memory and in a file.
struct Book {
    pages: Mutex<Pages>,
}

struct Pages {
    receipts: Vec<Receipt>,
    /// The greatest token of each run.
    tokens: BTreeMap<u64, u64>,
    file: File,
}

impl Agent {
    /// Starts an agent that records into a file.
    pub async fn start(file: &Path) -> std::io::Result<Agent> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let pages = Pages { receipts: Vec::new(), tokens: BTreeMap::new(), file: File::create(file)? };
        let book = Arc::new(Book { pages: Mutex::new(pages) });
        let task = tokio::spawn(serve(listener, Arc::clone(&book)));
        Ok(Agent { address, book, task })
    }

    /// A URL whose work takes this long.
    pub fn url(&self, takes: Duration) -> String {
        format!("http://{}/{}", self.address, takes.as_millis())
    }

    /// All receipts so far.
    pub fn receipts(&self) -> Vec<Receipt> {
        self.book.pages.lock().expect("no panic").receipts.clone()
    }

    /// Number of receipts so far.
    pub fn count(&self) -> usize {
        self.book.pages.lock().expect("no panic").receipts.len()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Book {
    /// Records a request, and returns its index and whether it is refused because of an outdated token.
    fn write(&self, headers: &HeaderMap) -> Option<(usize, bool)> {
        let mut receipt = read(headers)?;
        let mut pages = self.pages.lock().expect("no panic");
        let greatest = pages.tokens.entry(receipt.run).or_insert(0);
        receipt.is_refused = receipt.token < *greatest;
        *greatest = receipt.token.max(*greatest);
        let (place, is_refused) = (pages.receipts.len(), receipt.is_refused);
        let line = serde_json::to_string(&receipt).expect("plain values");
        writeln!(pages.file, "{line}").expect("a file that can be written");
        pages.receipts.push(receipt);
        Some((place, is_refused))
    }

    /// Records that the work of a request is done.
    fn done(&self, place: usize) {
        let mut pages = self.pages.lock().expect("no panic");
        let at = now();
        pages.receipts[place].done_at = Some(at);
        writeln!(pages.file, "{{\"done\":{place},\"at\":{at}}}").expect("a file that can be written");
    }
}

fn read(headers: &HeaderMap) -> Option<Receipt> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
    Some(Receipt {
        run: number("punctual-run-id")?,
        job: number("punctual-job")?,
        fire_time: millis(text("punctual-fire-time")?)?,
        attempt: u32::try_from(number("punctual-attempt")?).ok()?,
        token: number("punctual-fencing-token")?,
        possible_duplicate: text("punctual-possible-duplicate") == Some("true"),
        received_at: now(),
        is_refused: false,
        done_at: None,
    })
}

async fn serve(listener: TcpListener, book: Arc<Book>) {
    while let Ok((stream, _)) = listener.accept().await {
        let book = Arc::clone(&book);
        let service = service_fn(move |request| answer(request, Arc::clone(&book)));
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

async fn answer(request: Request<Incoming>, book: Arc<Book>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    body.collect().await?;
    let Some((place, is_refused)) = book.write(&head.headers) else {
        return Ok(say(StatusCode::BAD_REQUEST, "this does not come from a scheduler"));
    };
    if is_refused {
        return Ok(say(StatusCode::CONFLICT, "a later attempt was here before"));
    }
    // In a task of its own, because work goes on when the caller hangs up.
    let work = tokio::spawn(async move {
        tokio::time::sleep(takes(&head.uri)).await;
        book.done(place);
    });
    let _ = work.await;
    Ok(say(StatusCode::OK, "done"))
}

fn takes(uri: &Uri) -> Duration {
    Duration::from_millis(uri.path().trim_start_matches('/').parse().unwrap_or(0))
}

fn say(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ask;

    async fn call(agent: &Agent, run: u64, token: u64) -> u16 {
        let (run, token) = (run.to_string(), token.to_string());
        let headers = [
            ("punctual-run-id", run.as_str()),
            ("punctual-job", "3"),
            ("punctual-fire-time", "2026-03-01T10:00:00.000Z"),
            ("punctual-attempt", "1"),
            ("punctual-fencing-token", token.as_str()),
        ];
        let address = agent.address.to_string();
        ask(&address, "POST", "/5", &headers, "", Duration::from_secs(10)).await.expect("an answer").status
    }

    #[tokio::test]
    async fn a_request_is_written_down_before_it_is_answered_and_an_overtaken_one_is_refused() {
        let folder = punctual_scratch::Folder::new("receipts").expect("a folder");
        let path = folder.path().join("receipts.jsonl");
        let agent = Agent::start(&path).await.expect("an agent");
        assert_eq!(
            [call(&agent, 1, 7).await, call(&agent, 1, 6).await, call(&agent, 2, 6).await],
            [200, 409, 200]
        );
        let receipts = agent.receipts();
        assert_eq!(receipts.iter().map(|one| one.is_refused).collect::<Vec<_>>(), [false, true, false]);
        assert!(receipts[0].done_at.is_some() && receipts[1].done_at.is_none());
        let written = std::fs::read_to_string(&path).expect("the file");
        assert_eq!(written.lines().filter(|line| line.contains("\"run\":1,")).count(), 2);
    }

    #[tokio::test]
    async fn what_does_not_come_from_a_scheduler_is_not_written_down() {
        let folder = punctual_scratch::Folder::new("receipts").expect("a folder");
        let agent = Agent::start(&folder.path().join("receipts.jsonl")).await.expect("an agent");
        let answer = ask(&agent.address.to_string(), "GET", "/0", &[], "", Duration::from_secs(10)).await;
        assert_eq!((answer.expect("an answer").status, agent.count()), (400, 0));
    }
}
