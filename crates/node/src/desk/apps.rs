//! Apps and executors: beats, goodbyes, and what people set. A beat is taken into memory before it is kept, so that an
//! executor stays reachable while the store is away; it is answered only when it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{AttemptOutcome, JobId, LogId, Text};
use punctual_core::registry::{Addresses, App, Dialect, Health, RegisteredExecutor, Secret};

use crate::Node;
use crate::desk::DeskError;
use crate::entitled::{Claimant, SortedClaims};
use crate::jobs::Known;
use crate::memory::Memory;
use crate::natives::{Claim, Comer, NATIVE, SessionId};
use crate::ports::{
    Address, AppRow, Beat, ExecutorRow, Further, Receipt, Registered, Report, SentRow, SessionKey,
};

/// How many attempts of a callback are looked up at once.
const LOOKED_UP: usize = 1_000;

/// The tokens of those apps that have one of their own, by the apps' names.
pub type AccessTokens = BTreeMap<Text, Secret>;

/// An app as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppView {
    /// What is kept.
    pub row: AppRow,
    /// Its executors, in the order in which they are chosen from; those that registered but are not chosen from, because
    /// people set the addresses, come last.
    pub executors: Vec<ExecutorView>,
}

/// An executor as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorView {
    /// Its address.
    pub address: Text,
    /// How it speaks.
    pub dialect: Dialect,
    /// When it was last heard of; none if it never registered.
    pub beat_at: Option<Timestamp>,
    /// Whether runs are sent to it now.
    pub is_routable: bool,
    /// Whether it does not answer although it is registered.
    pub is_suspect: bool,
    /// How many attempts this node has there.
    pub in_flight: usize,
    /// What it offers, by name; none if it has no session with this node, or takes everything.
    pub handlers: Option<Vec<Text>>,
}

/// What an executor says about an attempt that it knows by the number of its gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The number.
    pub log: LogId,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// What it said.
    pub message: Text,
}

/// How many executors are registered at most, over all apps. A program that registers under another address with each start
/// would fill memory otherwise.
const REGISTRY_MAX: usize = 100_000;

/// How many of them may be of one app, so that one app cannot keep out those of others.
const APP_EXECUTORS_MAX: usize = 25_000;

impl Node {
    /// Takes the beat of an executor. It counts from now on, and is answered when it is kept.
    pub async fn beat(&self, beat: Beat) -> Result<(), DeskError> {
        if let Some(said) = self.lack_of_room(&beat) {
            self.tell_refused(&beat.app, &beat.address, said);
            return Err(DeskError::Conflict(said.into()));
        }
        self.hear_beat(&beat);
        self.ports.apps.beat(vec![beat.clone()]).await?;
        // A registry that was read meanwhile could not know of this beat.
        self.hear_beat(&beat);
        Ok(())
    }

    /// Why the registry takes no executor that it does not know; none if it does.
    fn lack_of_room(&self, beat: &Beat) -> Option<&'static str> {
        let registry = &self.memory().executors.registry;
        if registry.executor(&beat.app, &beat.address).is_some() {
            return None;
        }
        if registry.executors_of(&beat.app) >= APP_EXECUTORS_MAX {
            return Some("the app has 25,000 executors registered, which is all one app may have");
        }
        (registry.executor_count() >= REGISTRY_MAX)
            .then_some("there are 100,000 executors registered, which is all this cluster keeps")
    }

    pub(crate) fn hear_beat(&self, beat: &Beat) {
        let Some(now) = self.now() else { return };
        let mut memory = self.memory();
        let change = memory.executors.registry.beat(&beat.app, &beat.address, beat.dialect, now);
        memory.note_changes(change.into_iter().collect(), now);
    }

    /// Takes the goodbye of an executor; whether it was known. It is sent nothing from now on.
    pub async fn executor_left(&self, app: &str, address: &str) -> Result<bool, DeskError> {
        self.hear_goodbye(app, address);
        let was_known = self.ports.apps.leave(app, address).await?;
        // A registry that was read meanwhile may have brought the executor back.
        self.hear_goodbye(app, address);
        Ok(was_known)
    }

    /// Opens a session of a native executor with this node: it offers these handlers (none: any) and holds these
    /// claims. Returns the claims that are over. An attempt that it was given and does not hold counts as never
    /// arrived. An executor that another node carries comes only if it is not here already.
    pub async fn native_came(
        &self,
        app: &str,
        url: &str,
        handlers: Vec<Text>,
        holds: Vec<Claim>,
        is_carried: bool,
    ) -> Result<(SessionId, Vec<Claim>), DeskError> {
        let SortedClaims { live, stale, .. } = self.sort_claims(Claimant { app, url }, holds).await?;
        let (app, url) = (Text::Owned(app.to_owned()), Text::Owned(url.to_owned()));
        if !is_carried {
            let beat = Beat { app: app.clone(), address: url.clone(), dialect: Dialect::Native };
            self.beat(beat).await?;
        }
        let now = self.told_time()?;
        let mut memory = self.memory();
        if is_carried && memory.executors.natives.is_here(&SessionKey { app: app.clone(), url: url.clone() })
        {
            return Err(DeskError::Conflict(format!("{url} has a session here already").into()));
        }
        let address = Arc::new(Address { dialect: Dialect::Native, ..memory.executor_at(&app, &url) });
        let session = memory.native_came(Comer { address, handlers, is_carried }, &live, now);
        Ok((session, stale))
    }

    /// A native executor's session with this node is over. After a goodbye it has nothing any more.
    pub async fn native_went(
        &self,
        app: &str,
        url: &str,
        session: SessionId,
        is_final: bool,
    ) -> Result<(), DeskError> {
        let (now, of) = (self.told_time()?, SessionKey::new(app, url));
        let was_reached = self.memory().executors.natives.is_reached(&of);
        let went = self.memory().native_went(&of, session, is_final, now);
        if !went || !was_reached {
            // The executor has opened another session, or another node carried it here.
            return Ok(());
        }
        self.executor_left(app, url).await?;
        if self.memory().executors.natives.is_here(&of) {
            // It came back meanwhile.
            let (app, address) = (Text::Owned(app.to_owned()), Text::Owned(url.to_owned()));
            self.beat(Beat { app, address, dialect: Dialect::Native }).await?;
        }
        Ok(())
    }

    fn hear_goodbye(&self, app: &str, address: &str) {
        let Some(now) = self.now() else { return };
        let mut memory = self.memory();
        let change = memory.executors.registry.leave(app, address, now);
        memory.note_changes(change.into_iter().collect(), now);
    }

    /// Creates or replaces an app; its version from now on.
    pub async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, DeskError> {
        let version = self.ports.apps.put_app(app.clone(), expected).await?;
        // The caller that puts an app does not decide whether it is paused.
        let paused = self.memory().executors.paused.get(&app.name).cloned();
        self.note_app(&AppRow { version, paused, ..app });
        Ok(version)
    }

    /// Takes note of an app as it is kept now.
    pub(super) fn note_app(&self, app: &AppRow) {
        let Some(now) = self.now() else { return };
        let mut memory = self.memory();
        memory.executors.versions.insert(app.name.clone(), app.version);
        memory.note_retention(app);
        memory.note_paused(app);
        memory.executors.registry.put_app(app_of(app.clone()), now);
        memory.renew_tokens();
        memory.recall(&app.name);
    }

    /// Forgets an app with its executors; whether it was there.
    pub async fn remove_app(&self, name: &str) -> Result<bool, DeskError> {
        let was_there = self.ports.apps.remove_app(name).await?;
        if let Some(now) = self.now() {
            let mut memory = self.memory();
            let changes = memory.executors.registry.remove_app(name, now);
            memory.executors.retentions.remove(name);
            memory.executors.paused.remove(name);
            memory.renew_tokens();
            memory.note_changes(changes, now);
        }
        Ok(was_there)
    }

    /// All apps, by name.
    pub fn apps(&self) -> Vec<AppView> {
        let memory = self.memory();
        let busy = memory.busy_executors();
        memory.executors.registry.apps().map(|app| memory.view(app, &busy)).collect()
    }

    /// One app.
    pub fn app(&self, name: &str) -> Option<AppView> {
        let memory = self.memory();
        let app = memory.executors.registry.app(name)?;
        Some(memory.view(app, &memory.busy_executors()))
    }

    /// The tokens of those apps that have one of their own. Before the first look around, the store is asked: as long
    /// as the tokens are not known, no caller may speak for an app.
    pub async fn access_tokens(&self) -> Result<Arc<AccessTokens>, DeskError> {
        let known = self.memory().executors.tokens.clone();
        if let Some(tokens) = known {
            return Ok(tokens);
        }
        let apps = self.ports.apps.registered().await?.apps;
        Ok(Arc::new(apps.into_iter().filter_map(|app| Some((app.name, app.access_token?))).collect()))
    }

    /// Tells that an executor wanted to register or to leave, and was refused.
    pub fn tell_refused(&self, app: &str, address: &str, reason: &str) {
        let text = |said: &str| Text::Owned(said.to_owned());
        let (app, address, reason) = (text(app), text(address), text(reason));
        self.memory().outbox.events.push(Event::RegistrationRefused { app, address, reason });
    }

    /// The reports that callbacks mean, for [`Node::keep`]. A callback whose number is unknown, or whose app `may` does not
    /// allow, is left out, and an event says so.
    pub async fn reports_of(
        &self,
        callbacks: &[Callback],
        may: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Vec<Report>, DeskError> {
        // The attempts have ended by now, however long the store takes to find them.
        let came_at = self.now();
        let logs: BTreeSet<LogId> = callbacks.iter().map(|callback| callback.log).collect();
        let logs: Vec<LogId> = logs.into_iter().collect();
        let mut sent = Vec::new();
        // In portions, so that other callers of the store get their turn in between.
        for portion in logs.chunks(LOOKED_UP) {
            sent.extend(self.ports.store.sent(portion).await?);
        }
        let jobs: BTreeSet<JobId> = sent.iter().map(|sent| sent.job).collect();
        self.know_jobs(jobs).await?;
        let sent: BTreeMap<LogId, SentRow> = sent.into_iter().map(|sent| (sent.log, sent)).collect();
        let mut memory = self.memory();
        let mut reports = Vec::with_capacity(callbacks.len());
        let mut refused = Refused::default();
        for callback in callbacks {
            let known = sent.get(&callback.log);
            match known
                .map_or(Err("there is no such send"), |sent| memory.is_allowed(sent, may).map(|()| sent))
            {
                Ok(sent) => reports.push(report_of(sent, callback, came_at)),
                Err(reason) => {
                    refused.add(callback.log, reason);
                }
            }
        }
        refused.tell(&mut memory.outbox.events);
        Ok(reports)
    }
}

/// Results of one message that were not taken: one event for each reason, however many there are.
#[derive(Default)]
struct Refused(BTreeMap<&'static str, (LogId, u64)>);

impl Refused {
    fn add(&mut self, log: LogId, reason: &'static str) {
        self.0.entry(reason).or_insert((log, 0)).1 += 1;
    }

    fn tell(self, events: &mut Vec<Event>) {
        events.extend(self.0.into_iter().map(|(reason, (first, count))| {
            let reason = Text::Borrowed(reason);
            match count {
                1 => Event::ReportRefused { log: first, reason },
                count => Event::ReportsRefused { count, first, reason },
            }
        }));
    }
}

fn report_of(sent: &SentRow, callback: &Callback, came_at: Option<Timestamp>) -> Report {
    Report {
        receipt: Receipt::default(),
        run: sent.run,
        attempt: sent.attempt,
        token: sent.token,
        outcome: callback.outcome,
        message: callback.message.clone(),
        executor: sent.executor.clone(),
        app: None,
        started_at: sent.sent_at,
        ended_at: came_at,
        retry_after: None,
        further: Further::Welcome,
    }
}

impl Memory {
    /// Whether a callback may speak of a send: it went to an executor that calls back, of an app that it may speak for.
    fn is_allowed(&self, sent: &SentRow, may: &(dyn Fn(&str) -> bool + Sync)) -> Result<(), &'static str> {
        let Some(Known::Job(job)) = self.jobs.get(sent.job) else {
            return Err("its job cannot be read, so nobody can say of which app it is");
        };
        if !may(&job.definition.app) {
            return Err("it is of another app");
        }
        let flight = self.in_flight.flights.get(&sent.run).filter(|flight| flight.attempt == sent.attempt);
        let is_called = match flight {
            Some(flight) => flight.address.as_ref().is_some_and(|at| at.dialect != Dialect::Native),
            None => job.executor().is_some(),
        };
        // An executor with a session reports over that, where it is checked who it is.
        let calls_back = is_called && !sent.executor.starts_with(NATIVE);
        calls_back.then_some(()).ok_or("it was not sent to an executor that calls back")
    }

    /// How many attempts each executor has from this node.
    fn busy_executors(&self) -> BTreeMap<SessionKey, usize> {
        let mut busy = BTreeMap::new();
        for address in self.in_flight.flights.values().filter_map(|flight| flight.address.as_ref()) {
            *busy.entry(SessionKey::from(&**address)).or_default() += 1;
        }
        busy
    }

    fn view(&self, app: &App, busy: &BTreeMap<SessionKey, usize>) -> AppView {
        let routable: Vec<&str> =
            self.executors.registry.routable(&app.name).map(|(address, _)| &**address).collect();
        let place = |executor: &RegisteredExecutor| {
            routable.iter().position(|address| **address == *executor.address)
        };
        let mut executors: Vec<&RegisteredExecutor> = self.executors.registry.executors(&app.name).collect();
        executors.sort_by_key(|executor| place(executor).unwrap_or(usize::MAX));
        let show = |executor: &RegisteredExecutor| ExecutorView {
            address: executor.address.to_string().into(),
            dialect: executor.dialect,
            beat_at: executor.last_beat,
            is_routable: place(executor).is_some(),
            is_suspect: executor.health() == Health::Suspect,
            in_flight: busy.get(&SessionKey::new(&app.name, &executor.address)).copied().unwrap_or(0),
            handlers: self.executors.natives.handlers(&SessionKey::new(&app.name, &executor.address)),
        };
        AppView { row: self.row_of(app), executors: executors.into_iter().map(show).collect() }
    }

    fn row_of(&self, app: &App) -> AppRow {
        AppRow {
            name: app.name.to_string().into(),
            title: app.title.clone().into(),
            addresses: match &app.addresses {
                Addresses::Auto => None,
                Addresses::Manual(list) => Some(list.iter().map(|one| one.clone().into()).collect()),
            },
            access_token: app.access_token.clone(),
            retention: self.executors.retentions.get(&*app.name).copied(),
            paused: self.executors.paused.get(&*app.name).cloned(),
            version: self.executors.versions.get(&*app.name).copied().unwrap_or(0),
        }
    }
}

/// An app as the registry knows it.
pub(crate) fn app_of(row: AppRow) -> App {
    let addresses = match row.addresses {
        None => Addresses::Auto,
        Some(list) => Addresses::Manual(list.into_iter().map(Text::into_owned).collect()),
    };
    App {
        name: (&*row.name).into(),
        title: row.title.into_owned(),
        addresses,
        access_token: row.access_token,
    }
}

/// What the store says, as the registry hears it.
pub(crate) fn snapshot(began: Timestamp, registered: Registered) -> punctual_core::registry::Snapshot {
    let beat = |row: ExecutorRow| punctual_core::registry::Beat {
        app: (&*row.app).into(),
        address: (&*row.address).into(),
        dialect: row.dialect,
        at: row.beat_at,
    };
    punctual_core::registry::Snapshot {
        began,
        apps: registered.apps.into_iter().map(app_of).collect(),
        beats: registered.executors.into_iter().map(beat).collect(),
    }
}
