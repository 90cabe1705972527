//! The archive: records about runs that are written in the background and never in a hurry. Kills are noted, and the
//! logs of runs that ended badly are fetched before their executor forgets them.

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

/// How many records wait to be written. A record that finds no room is dropped; a log is then fetched when a caller
/// asks for it.
const WAITING_MAX: usize = 1_000;

/// How long after the end of a run its logs are fetched: they are complete by then.
const SETTLED_AFTER: Duration = Duration::from_secs(6);

/// The pause after each log, so that an executor whose runs all fail is not asked for everything at once.
const PAUSE: Duration = Duration::from_millis(200);

/// Takes events and logs for the archive.
#[derive(Clone)]
pub(crate) struct Inlet {
    notes: Sender<(RunId, KillNote)>,
    ended: Sender<(RunId, Instant)>,
    logs: Sender<(RunId, Attempt, KeptLog)>,
}

/// The records that wait to be written.
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
    /// Takes what an event says that is worth keeping. Never waits.
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

    /// Takes the log of an attempt at a native executor; returns whether there was room for it.
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
