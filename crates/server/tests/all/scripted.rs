//! The real binary against a server that answers what its script says, over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

/// One request that the server expects, and what it answers.
pub(crate) struct Exchange {
    pub(crate) request: &'static str,
    pub(crate) status: u16,
    pub(crate) answer: String,
}

pub(crate) fn answers(request: &'static str, status: u16, answer: Value) -> Exchange {
    Exchange { request, status, answer: answer.to_string() }
}

/// A request as it came.
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|one| one.eq_ignore_ascii_case(header))
    }
}

/// A server that answers what its script says and keeps what it was asked.
pub(crate) struct Server {
    pub(crate) url: String,
    thread: JoinHandle<Vec<Request>>,
}

impl Server {
    pub(crate) fn start(script: Vec<Exchange>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let play = move || script.iter().map(|exchange| play(&listener, exchange)).collect();
        Server { url, thread: thread::spawn(play) }
    }

    /// The requests, in the order of the script.
    pub(crate) fn requests(self) -> Vec<Request> {
        self.thread.join().expect("the script was followed")
    }
}

fn play(listener: &TcpListener, exchange: &Exchange) -> Request {
    let (socket, _) = listener.accept().expect("a connection");
    let request = read_request(&socket);
    assert_eq!(request.line, format!("{} HTTP/1.1", exchange.request));
    let Exchange { status, answer, .. } = exchange;
    let length = answer.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    (&socket).write_all(format!("{head}{answer}").as_bytes()).expect("the client listens");
    request
}

fn read_request(socket: &TcpStream) -> Request {
    let mut reader = BufReader::new(socket);
    let mut lines = Vec::new();
    loop {
        let line = read_line(&mut reader);
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut lines = lines.into_iter();
    let line = lines.next().expect("a request line");
    let headers: Vec<String> = lines.collect();
    let value = |name: &str| headers.iter().find_map(|header| header.strip_prefix(name));
    let body = match (value("content-length: "), value("transfer-encoding: ")) {
        (Some(length), _) => read_bytes(&mut reader, length.parse().expect("a length")),
        (None, Some(_)) => read_chunks(&mut reader),
        (None, None) => Vec::new(),
    };
    Request { line, headers, body: String::from_utf8(body).expect("UTF-8") }
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

fn read_bytes(reader: &mut impl Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).expect("the whole body");
    bytes
}

fn read_chunks(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let size = usize::from_str_radix(&read_line(reader), 16).expect("the size of a chunk");
        body.extend(read_bytes(reader, size));
        read_line(reader);
        if size == 0 {
            return body;
        }
    }
}

/// A folder of the test's own.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli_client").join(name);
    fs::create_dir_all(&path).expect("a folder");
    path
}

pub(crate) fn file(name: &str, text: &str) -> String {
    let path = folder("files").join(name);
    fs::write(&path, text).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

pub(crate) fn command(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command
        .args(arguments)
        .env("PUNCTUAL_URL", url)
        .env("PUNCTUAL_TOKEN", "pt_test")
        .env("PUNCTUAL_DATA", folder("no-data"))
        .stdin(Stdio::null());
    command
}

pub(crate) fn punctual(url: &str, arguments: &[&str]) -> Output {
    command(url, arguments).output().expect("the binary starts")
}

pub(crate) fn fed(url: &str, arguments: &[&str], input: &str) -> Output {
    let mut command = command(url, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

pub(crate) fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

/// Exit code, stdout and stderr, all at once.
pub(crate) fn told(output: &Output) -> (Option<i32>, &str, &str) {
    (output.status.code(), stdout(output), stderr(output))
}

pub(crate) fn problem(status: u16, detail: &str, errors: Value) -> Value {
    json!({"type": "about:blank", "title": "No", "status": status, "detail": detail, "errors": errors})
}
