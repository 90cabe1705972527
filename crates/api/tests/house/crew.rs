//! Executors as a test wants them: they remember what was asked of them, and say what they were told to say.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_api::{Executors, LogPage, MayReport};
use punctual_core::model::{Attempt, LogId, RunId};
use punctual_core::registry::{Dialect, Secret};
use punctual_node::ports::*;
use punctual_node::{AccessTokens, AppView, Callback, DeskError, ExecutorView};

/// Executors.
#[derive(Default)]
pub(crate) struct Crew {
    apps: Mutex<Vec<AppView>>,
    said: Mutex<Vec<String>>,
    pages: Mutex<VecDeque<Result<LogPage, String>>>,
    kept: Mutex<BTreeMap<(RunId, Attempt), KeptLog>>,
    /// Whether the store behind it does not answer.
    pub(crate) is_away: AtomicBool,
    /// Whether nobody has looked yet which apps there are.
    pub(crate) is_unread: AtomicBool,
}

/// An app with a token of its own, or without.
pub(crate) fn view(name: &'static str, token: Option<&str>) -> AppView {
    let executor = ExecutorView {
        address: super::EXECUTOR.into(),
        dialect: Dialect::Classic,
        beat_at: None,
        is_routable: true,
        is_suspect: false,
        in_flight: 1,
        handlers: None,
    };
    let row = AppRow {
        name: name.into(),
        title: "".into(),
        addresses: None,
        access_token: token.map(Secret::new),
        retention: None,
        paused: None,
        version: 1,
    };
    AppView { row, executors: vec![executor] }
}

impl Crew {
    pub(crate) fn with(apps: Vec<AppView>) -> Arc<Crew> {
        Arc::new(Crew { apps: Mutex::new(apps), ..Crew::default() })
    }

    /// What was asked of it since this was last asked.
    pub(crate) fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.said.lock().unwrap())
    }

    /// What it will answer to questions for logs.
    pub(crate) fn will_tell(&self, pages: Vec<Result<LogPage, String>>) {
        *self.pages.lock().unwrap() = pages.into();
    }

    /// What was kept of an attempt.
    pub(crate) fn kept(&self, run: u64) -> Option<KeptLog> {
        self.kept.lock().unwrap().get(&(RunId(run), Attempt::FIRST)).cloned()
    }

    fn note(&self, said: String) -> Result<(), DeskError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(DeskError::Unknown("nobody answers".into()));
        }
        self.said.lock().unwrap().push(said);
        Ok(())
    }
}

#[async_trait]
impl Executors for Crew {
    fn apps(&self) -> Vec<AppView> {
        self.apps.lock().unwrap().clone()
    }

    fn app(&self, name: &str) -> Option<AppView> {
        self.apps().into_iter().find(|app| app.row.name == name)
    }

    async fn access_tokens(&self) -> Result<Arc<AccessTokens>, DeskError> {
        if self.is_unread.load(Ordering::Relaxed) {
            return Err(DeskError::Unknown("nobody knows the apps".into()));
        }
        let own = |app: AppView| Some((app.row.name, app.row.access_token?));
        Ok(Arc::new(self.apps().into_iter().filter_map(own).collect()))
    }

    async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, DeskError> {
        let mut apps = self.apps.lock().unwrap();
        let place = apps.iter().position(|known| known.row.name == app.name);
        let current = place.map_or(0, |place| apps[place].row.version);
        if expected.is_some_and(|expected| expected != current) {
            return Err(DeskError::Conflict("it has another version".into()));
        }
        let row = AppRow { version: current + 1, ..app };
        match place {
            Some(place) => apps[place].row = row,
            None => apps.push(AppView { row, executors: vec![] }),
        }
        Ok(current + 1)
    }

    async fn remove_app(&self, name: &str) -> Result<bool, DeskError> {
        let mut apps = self.apps.lock().unwrap();
        let before = apps.len();
        apps.retain(|app| app.row.name != name);
        Ok(apps.len() < before)
    }

    fn check_registered(&self, address: &str) -> Result<(), String> {
        self.check_address(address)
    }

    fn check_address(&self, address: &str) -> Result<(), String> {
        match address {
            address if address.contains("169.254.") => Err("169.254.0.1 is a metadata service".into()),
            address if address.starts_with("http://") => Ok(()),
            _ => Err("expected http:// or https://".into()),
        }
    }

    async fn beat(&self, beat: Beat) -> Result<(), DeskError> {
        self.note(format!("beat {} {} {}", beat.app, beat.address, beat.dialect))
    }

    async fn leave(&self, app: &str, address: &str) -> Result<bool, DeskError> {
        self.note(format!("leave {app} {address}")).map(|()| true)
    }

    fn tell_refused(&self, app: &str, address: &str, reason: &str) {
        self.said.lock().unwrap().push(format!("refused {app} {address}: {reason}"));
    }

    /// Whatever is below 100 is a run of `reports`, whatever is below 200 one of `billing`.
    async fn call_back(&self, callbacks: Vec<Callback>, may: MayReport<'_>) -> Result<(), DeskError> {
        for callback in callbacks {
            let app = if callback.log.0 < 100 { "reports" } else { "billing" };
            if may(app) {
                let Callback { log, outcome, message } = callback;
                self.note(format!("report {log} {outcome} {message}"))?;
            }
        }
        Ok(())
    }

    async fn log(&self, address: &Address, log: LogId, _: Timestamp, from: u64) -> Result<LogPage, String> {
        self.said.lock().unwrap().push(format!("log {} {log} {from}", address.url));
        self.pages.lock().unwrap().pop_front().unwrap_or_else(|| Err("it has no more to say".into()))
    }

    fn has_room(&self) -> bool {
        true
    }

    fn attend(&self, _socket: hyper::upgrade::Upgraded, _pass: Arc<dyn punctual_api::Pass>) {
        self.said.lock().unwrap().push("attend".into());
    }

    fn running_log(&self, _run: RunId, _attempt: Attempt, _from: u64) -> Option<(String, u64)> {
        None
    }
}

#[async_trait]
impl Logs for Crew {
    async fn log(&self, run: RunId, attempt: Attempt) -> Result<Option<KeptLog>, StoreError> {
        Ok(self.kept.lock().unwrap().get(&(run, attempt)).cloned())
    }

    async fn keep_log(&self, run: RunId, attempt: Attempt, log: KeptLog) -> Result<(), StoreError> {
        self.kept.lock().unwrap().insert((run, attempt), log);
        Ok(())
    }

    async fn note_kill(&self, _: RunId, _: KillNote) -> Result<(), StoreError> {
        Ok(())
    }

    async fn kills(&self, run: RunId) -> Result<Vec<KillNote>, StoreError> {
        let at = "2026-03-08T07:00:01Z".parse().unwrap();
        let note = KillNote { attempt: Attempt::FIRST, at, is_confirmed: Some(true), said: "done".into() };
        Ok(if run.0 == super::FAILED { vec![note] } else { vec![] })
    }
}
