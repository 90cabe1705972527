//! `punctual run submit`: one run, or a stream of them that is sent while it is read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use http_body::Frame;
use http_body_util::BodyExt;
use indicatif::{ProgressBar, ProgressStyle};
use punctual_protocol::{Accepted, Span, StreamError};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::DueTime;
use super::wait::{self, Wait};
use crate::client::Route;
use crate::failure::{Failure, in_words};
use crate::file::json_argument;
use crate::job::find::JobReference;
use crate::job::span;
use crate::lines::Lines;
use crate::session::ClientSession;

/// How much is read at once, and how many such pieces wait to be sent.
const PIECE: usize = 64 << 10;
const PIECES_WAITING: usize = 4;

#[derive(Args)]
#[command(group = ArgGroup::new("what").args(["job", "file"]).required(true))]
pub(super) struct Submit {
    /// The job: its id, or app/name
    #[arg(long)]
    job: Option<JobReference>,
    /// Runs as NDJSON, one a line; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["job", "at", "after", "payload", "key", "priority", "own", "wait"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    moment: DueTime,
    /// What the run brings: JSON, or @file
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// What makes a repetition of it a duplicate
    #[arg(long)]
    key: Option<String>,
    /// Instead of the job's: 0 goes first, 9 last
    #[arg(long, value_name = "0-9")]
    priority: Option<u8>,
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    wait: Wait,
}

/// What the run has in place of its job's. `--timeout` is how long `--wait` waits.
#[derive(Args)]
#[group(id = "own", multiple = true)]
struct Own {
    /// Instead of the job's: how long an attempt may take
    #[arg(long, value_name = "SPAN", value_parser = span)]
    attempt_timeout: Option<Span>,
    /// Instead of the job's: how often it is tried, the first time included
    #[arg(long, value_name = "N")]
    retry_max: Option<u32>,
    /// How long after the first failure it is tried again [default: 1s]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    retry_delay: Option<Span>,
    /// How many times longer each further wait is [default: 2]
    #[arg(long, value_name = "FACTOR")]
    retry_multiplier: Option<f64>,
    /// But never longer than this [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    retry_delay_max: Option<Span>,
}

impl Own {
    /// The retry policy of the run; none if its job's applies.
    fn retry(&self) -> Option<Value> {
        let fields = [
            ("max_attempts", self.retry_max.map(Value::from)),
            ("initial_delay", self.retry_delay.map(|delay| json!(delay))),
            ("multiplier", self.retry_multiplier.map(Value::from)),
            ("max_delay", self.retry_delay_max.map(|delay| json!(delay))),
        ];
        let said: Map<String, Value> =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        (!said.is_empty()).then_some(Value::Object(said))
    }
}

impl Submit {
    pub(super) async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        match (&self.job, &self.file) {
            (Some(job), _) => self.submit_one(session, job).await,
            (None, Some(path)) => submit_stream(session, path).await,
            (None, None) => Err(Failure::usage("which job? give --job app/name, or a file with -f")),
        }
    }

    async fn submit_one(&self, session: &mut ClientSession, job: &JobReference) -> Result<(), Failure> {
        let answer = session.client.post(Route::to(["runs"]), self.submission(job)?).await?;
        let accepted: Accepted = serde_json::from_value(answer.clone())
            .map_err(|error| Failure::Broken(format!("the server's answer makes no sense: {error}")))?;
        let run = accepted.ids.first().copied();
        let run = run.ok_or_else(|| Failure::Broken("the server answered no number of a run".into()))?;
        if accepted.duplicates > 0 {
            session.say("a run with this key was there already");
        }
        if !session.wants_json() {
            session.print(run.to_string());
        } else if !self.wait.is_wanted() {
            session.print_json(&answer);
        }
        if self.wait.is_wanted() { wait::until_ended(session, run, &self.wait).await } else { Ok(()) }
    }

    fn submission(&self, job: &JobReference) -> Result<Value, Failure> {
        let job = match job {
            JobReference::Id(id) => json!(id),
            named => json!(named.to_string()),
        };
        let payload = self.payload.as_ref().map(|payload| json_argument("--payload", payload)).transpose()?;
        let fields = [
            ("at", self.moment.text().map(Value::from)),
            ("payload", payload),
            ("key", self.key.clone().map(Value::from)),
            ("priority", self.priority.map(Value::from)),
            ("timeout", self.own.attempt_timeout.map(|timeout| json!(timeout))),
            ("retry", self.own.retry()),
        ];
        let mut body = json!({"job": job});
        for (name, value) in fields {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        Ok(body)
    }
}

async fn submit_stream(session: &mut ClientSession, path: &Path) -> Result<(), Failure> {
    let (source, size) = open(path)?;
    let bar = progress_bar(size);
    let lines = Arc::new(AtomicU64::new(0));
    let feed = read_ahead(source, bar.clone(), Arc::clone(&lines));
    let mut tally = Tally::default();
    let done = send(session, feed, &mut tally, &bar).await;
    bar.finish_and_clear();
    session.say(tally.in_words());
    let sent = lines.load(Ordering::Relaxed);
    match done {
        Ok(()) if tally.lines() < sent => {
            Err(Failure::Broken(format!("the server's answer ended after {} of {sent} lines", tally.lines())))
        }
        Err(Failure::Unreachable(reason)) => Err(Failure::Unreachable(format!(
            "{reason}\nwhat follows line {} may be stored or not; lines with keys can be sent again without harm",
            tally.lines()
        ))),
        done => done,
    }
}

async fn send(
    session: &mut ClientSession,
    feed: Feed,
    tally: &mut Tally,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let route = Route::to(["runs"]);
    let response = session.client.stream(route, "application/x-ndjson", feed.boxed_unsync()).await?;
    let mut answers = Lines::of(response);
    while let Some(line) = answers.next(&session.client).await? {
        tally.add(&line)?;
        bar.set_message(tally.in_words());
        if session.wants_json() {
            session.print(String::from_utf8_lossy(&line));
            session.flush()?;
        }
    }
    Ok(())
}

/// The lines that were acknowledged.
#[derive(Default)]
struct Tally {
    accepted: u64,
    duplicates: u64,
}

impl Tally {
    /// An answer line is the tally of a chunk, or the reason for the end.
    fn add(&mut self, line: &[u8]) -> Result<(), Failure> {
        if let Ok(stop) = serde_json::from_slice::<StreamError>(line) {
            let said = format!("line {}: {}", stop.line, in_words(&stop.error));
            return Err(Failure::Refused { status: stop.error.status, said });
        }
        let chunk: Accepted = serde_json::from_slice(line)
            .map_err(|error| Failure::Broken(format!("the server's answer makes no sense: {error}")))?;
        self.accepted += chunk.accepted;
        self.duplicates += chunk.duplicates;
        Ok(())
    }

    fn lines(&self) -> u64 {
        self.accepted + self.duplicates
    }

    fn in_words(&self) -> String {
        format!("{} accepted, {} duplicates", self.accepted, self.duplicates)
    }
}

/// The file, and its size where that can be known.
fn open(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let refuse = |reason: String| Failure::usage(format!("cannot read {}: {reason}", path.display()));
    let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
    let about = file.metadata().map_err(|error| refuse(error.to_string()))?;
    if about.is_dir() {
        return Err(refuse("it is a folder".into()));
    }
    let size = about.is_file().then_some(about.len());
    Ok((Box::new(file), size))
}

/// It draws on a terminal only.
fn progress_bar(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(size) => (ProgressBar::new(size), "{bar:30} {percent:>3}%  {msg}  ({elapsed})"),
        None => (ProgressBar::no_length(), "{spinner} {bytes}  {msg}  ({elapsed})"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is right");
    bar.with_style(style.progress_chars("=> "))
}

/// The pieces of a file on their way into a request.
struct Feed {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl http_body::Body for Feed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = self.pieces.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// Reads a little ahead of the network, in a thread that is never joined: a thread that hangs on a terminal or a pipe
/// must not keep the command from ending, and one whose pieces are no longer wanted ends at the next piece.
fn read_ahead(mut source: Box<dyn Read + Send>, bar: ProgressBar, lines: Arc<AtomicU64>) -> Feed {
    let (sender, pieces) = mpsc::channel(PIECES_WAITING);
    thread::spawn(move || {
        let mut counter = LineCounter::default();
        loop {
            let mut piece = vec![0; PIECE];
            let read = match source.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let _ = sender.blocking_send(Err(error));
                    break;
                }
            };
            piece.truncate(read);
            lines.fetch_add(counter.count(&piece), Ordering::Relaxed);
            bar.inc(read as u64);
            if sender.blocking_send(Ok(piece.into())).is_err() {
                break;
            }
        }
    });
    Feed { pieces }
}

/// Counts lines that are not blank, over pieces that end anywhere.
#[derive(Default)]
struct LineCounter {
    is_inside: bool,
}

impl LineCounter {
    fn count(&mut self, piece: &[u8]) -> u64 {
        let mut begun = 0;
        for byte in piece {
            if *byte == b'\n' {
                self.is_inside = false;
            } else if !byte.is_ascii_whitespace() && !self.is_inside {
                self.is_inside = true;
                begun += 1;
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_wherever_pieces_end() {
        let mut counter = LineCounter::default();
        let pieces: [&[u8]; 4] = [b"{\"a\"", b":1}\n\n  \n{", b"}\r\n", b"{}"];
        assert_eq!(pieces.map(|piece| counter.count(piece)), [1, 1, 0, 1]);
    }

    #[test]
    fn an_answer_line_counts_or_ends() {
        let mut tally = Tally::default();
        tally.add(br#"{"accepted": 3, "duplicates": 1, "ids": [1, 2, 3, 1]}"#).unwrap();
        assert_eq!((tally.lines(), tally.in_words().as_str()), (4, "3 accepted, 1 duplicates"));
        let stop =
            br#"{"line": 5, "error": {"type": "x", "title": "x", "status": 422, "detail": "no such job"}}"#;
        let failure = tally.add(stop).unwrap_err();
        assert_eq!((failure.code(), failure.message().as_str()), (2, "error: line 5: no such job\n"));
        assert_eq!(tally.add(b"<html>").unwrap_err().code(), 1);
    }
}
