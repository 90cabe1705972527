//! The archive: what is written down beside runs because of what happened to them, in the background and never in a
//! hurry. Kills are noted, and the logs of runs that ended badly are fetched before their executor forgets them.

use std::sync::Arc;
use std::time::Duration;

use punctual_api::Logbook;
use punctual_core::event::Event;
use punctual_core::model::{Attempt, Outcome, RunId};
use punctual_dispatch::Natives;
use punctual_node::ports::{KeptLog, KillNote, Logs};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock;

/// How much waits to be written; what finds no room is not written, and a log is then fetched when somebody asks.
const WAITING_MAX: usize = 1_000;

/// How long after the end of a run its logs are fetched: they are whole by then.
const SETTLED_AFTER: Duration = Duration::from_secs(6);

/// The pause after each log. An executor that has a bad day is not asked for everything at once.
const PAUSE: Duration = Duration::from_millis(200);

/// Where what happened is handed in.
#[derive(Clone)]
pub(crate) struct Inlet {
    notes: Sender<(RunId, KillNote)>,
    ended: Sender<(RunId, Instant)>,
    logs: Sender<(RunId, Attempt, KeptLog)>,
}

/// What is to be written.
pub(crate) struct Archive {
    notes: Receiver<(RunId, KillNote)>,
    ended: Receiver<(RunId, Instant)>,
    logs: Receiver<(RunId, Attempt, KeptLog)>,
}

/// An empty archive, and its inlet.
pub(crate) fn open() -> (Inlet, Archive) {
    let (notes, noted) = mpsc::channel(WAITING_MAX);
    let (ended, to_be_fetched) = mpsc::channel(WAITING_MAX);
    let (logs, to_be_kept) = mpsc::channel(WAITING_MAX);
    let archive = Archive { notes: noted, ended: to_be_fetched, logs: to_be_kept };
    (Inlet { notes, ended, logs }, archive)
}

impl Inlet {
    /// Takes what is worth keeping. Never waits.
    pub(crate) fn take(&self, event: &Event) {
        match event {
            Event::KillAsked { run, attempt, .. } => {
                self.note(
                    *run,
                    KillNote { attempt: *attempt, at: clock::now(), is_confirmed: None, said: "".into() },
                );
            }
            Event::KillAnswered { run, attempt, is_confirmed, said } => {
                let (attempt, is_confirmed, said) = (*attempt, Some(*is_confirmed), said.clone());
                self.note(*run, KillNote { attempt, at: clock::now(), is_confirmed, said });
            }
            Event::Closed { run, outcome: Outcome::Failed | Outcome::Lost, .. } => {
                let _ = self.ended.try_send((*run, clock::instant() + SETTLED_AFTER));
            }
            _ => {}
        }
    }

    /// Takes what an attempt at a native executor wrote. Whether there was room for it.
    pub(crate) fn take_log(&self, run: RunId, attempt: Attempt, log: KeptLog) -> bool {
        self.logs.try_send((run, attempt, log)).is_ok()
    }

    fn note(&self, run: RunId, note: KillNote) {
        if self.notes.try_send((run, note)).is_err() {
            tracing::warn!(%run, "there is no room to note what came of a kill");
        }
    }
}

impl Archive {
    /// Writes until it is told to end.
    pub(crate) async fn write(
        self,
        logs: Arc<dyn Logs>,
        logbook: Logbook,
        natives: Arc<Natives>,
        end: watch::Receiver<bool>,
    ) {
        let Archive { notes, ended, logs: written } = self;
        tokio::join!(
            note_kills(notes, Arc::clone(&logs), end.clone()),
            keep_logs(written, logs, natives, end.clone()),
            fetch_logs(ended, logbook, end)
        );
    }
}

async fn note_kills(
    mut notes: Receiver<(RunId, KillNote)>,
    logs: Arc<dyn Logs>,
    mut end: watch::Receiver<bool>,
) {
    loop {
        let (run, note) = tokio::select! {
            noted = notes.recv() => match noted { Some(noted) => noted, None => return },
            _ = end.wait_for(|end| *end) => return,
        };
        if let Err(error) = logs.note_kill(run, note).await {
            tracing::warn!(%run, %error, "what came of a kill could not be noted");
        }
    }
}

async fn keep_logs(
    mut written: Receiver<(RunId, Attempt, KeptLog)>,
    logs: Arc<dyn Logs>,
    natives: Arc<Natives>,
    mut end: watch::Receiver<bool>,
) {
    loop {
        let (run, attempt, log) = tokio::select! {
            written = written.recv() => match written { Some(written) => written, None => return },
            _ = end.wait_for(|end| *end) => return,
        };
        if let Err(error) = logs.keep_log(run, attempt, log).await {
            tracing::warn!(%run, %error, "a log could not be kept");
        }
        natives.forget_log(run, attempt);
    }
}

async fn fetch_logs(mut ended: Receiver<(RunId, Instant)>, logbook: Logbook, mut end: watch::Receiver<bool>) {
    loop {
        let (run, settled_at) = tokio::select! {
            run = ended.recv() => match run { Some(run) => run, None => return },
            _ = end.wait_for(|end| *end) => return,
        };
        tokio::select! {
            () = clock::sleep_until(settled_at) => {}
            _ = end.wait_for(|end| *end) => return,
        }
        let pause = match logbook.keep_all(run).await {
            Ok(0) => Duration::ZERO,
            Ok(_) => PAUSE,
            Err(reason) => {
                tracing::debug!(%run, %reason, "a log could not be kept");
                PAUSE
            }
        };
        tokio::select! {
            () = clock::sleep(pause) => {}
            _ = end.wait_for(|end| *end) => return,
        }
    }
}
