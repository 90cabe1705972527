//! One-shots: submitted one by one, in batches, or as a stream of lines.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};
use http_body_util::BodyExt;
use punctual_core::model::JobId;
use punctual_node::ports::Accepted as Kept;
use punctual_node::{DeskError, Submission};
use punctual_protocol::{Accepted, Role, RunSubmission, Runs, StreamError};
use tokio::sync::mpsc::Sender;

use super::{named_job, ok};
use crate::app::Front;
use crate::body::{self, LINES};
use crate::budget::{CallRefusal, Room};
use crate::caller::Caller;
use crate::convert::job_ref::JobRef;
use crate::convert::submission::{Meant, SubmissionLine, read, read_line};
use crate::credential::OVER;
use crate::problem::Problem;
use crate::query::DRY_RUN;
use crate::table::{Answer, Call, Operation, Permission, schema_of};
use crate::uncut::uncut;
use crate::{remainder, stream};

/// How many runs a body may hold, and after how many lines a stream is acknowledged.
const BATCH_MAX: usize = 10_000;

/// After how many bytes a stream is acknowledged, however many lines they are.
const CHUNK_BYTES: usize = 8 << 20;

/// How long lines of a stream wait for more lines before they are written.
const LINGER: Duration = Duration::from_millis(50);

/// How many answers to a stream are buffered for a client that sends first and reads later.
const ANSWERS_UNREAD: usize = 256;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/api/v1/runs", "submitRuns", |front, call| Box::pin(submit(front, call)))
            .about(
                "runs",
                "Takes one-shots: one, many (all or none), or a stream of lines that is acknowledged in chunks. \
                 Answered only when they are durable.",
            )
            .needs(Permission::Role(Role::Operator))
            .query(&[DRY_RUN])
            .takes_batch::<Runs, RunSubmission>()
            .answers_as(
                200,
                "They are kept. A stream is answered line by line, and a line that is wrong ends it.",
                vec![("application/json", Some(schema_of::<Accepted>)), (LINES, None)],
                &[],
            )
            .refuses(&[404, 409]),
    ]
}

async fn submit(front: Arc<Front>, mut call: Call) -> Answer {
    if let Some(body) = call.stream.take() {
        let body = body.into_inner().unwrap_or_else(PoisonError::into_inner);
        return take_stream(front, call, body);
    }
    let batch = read(&call.body)?;
    if batch.lines.len() > BATCH_MAX {
        let said = format!("{} runs: at most {BATCH_MAX} are taken at once, so none was", batch.lines.len());
        return Err(Problem::too_large(said).at("/runs"));
    }
    let dry_run = call.query.flag("dry_run");
    let mut jobs = NamedJobs { front: &front, caller: &call.caller, known: BTreeMap::new(), looks: dry_run };
    let mut submissions = Vec::with_capacity(batch.lines.len());
    for (index, line) in batch.lines.iter().enumerate() {
        let place = |field: &str| batch.pointer(index, field);
        let meant = line.meant(front.settings.payload_max, place)?;
        let job = jobs.find(&line.job).await.map_err(|problem| problem.at(place("/job")))?;
        submissions.push(submission(job, meant));
    }
    if dry_run {
        return Ok(ok(&Accepted { accepted: submissions.len() as u64, duplicates: 0, ids: Vec::new() }));
    }
    let asked: Vec<JobId> = submissions.iter().map(|one| one.job).collect();
    match front.node.submit(submissions).await {
        Ok(kept) => {
            (front.nudge)();
            Ok(ok(&accepted(&kept)))
        }
        Err(error) => {
            let index = culprit(&front, &asked, &error).await;
            let problem = Problem::from(error);
            Err(match index {
                Some(index) => problem.at(batch.pointer(index, "/job")),
                None => problem,
            })
        }
    }
}

fn submission(job: JobId, meant: Meant) -> Submission {
    let Meant { at, payload, key, priority, overrides } = meant;
    Submission { job, at, payload, key, priority, overrides }
}

fn accepted(kept: &[Kept]) -> Accepted {
    let mut answer = Accepted { ids: Vec::with_capacity(kept.len()), ..Accepted::default() };
    for one in kept {
        let (id, count) = match one {
            Kept::New(id) => (id, &mut answer.accepted),
            Kept::Duplicate(id) => (id, &mut answer.duplicates),
        };
        *count += 1;
        answer.ids.push(id.0);
    }
    answer
}

/// The first run whose job made the desk refuse the whole batch.
async fn culprit(front: &Front, asked: &[JobId], error: &DeskError) -> Option<usize> {
    if !matches!(error, DeskError::NotFound(_) | DeskError::Conflict(_)) {
        return None;
    }
    let mut sound = std::collections::BTreeSet::new();
    for (index, job) in asked.iter().enumerate() {
        if sound.contains(job) {
            continue;
        }
        match front.browse.job(*job).await.ok()? {
            Some(view) if view.state.is_enabled() => _ = sound.insert(*job),
            _ => return Some(index),
        }
    }
    None
}

/// The jobs of one request, each looked up once.
struct NamedJobs<'a> {
    front: &'a Front,
    caller: &'a Caller,
    known: BTreeMap<String, JobId>,
    /// Whether numbers are looked up too. The desk knows them better, unless nothing is written or each line needs an
    /// answer of its own.
    looks: bool,
}

impl NamedJobs<'_> {
    async fn find(&mut self, named: &JobRef<'_>) -> Result<JobId, Problem> {
        let name = match named {
            JobRef::Id(id) if !self.looks && self.caller.reaches_all() => return Ok(*id),
            JobRef::Id(id) => id.to_string(),
            JobRef::Name(name) => name.to_string(),
        };
        if let Some(id) = self.known.get(&name) {
            return Ok(*id);
        }
        let view = named_job(self.front, self.caller, named).await?;
        let view = view.ok_or_else(|| Problem::not_found(named))?;
        if view.state.is_paused() {
            let app = view.definition.app;
            return Err(Problem::conflict(format!(
                "app {app} is paused, and {named} with it; resume the app first"
            )));
        }
        if !view.state.is_enabled() {
            return Err(Problem::conflict(format!("{named} is stopped; start it first")));
        }
        self.known.insert(name, view.id);
        Ok(view.id)
    }
}

/// Reads a stream and answers while it reads.
fn take_stream(front: Arc<Front>, call: Call, mut body: Body) -> Answer {
    let place = front.budgets.stream(call.caller.id)?;
    let (answers, answer) = stream::open(ANSWERS_UNREAD);
    let Call { caller, credential, query, request_id, room, .. } = call;
    let dry_run = query.flag("dry_run");
    tokio::spawn(async move {
        let jobs = NamedJobs { front: &front, caller: &caller, known: BTreeMap::new(), looks: true };
        let (lines, waiting) = (Lines::default(), Vec::new());
        let intake =
            Intake { jobs, answers, dry_run, request_id, room, lines, line: 0, waiting, first: 0, bytes: 0 };
        intake.run(&front, &mut body, credential.over(&front, &caller)).await;
        // A client that is still writing can read the last line only if the connection is not torn down.
        remainder::pass(&mut body).await;
        drop(place);
    });
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, LINES)], answer).into_response())
}

/// The part of a stream that was read and has no line end yet.
#[derive(Default)]
struct Lines {
    unread: BytesMut,
    /// How many bytes at the start were searched and have no line end.
    searched: usize,
}

impl Lines {
    fn add(&mut self, data: &[u8]) {
        self.unread.extend_from_slice(data);
    }

    fn next(&mut self) -> Option<Bytes> {
        match self.unread[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(found) => {
                let line = self.unread.split_to(self.searched + found + 1).freeze();
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.unread.len();
                None
            }
        }
    }
}

/// A stream that is being read.
struct Intake<'a> {
    jobs: NamedJobs<'a>,
    answers: Sender<Bytes>,
    dry_run: bool,
    request_id: String,
    /// The budget for the lines below.
    room: Room,
    lines: Lines,
    /// Lines read so far.
    line: u64,
    /// Lines that are not written yet, the number of the first of them, and their size in bytes.
    waiting: Vec<Submission>,
    first: u64,
    bytes: usize,
}

/// The stream has ended, well or not.
struct Over;

/// What a stream brings next.
enum NextPart {
    Data(Bytes),
    /// Nothing for a while, and lines wait to be written.
    Pause,
    End,
    /// It is broken, too slow, or its token is over.
    Trouble(Problem),
    Revoked,
}

impl Intake<'_> {
    /// Reads until the stream ends or `revoked` resolves.
    async fn run(mut self, front: &Arc<Front>, body: &mut Body, revoked: impl Future<Output = ()>) {
        let mut revoked = std::pin::pin!(revoked);
        loop {
            let next = tokio::select! {
                biased;
                () = &mut revoked => NextPart::Revoked,
                next = self.next(body) => next,
            };
            let gone_on = match next {
                NextPart::Data(data) => self.take_data(front, &data).await,
                // A client that sends a few lines and waits for the answer gets one.
                NextPart::Pause => self.write(front).await,
                NextPart::End => break,
                NextPart::Trouble(problem) => {
                    self.line += 1;
                    self.refuse(front, problem).await
                }
                NextPart::Revoked => self.drop_waiting().await,
            };
            if gone_on.is_err() {
                return;
            }
        }
        let rest = std::mem::take(&mut self.lines.unread).freeze();
        if self.take_line(front, &rest).await.is_ok() {
            _ = self.write(front).await;
        }
    }

    /// The clock runs only here: while lines are written, the node does not wait for the body.
    async fn next(&mut self, body: &mut Body) -> NextPart {
        let next = match self.waiting.is_empty() {
            true => body::next(body, &self.room).await,
            false => match tokio::time::timeout(LINGER, body.frame()).await {
                Ok(frame) => frame.transpose().map_err(|_| body::torn()),
                Err(_) => return NextPart::Pause,
            },
        };
        match next {
            // A frame that is not data is skipped; it does not end the stream.
            Ok(Some(frame)) => NextPart::Data(frame.into_data().unwrap_or_default()),
            Ok(None) => NextPart::End,
            Err(problem) => NextPart::Trouble(problem),
        }
    }

    async fn take_data(&mut self, front: &Arc<Front>, data: &[u8]) -> Result<(), Over> {
        self.lines.add(data);
        if let Err(problem) = self.room.hold(self.bytes + self.lines.unread.len()) {
            self.line += 1;
            return self.refuse(front, problem).await;
        }
        while let Some(line) = self.lines.next() {
            self.take_line(front, &line).await?;
        }
        let longest = front.settings.body_max;
        if self.lines.unread.len() > longest {
            self.line += 1;
            self.room.note_refusal(CallRefusal::TooLarge);
            let problem = Problem::too_large(format!("the line is longer than {longest} bytes"));
            return self.refuse(front, problem).await;
        }
        Ok(())
    }

    /// Ends a stream whose token is no longer valid. Lines that are not written yet are dropped.
    async fn drop_waiting(&mut self) -> Result<(), Over> {
        let line = if self.waiting.is_empty() { self.line + 1 } else { self.first };
        self.end(line, &Problem::unauthenticated(OVER)).await
    }

    async fn take_line(&mut self, front: &Arc<Front>, line: &Bytes) -> Result<(), Over> {
        if line.iter().all(u8::is_ascii_whitespace) {
            // Blank lines count, so that line numbers are those of an editor.
            self.line += u64::from(!line.is_empty());
            return Ok(());
        }
        self.line += 1;
        match self.understand(front, line).await {
            Err(problem) => self.refuse(front, problem).await,
            Ok(submission) => {
                if self.waiting.is_empty() {
                    self.first = self.line;
                }
                self.waiting.push(submission);
                self.bytes += line.len();
                let is_full = self.waiting.len() >= BATCH_MAX || self.bytes >= CHUNK_BYTES;
                if is_full { self.write(front).await } else { Ok(()) }
            }
        }
    }

    async fn understand(&mut self, front: &Front, line: &[u8]) -> Result<Submission, Problem> {
        let line: SubmissionLine<'_> = read_line(line)?;
        let meant = line.meant(front.settings.payload_max, str::to_owned)?;
        let job = self.jobs.find(&line.job).await.map_err(|problem| problem.at("/job"))?;
        Ok(submission(job, meant))
    }

    /// Writes the waiting lines, and acknowledges them.
    async fn write(&mut self, front: &Arc<Front>) -> Result<(), Over> {
        let submissions = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        // It holds fewer bytes than before, so there is room.
        let _ = self.room.hold(self.lines.unread.len());
        if submissions.is_empty() {
            return Ok(());
        }
        if self.dry_run {
            let count = submissions.len() as u64;
            return self.tell(&Accepted { accepted: count, duplicates: 0, ids: Vec::new() }).await;
        }
        let node = Arc::clone(&front.node);
        match uncut(async move { Ok(node.submit(submissions).await?) }).await {
            Ok(kept) => {
                (front.nudge)();
                self.tell(&accepted(&kept)).await
            }
            // A chunk is written whole or not at all, so its first line is the first that was not written.
            Err(problem) => self.end(self.first, &problem).await,
        }
    }

    /// Writes and answers all lines before the one that is wrong, then reports that one.
    async fn refuse(&mut self, front: &Arc<Front>, problem: Problem) -> Result<(), Over> {
        self.write(front).await?;
        self.end(self.line, &problem).await
    }

    async fn end(&mut self, line: u64, problem: &Problem) -> Result<(), Over> {
        _ = self.tell(&StreamError { line, error: problem.shown(Some(&self.request_id)) }).await;
        Err(Over)
    }

    async fn tell<T: serde::Serialize>(&mut self, answer: &T) -> Result<(), Over> {
        let mut line = serde_json::to_vec(answer).expect("an answer is plain data");
        line.push(b'\n');
        self.answers.send(Bytes::from(line)).await.map_err(|_| Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::model::RunId;

    #[test]
    fn a_long_line_in_small_pieces_is_searched_once() {
        let (mut lines, length) = (Lines::default(), 1 << 20);
        // If every piece were searched from the beginning, this would read half a million million bytes.
        for _ in 0..length {
            lines.add(b"x");
            assert!(lines.next().is_none());
        }
        lines.add(b"\nnext");
        assert_eq!(lines.next().map(|line| line.len()), Some(length + 1));
        assert_eq!((lines.next(), &lines.unread[..]), (None, &b"next"[..]));
        lines.add(b"\n\n");
        assert_eq!(lines.next().as_deref(), Some(&b"next\n"[..]));
        assert_eq!(lines.next().as_deref(), Some(&b"\n"[..]));
    }

    #[test]
    fn duplicates_are_counted_and_keep_their_place() {
        let kept = [Kept::New(RunId(7)), Kept::Duplicate(RunId(3)), Kept::New(RunId(8))];
        assert_eq!(accepted(&kept), Accepted { accepted: 2, duplicates: 1, ids: vec![7, 3, 8] });
    }
}
