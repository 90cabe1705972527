//! The past of a demo: a node with a real store whose clock jumps to the next thing that is due, so that a day takes
//! seconds. Everything is written as usual: planned, sent, reported, settled. Only the executors are simulated.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use calendar::{Timestamp, Zones};
use punctual_core::event::Event;
use punctual_core::model::{Attempt, AttemptOutcome, JobId, NodeId, RunId};
use punctual_node::ports::{
    Boot, Clock, Dispatch, Dispatched, Further, Heard, Hint, KeptLog, Kill, Logs, Peers, Probe, Receipt,
    Report, SessionKey, Unmarked,
};
use punctual_node::{Node, Ports, SessionId, Settings, Submission, Wakes};
use punctual_store::sqlite::{self, Limits};
use punctual_store::{Sqlite, StoreClock};

use super::jobs::{APPS, Deed, DemoWork, Dice, WORKS};
use crate::clock::Machine;
use crate::config::Config;

/// Events, with their times.
pub(crate) type Told = Vec<(Timestamp, Vec<Event>)>;

/// Logs are kept only for this last stretch of the past, so that simulating it takes no longer than needed.
const LOGGED: Duration = Duration::from_secs(4 * 3_600);

/// How long before the end the machine slept, and for how long: runs that were due in that time were late.
const SLEPT: (Duration, Duration) = (Duration::from_secs(5 * 3_600 + 1_200), Duration::from_secs(40));

/// How many one-shots are submitted for the past and for the time to come.
const PAST_MAILS: u64 = 140;
const COMING_MAILS: u64 = 220;

/// Simulates the time from one instant to another, and returns the events.
pub(super) async fn live_through(config: &Config, from: Timestamp, until: Timestamp) -> Result<Told, String> {
    let mut life = Life::begin(config, from)?;
    life.settle_in().await;
    life.hire().await?;
    let mail = life.make_jobs(from).await?;
    life.hand_over(mail, from, until, PAST_MAILS).await?;
    life.live_until(until).await;
    let tomorrow = until.saturating_add(Duration::from_secs(86_400));
    life.hand_over(mail, until, tomorrow, COMING_MAILS).await?;
    life.end(until).await
}

/// The simulated clock, in milliseconds since 1970, and its start.
struct Hands {
    now: AtomicI64,
    began: i64,
}

impl Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::Relaxed))
    }
}

impl Clock for Hands {
    fn boot(&self) -> Boot {
        let since = self.now.load(Ordering::Relaxed) - self.began;
        Boot(Duration::from_millis(u64::try_from(since).unwrap_or(0)))
    }
}

/// A dispatch without executors: it remembers what was sent.
#[derive(Default)]
struct Stage(Mutex<Vec<Dispatched>>);

impl Stage {
    fn take(&self) -> Vec<Dispatched> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Dispatch for Stage {
    fn send(&self, sends: Vec<Dispatched>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(sends);
    }
    fn kill(&self, _: Vec<Kill>) {}
    fn probe(&self, _: Vec<Probe>) {}
    fn acknowledge(&self, _: Vec<Receipt>) {}
}

struct Nobody;

impl Peers for Nobody {
    fn tell(&self, _: NodeId, _: Hint) {}
}

/// When each step is due next, in the order in which the steps feed each other.
#[derive(Default)]
struct Agenda([Boot; 8]);

struct Life {
    hands: Arc<Hands>,
    store: Arc<Sqlite>,
    stage: Arc<Stage>,
    node: Node,
    agenda: Agenda,
    /// Reports that executors will send, by time.
    coming: BTreeMap<(i64, u64), (Report, String)>,
    sessions: Vec<(&'static str, String, SessionId)>,
    works: BTreeMap<JobId, &'static DemoWork>,
    told: Told,
    receipts: AtomicU64,
    dice: Dice,
}

impl Life {
    fn begin(config: &Config, from: Timestamp) -> Result<Life, String> {
        let hands =
            Arc::new(Hands { now: AtomicI64::new(from.as_millis()), began: from.as_millis() - 1_000 });
        let clock: StoreClock = {
            let hands = Arc::clone(&hands);
            Arc::new(move || hands.now())
        };
        let options = sqlite::Options {
            shards: config.shards,
            key_ttl: config.keep_keys,
            clock,
            ends_leases: true,
            limits: Limits::default(),
        };
        let store = Sqlite::open(&config.data.join("punctual.db"), options);
        let store = Arc::new(store.map_err(|error| format!("cannot open the demo's store: {error}"))?);
        let stage = Arc::new(Stage::default());
        let ports = Ports {
            clock: Arc::clone(&hands) as _,
            entropy: Arc::new(Machine),
            store: Arc::clone(&store) as _,
            apps: Arc::clone(&store) as _,
            records: Arc::clone(&store) as _,
            dispatch: Arc::clone(&stage) as _,
            peers: Arc::new(Nobody),
            fired: Arc::new(Unmarked),
        };
        // This is the only node and nothing is urgent, so it renews its leases seldom.
        let seldom = Duration::from_secs(60);
        let settings = Settings {
            term: seldom * 3,
            renew_every: seldom,
            horizon: seldom * 2,
            look_every: seldom,
            load_ahead: seldom * 4,
            sweep_every: seldom * 30,
            name: "demo".into(),
            ..Settings::default()
        };
        let node = Node::new(ports, settings, Arc::new(Zones::bundled()));
        Ok(Life {
            hands,
            store,
            stage,
            node,
            agenda: Agenda::default(),
            coming: BTreeMap::new(),
            sessions: Vec::new(),
            works: BTreeMap::new(),
            told: Vec::new(),
            receipts: AtomicU64::new(1),
            dice: Dice(from.as_millis().unsigned_abs()),
        })
    }

    /// Until the node acts for all shards.
    async fn settle_in(&mut self) {
        for _ in 0..8 {
            self.forward(self.hands.now().saturating_add(Duration::from_secs(1)));
            self.agenda = Agenda::default();
            self.round().await;
        }
    }

    /// Registers executors with a session, as far as the node can tell.
    async fn hire(&mut self) -> Result<(), String> {
        for (app, count) in APPS {
            for number in 1..=count {
                let url = format!("native:{app}-worker-{number}/{number}");
                let came = self.node.native_came(app, &url, vec![], vec![], false).await;
                let (session, _) = came.map_err(|error| error.to_string())?;
                self.node.heard(vec![Heard::Credit { of: SessionKey::new(app, &url), more: 1_000_000 }]);
                self.sessions.push((app, url, session));
            }
        }
        Ok(())
    }

    /// Creates the jobs, and returns the one that takes one-shots.
    async fn make_jobs(&mut self, anchor: Timestamp) -> Result<JobId, String> {
        let mut mail = None;
        for work in WORKS {
            let made = self.node.create(work.definition(anchor), !work.is_stopped, "demo".into()).await;
            let job = made.map_err(|error| error.to_string())?.job;
            self.works.insert(job, work);
            if work.name == "send-welcome-mail" {
                mail = Some(job);
            }
        }
        mail.ok_or_else(|| "no job of the demo takes one-shots".to_owned())
    }

    /// Submits one-shots that are due between two instants.
    async fn hand_over(
        &mut self,
        job: JobId,
        from: Timestamp,
        until: Timestamp,
        count: u64,
    ) -> Result<(), String> {
        let span = (until.as_millis() - from.as_millis()).unsigned_abs();
        let mails = (0..count).map(|_| {
            let at = from.saturating_add(Duration::from_millis(self.dice.below(span)));
            let customer = self.dice.below(90_000) + 10_000;
            let payload = format!("{{\"customer\":{customer},\"template\":\"welcome\"}}");
            Submission {
                job,
                at: Some(at),
                payload: Some(payload.into()),
                key: Some(format!("welcome-{customer}").into()),
                priority: None,
                overrides: punctual_core::model::Overrides::default(),
            }
        });
        let mails: Vec<Submission> = mails.collect();
        self.node.submit(mails).await.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn live_until(&mut self, until: Timestamp) {
        let before_end = |by: Duration| Timestamp::from_millis(until.as_millis() - by.as_millis() as i64);
        let (logged_from, mut sleeps_at) = (before_end(LOGGED), Some(before_end(SLEPT.0)));
        loop {
            self.round().await;
            self.play();
            let next = self.next().min(until);
            if self.hands.now() >= until {
                return;
            }
            // Real nodes are always some milliseconds late.
            let late = self.dice.below(9) as i64;
            let next = Timestamp::from_millis(next.as_millis().max(self.hands.now().as_millis()) + late);
            self.forward(next);
            if sleeps_at.take_if(|at| *at <= next).is_some() {
                self.forward(next.saturating_add(SLEPT.1));
            }
            self.deliver(logged_from).await;
        }
    }

    fn forward(&self, to: Timestamp) {
        self.hands.now.fetch_max(to.as_millis(), Ordering::Relaxed);
    }

    /// The next instant at which something is due.
    fn next(&self) -> Timestamp {
        let step = self.agenda.0.iter().min().copied().unwrap_or_default();
        let step = self.hands.began.saturating_add(i64::try_from(step.0.as_millis()).unwrap_or(i64::MAX));
        let said = self.coming.keys().next().map_or(i64::MAX, |(at, _)| *at);
        Timestamp::from_millis(step.min(said))
    }

    /// Takes every step that is due, and the steps that those make due.
    async fn round(&mut self) {
        for _ in 0..20 {
            let boot = self.hands.boot();
            let mut is_quiet = true;
            for step in 0..self.agenda.0.len() {
                if self.agenda.0[step] <= boot {
                    is_quiet = false;
                    self.agenda.0[step] = self.take(step).await;
                    self.wake(self.node.take_wakes());
                }
            }
            let events = self.node.take_events();
            if !events.is_empty() {
                self.told.push((self.hands.now(), events));
            }
            if is_quiet {
                return;
            }
        }
        // A step that is always due would stop the clock.
        let soon = Boot(self.hands.boot().0 + Duration::from_millis(50));
        self.agenda.0.iter_mut().for_each(|at| *at = (*at).max(soon));
    }

    async fn take(&self, step: usize) -> Boot {
        let node = &self.node;
        match step {
            0 => node.renew().await,
            1 => node.load().await,
            2 => node.plan().await,
            3 => node.tend().await,
            4 => node.watch().await,
            5 => node.fire().await,
            6 => node.settle().await,
            _ => node.reap().await,
        }
    }

    fn wake(&mut self, wakes: Wakes) {
        let Wakes { renew, plan, load, fire, settle, reap, tend, watch } = wakes;
        for (step, is_due) in [renew, load, plan, tend, watch, fire, settle, reap].into_iter().enumerate() {
            if is_due {
                self.agenda.0[step] = Boot::default();
            }
        }
    }

    /// Lets the executors begin what was sent, and notes when they will have finished.
    fn play(&mut self) {
        for send in self.stage.take() {
            let Some(work) = self.works.get(&send.job.id) else { continue };
            let Deed { takes, lines, end } = work.deed(send.run.0, send.attempt.0);
            let started_at = self.hands.now();
            let (outcome, message) = match end {
                Ok(said) => (AttemptOutcome::Succeeded, said),
                Err(said) => (AttemptOutcome::Failed, said),
            };
            let receipt = self.receipts.fetch_add(1, Ordering::Relaxed);
            let url = send.address.as_ref().map(|address| address.url.clone()).unwrap_or_default();
            let report = Report {
                receipt: Receipt(receipt),
                run: send.run,
                attempt: send.attempt,
                token: send.token,
                outcome,
                message: message.into(),
                executor: url,
                app: send.address.as_ref().map(|address| address.app.clone()),
                started_at,
                ended_at: None,
                retry_after: None,
                further: Further::Welcome,
            };
            let at = started_at.saturating_add(takes).as_millis();
            self.coming.insert((at, receipt), (report, written(&lines)));
        }
    }

    /// Delivers the reports that are due by now.
    async fn deliver(&mut self, logged_from: Timestamp) {
        let now = self.hands.now();
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= now.as_millis()) {
            let (report, log) = entry.remove();
            if now >= logged_from && !log.is_empty() {
                self.keep_log(report.run, report.attempt, log).await;
            }
            let of = SessionKey::new(report.app.as_deref().unwrap_or(""), &report.executor);
            self.node.report(report);
            self.node.heard(vec![Heard::Credit { of, more: 1 }]);
        }
        self.wake(self.node.take_wakes());
        self.agenda.0[6] = Boot::default();
    }

    async fn keep_log(&self, run: RunId, attempt: Attempt, text: String) {
        let next_line = text.lines().count() as u64 + 1;
        let log = KeptLog { text, next_line, is_complete: true };
        if let Err(error) = self.store.keep_log(run, attempt, log).await {
            tracing::debug!(%error, "a log of the demo was not kept");
        }
    }

    /// Lets the running attempts end, closes the sessions, and stops the node.
    async fn end(mut self, until: Timestamp) -> Result<Told, String> {
        let said = |error: &dyn std::fmt::Display| format!("the demo's past did not end well: {error}");
        // Attempts that would take longer end now: the store goes on in real time.
        let late: Vec<_> = std::mem::take(&mut self.coming).into_values().collect();
        for (report, log) in late {
            self.keep_log(report.run, report.attempt, log).await;
            self.node.report(report);
        }
        self.agenda = Agenda::default();
        self.round().await;
        for (app, url, session) in std::mem::take(&mut self.sessions) {
            let went = self.node.native_went(app, &url, session, true).await;
            went.map_err(|error| said(&error))?;
        }
        self.node.leave().await.map_err(|error| said(&error))?;
        debug_assert!(self.hands.now() >= until, "it lived to the end");
        Ok(self.told)
    }
}

fn written(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}
