//! The logs of attempts: kept in the store, or fetched from the executor that has them.
//!
//! Executors number lines from 1 and give them page by page; few of them say which page is the last. So a log has
//! ended when its attempt has ended and a page came back empty. The last lines may become readable only a moment
//! after the end was reported, so that moment is waited for. The first read that reaches the end keeps the log for
//! later reads, because executors forget.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Attempt, JobId, LogId, RunId, Target, Text};
use punctual_core::registry::Dialect;
use punctual_node::ports::{
    Address, AttemptRow, Browse, KeptLog, Logs, REVISIONS_MAX, RunView, SentRow, StoreError,
};
use punctual_protocol::Log;

use crate::clock;
use crate::convert::log;
use crate::executors::Executors;
use crate::problem::Problem;

/// How much of a log is kept.
const KEPT_MAX: usize = 1 << 20;

/// How long after the end of an attempt its last lines are readable.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// A missing log is no error for this long after the run was sent.
const FIRST_LINE_WITHIN: Duration = Duration::from_secs(10);

/// How long after the end of an attempt no more lines will come.
const FINAL_AFTER: Duration = Duration::from_secs(5);

/// How long fetching a whole log may take.
const FETCH_WITHIN: Duration = Duration::from_secs(10);

/// The logs of attempts.
#[derive(Clone)]
pub struct Logbook {
    browse: Arc<dyn Browse>,
    logs: Arc<dyn Logs>,
    executors: Arc<dyn Executors>,
    now: Now,
}

/// The current time, if it is known.
pub type Now = Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>;

/// An attempt that went to an executor.
struct LogPlace {
    run: RunId,
    attempt: Attempt,
    log: LogId,
    sent_at: Timestamp,
    address: Address,
}

impl Logbook {
    /// A logbook over these ports.
    pub fn new(
        browse: Arc<dyn Browse>,
        logs: Arc<dyn Logs>,
        executors: Arc<dyn Executors>,
        now: Now,
    ) -> Logbook {
        Logbook { browse, logs, executors, now }
    }

    /// The app of a job whose runs go to executors; none if they do not.
    pub(crate) async fn executors_of(&self, job: JobId) -> Result<Option<Text>, StoreError> {
        Ok(self.handler_of(job).await?.map(|(app, _)| app))
    }

    /// The same with the job's handler. A deleted job counts as what it was last.
    pub(crate) async fn handler_of(&self, job: JobId) -> Result<Option<(Text, String)>, StoreError> {
        let definition = match self.browse.job(job).await? {
            Some(view) => Some(view.definition),
            None => {
                self.browse.revisions(job, 0, REVISIONS_MAX).await?.pop().map(|revision| revision.definition)
            }
        };
        Ok(definition.and_then(|definition| match definition.target {
            Target::Executor(executor) => Some((definition.app.into(), executor.handler)),
            Target::Http(_) => None,
        }))
    }

    /// The lines of an attempt from number `from` on.
    pub(crate) async fn read(
        &self,
        view: &RunView,
        app: &Text,
        attempt: Attempt,
        from: u64,
    ) -> Result<Log, Problem> {
        let kept = self.logs.log(view.id, attempt).await?;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.is_complete) {
            return Ok(page_of(kept, attempt, from));
        }
        if let Some((text, next)) = self.executors.running_log(view.id, attempt, from) {
            let end = ended_at(view, attempt).is_some();
            return Ok(Log { text, next: next.max(from), end, attempt: Some(attempt.0) });
        }
        let sends = self.browse.sends(view.id).await?;
        let sent = sends.into_iter().find(|sent| sent.attempt == attempt && !sent.executor.is_empty());
        // An attempt that was never sent to an executor has only the log that this node tells.
        let Some(sent) = sent else { return Ok(told(view, attempt, from, None)) };
        let place = self.place(app, sent);
        if let Some(ended_at) = ended_at(view, attempt) {
            clock::sleep(SETTLED_AFTER.saturating_sub(self.since(ended_at))).await;
            let fetched = self.fetch_and_keep(&place, ended_at).await;
            return Ok(match (fetched, kept) {
                (Ok(log), _) | (Err(_), Some(log)) if !log.text.is_empty() => page_of(&log, attempt, from),
                (Ok(_), _) => told(view, attempt, from, None),
                (Err(reason), _) => told(view, attempt, from, Some(&place.note(&reason))),
            });
        }
        let page = self.executors.log(&place.address, place.log, place.sent_at, from).await;
        let (text, next) = match page {
            Ok(page) => (page.text, page.next.max(from)),
            // Several executors know of no log before the first line is written.
            Err(_) if self.since(place.sent_at) < FIRST_LINE_WITHIN => (String::new(), from),
            Err(reason) => return Err(Problem::unavailable(place.note(&reason))),
        };
        Ok(Log { text, next, end: false, attempt: Some(attempt.0) })
    }

    /// Fetches the logs of all ended attempts of a run and keeps them, so that they outlive their executor. Returns
    /// how many were fetched; 0 if the run's job has no executors.
    pub async fn keep_all(&self, run: RunId) -> Result<usize, String> {
        let said = |error: StoreError| error.to_string();
        let Some(view) = self.browse.run(run).await.map_err(said)? else { return Ok(0) };
        let Some(app) = self.executors_of(view.job).await.map_err(said)? else { return Ok(0) };
        let mut count = 0;
        for sent in self.browse.sends(run).await.map_err(said)? {
            let kept = self.logs.log(run, sent.attempt).await.map_err(said)?;
            let is_kept = kept.is_some_and(|kept| kept.is_complete);
            let Some(ended_at) = ended_at(&view, sent.attempt) else { continue };
            if is_kept || sent.executor.is_empty() {
                continue;
            }
            let place = self.place(&app, sent);
            self.fetch_and_keep(&place, ended_at).await.map_err(|reason| place.note(&reason))?;
            count += 1;
        }
        Ok(count)
    }

    fn place(&self, app: &Text, sent: SentRow) -> LogPlace {
        let known = self.executors.app(app);
        let dialect = known.as_ref().and_then(|app| {
            let executor = app.executors.iter().find(|executor| executor.address == sent.executor)?;
            Some(executor.dialect)
        });
        let is_known = dialect.is_some();
        let listed = known.as_ref().and_then(|app| app.row.addresses.as_ref());
        let is_listed = listed.is_some_and(|all| all.contains(&sent.executor));
        let address = Address {
            url: sent.executor,
            // An executor that has gone most likely spoke the common dialect.
            dialect: dialect.unwrap_or(Dialect::Classic),
            app: app.clone(),
            access_token: known.and_then(|app| app.row.access_token).filter(|_| is_known).map(Arc::new),
            is_known,
            is_listed,
        };
        LogPlace { run: sent.run, attempt: sent.attempt, log: sent.log, sent_at: sent.sent_at, address }
    }

    /// How long ago an instant was; for ever if the current time is not known.
    fn since(&self, at: Timestamp) -> Duration {
        let Some(now) = (self.now)() else { return Duration::MAX };
        let millis = now.as_millis().saturating_sub(at.as_millis());
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Fetches the whole log of an attempt that has ended and keeps it, marked complete if no more lines can come.
    async fn fetch_and_keep(&self, place: &LogPlace, ended_at: Timestamp) -> Result<KeptLog, String> {
        let is_final = self.since(ended_at) >= FINAL_AFTER;
        let log = KeptLog { is_complete: is_final, ..self.fetch(place).await? };
        // An empty answer may mean that the log is lost, or that it comes later.
        if !log.text.is_empty() {
            self.keep(place, log.clone()).await;
        }
        Ok(log)
    }

    /// The whole log, up to the size that is kept.
    async fn fetch(&self, place: &LogPlace) -> Result<KeptLog, String> {
        let late = clock::instant() + FETCH_WITHIN;
        let mut log = KeptLog { text: String::new(), next_line: 1, is_complete: false };
        while !log.is_complete {
            let asked = self.executors.log(&place.address, place.log, place.sent_at, log.next_line);
            let page = tokio::time::timeout_at(late, asked).await;
            let page = page.map_err(|_| "no answer in time".to_owned())??;
            let has_more = page.next > log.next_line;
            log.next_line = page.next.max(log.next_line);
            let is_full = !append(&mut log, &page.text);
            log.is_complete = is_full || page.is_end || !has_more;
        }
        Ok(log)
    }

    async fn keep(&self, place: &LogPlace, log: KeptLog) {
        if let Err(error) = self.logs.keep_log(place.run, place.attempt, log).await {
            tracing::warn!(run = %place.run, %error, "cannot store the log of a run; the next request fetches it from the executor again");
        }
    }
}

impl LogPlace {
    fn note(&self, reason: &str) -> String {
        let address = &self.address.url;
        let attempt = self.attempt;
        format!("cannot read the log of attempt {attempt} from the executor {address}: {reason}")
    }
}

/// Appends lines while there is room; returns whether all of them fitted.
fn append(log: &mut KeptLog, text: &str) -> bool {
    for line in text.split_inclusive('\n') {
        if log.text.len() + line.len() >= KEPT_MAX {
            return false;
        }
        log.text.push_str(line);
        if !line.ends_with('\n') {
            log.text.push('\n');
        }
    }
    true
}

fn page_of(log: &KeptLog, attempt: Attempt, from: u64) -> Log {
    let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
    let text = log.text.split_inclusive('\n').skip(skipped).collect();
    Log { text, next: log.next_line.max(from), end: true, attempt: Some(attempt.0) }
}

/// What this node knows about an attempt, where the executor has no log.
fn told(view: &RunView, attempt: Attempt, from: u64, note: Option<&str>) -> Log {
    let log = log::log(view, Some(attempt.0), from, note);
    Log { end: ended_at(view, attempt).is_some(), attempt: Some(attempt.0), ..log }
}

/// When an attempt ended; none if it has not.
fn ended_at(view: &RunView, attempt: Attempt) -> Option<Timestamp> {
    let end_of = |row: &AttemptRow| match row {
        AttemptRow::Ended(record) if record.number == attempt => Some(record.ended_at),
        _ => None,
    };
    view.attempts.iter().find_map(end_of).or(view.closed_at)
}

/// The latest attempt of a run; none if there is none yet.
pub(crate) fn latest(view: &RunView) -> Option<Attempt> {
    view.attempts.last().map(|row| match row {
        AttemptRow::Ended(record) => record.number,
        AttemptRow::Open { number, .. } => *number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str, next_line: u64) -> KeptLog {
        KeptLog { text: text.into(), next_line, is_complete: true }
    }

    #[test]
    fn a_kept_log_is_read_from_any_line() {
        let log = kept("a\nb\nc\n", 4);
        for (from, text, next) in [(1, "a\nb\nc\n", 4), (3, "c\n", 4), (4, "", 4), (9, "", 9)] {
            let page = page_of(&log, Attempt(1), from);
            assert_eq!((page.text.as_str(), page.next, page.end), (text, next, true), "{from}");
        }
    }

    #[test]
    fn what_has_no_room_is_left_out_by_whole_lines() {
        let mut log = kept("", 1);
        assert!(append(&mut log, "one\ntwo"));
        assert_eq!(log.text, "one\ntwo\n");
        let line = format!("{}\n", "x".repeat(KEPT_MAX / 2));
        assert!(append(&mut log, &line));
        assert!(!append(&mut log, &line));
        assert!(log.text.len() < KEPT_MAX && log.text.ends_with("x\n"));
    }
}
