//! Metrics in the format of Prometheus. Everything is counted where it happens, at the cost of an addition. The
//! number of series does not grow with jobs or runs: no label has a value that a user chooses.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use punctual_core::event::Event;
use punctual_core::model::Outcome;
use punctual_core::registry::ChangeKind;

/// Upper bounds of the buckets for lags, in seconds: fine around the target, coarse beyond it.
const LAGS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0];

/// Gauges, as they are at the moment of a scrape.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Runs that are loaded and not on their way.
    pub loaded: u64,
    /// Attempts that are on their way.
    pub running: u64,
    /// Runs that are due and not started.
    pub due: u64,
    /// How long the oldest of those has been due, in milliseconds; 0 if there is none.
    pub oldest_due_ms: u64,
    /// How long the cluster's time has stood still, in milliseconds.
    pub time_held_ms: u64,
    /// Shards that the node acts for.
    pub shards: u64,
    /// Live nodes, as far as this node knows.
    pub nodes: u64,
    /// By how much this machine's clock is ahead of the cluster's, in milliseconds.
    pub skew_ms: i64,
    /// Shards that the database was asked for although Redis refused them, since the start.
    pub redis_overruled: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Open connections without an authenticated caller.
    pub strangers: u64,
    /// Streams of events, logs and lines that are open.
    pub streams: u64,
    /// Bytes of bodies that are held.
    pub buffered: u64,
    /// Connections that had to make room for others, since the start.
    pub connections_evicted: u64,
    /// Sessions of native executors that were refused, since the start.
    pub sessions_refused: u64,
    /// Bodies that were refused for lack of room, since the start.
    pub bodies_refused: u64,
    /// Streams that were refused for lack of room, since the start.
    pub streams_refused: u64,
    /// Streams that ended with their token, since the start.
    pub streams_ended: u64,
    /// Callbacks that were refused because they named too many attempts, since the start.
    pub callbacks_refused: u64,
    /// Calls that were refused because they showed no valid token, since the start.
    pub calls_unauthenticated: u64,
    /// The same for those whose address had made too many such calls.
    pub calls_too_often: u64,
    /// The same for those whose body was too long.
    pub calls_too_large: u64,
    /// The same for those whose body came too slowly.
    pub calls_too_slow: u64,
}

/// All metrics.
pub struct Metrics {
    registry: Registry,
    sent: Counter,
    lag: Histogram,
    closed: Family<ByOutcome, Counter>,
    retries: Counter,
    missed: Counter,
    delayed: Counter,
    late_reports: Counter,
    refused_reports: Counter,
    refused_registrations: Counter,
    executors: Family<ByChange, Counter>,
    executors_crowded: Counter,
    memory_discarded: Counter,
    arrivals_refused: Counter,
    kills: Counter,
    kills_answered: Family<ByAnswer, Counter>,
    jobs_changed: Counter,
    jobs_stopped: Counter,
    shards_taken: Counter,
    shards_left: Counter,
    clock_steps: Counter,
    store_failures: Family<ByStep, Counter>,
    loaded: Gauge<u64, AtomicU64>,
    running: Gauge<u64, AtomicU64>,
    due: Gauge<u64, AtomicU64>,
    oldest_due: Gauge<f64, AtomicU64>,
    time_held: Gauge<f64, AtomicU64>,
    shards: Gauge<u64, AtomicU64>,
    nodes: Gauge<u64, AtomicU64>,
    skew: Gauge<f64, AtomicU64>,
    redis_overruled: Counter,
    door: Door,
}

/// What the API and its listener hold and have refused, as they report it.
#[derive(Default)]
struct Door {
    connections: Gauge<u64, AtomicU64>,
    strangers: Gauge<u64, AtomicU64>,
    streams: Gauge<u64, AtomicU64>,
    buffered: Gauge<u64, AtomicU64>,
    evicted: Counter,
    sessions_refused: Counter,
    bodies_refused: Counter,
    streams_refused: Counter,
    streams_ended: Counter,
    callbacks_refused: Counter,
    calls_refused: Family<ByReason, Counter>,
}

impl Door {
    fn register(&self, registry: &mut Registry) {
        for (name, help, gauge) in [
            ("connections", "Connections that are open", &self.connections),
            ("connections_strange", "Open connections without an authenticated caller", &self.strangers),
            ("streams", "Streams of events, logs and lines that are open", &self.streams),
            ("bodies_bytes", "Bytes of request bodies that are held", &self.buffered),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            ("connections_evicted", "Unauthenticated connections that made room for others", &self.evicted),
            ("sessions_refused", "Sessions of native executors that were refused", &self.sessions_refused),
            ("bodies_refused", "Request bodies that were refused for lack of room", &self.bodies_refused),
            ("streams_refused", "Streams that were refused for lack of room", &self.streams_refused),
            ("streams_ended", "Streams that ended with their token or session", &self.streams_ended),
            ("callbacks_refused", "Callbacks that named too many attempts", &self.callbacks_refused),
        ] {
            registry.register(name, help, counter.clone());
        }
        let help = "Calls that were refused before they were carried out, by reason";
        registry.register("calls_refused", help, self.calls_refused.clone());
    }

    fn set(&self, figures: &Figures) {
        self.connections.set(figures.connections);
        self.strangers.set(figures.strangers);
        self.streams.set(figures.streams);
        self.buffered.set(figures.buffered);
        for (counter, count) in [
            (&self.evicted, figures.connections_evicted),
            (&self.sessions_refused, figures.sessions_refused),
            (&self.bodies_refused, figures.bodies_refused),
            (&self.streams_refused, figures.streams_refused),
            (&self.streams_ended, figures.streams_ended),
            (&self.callbacks_refused, figures.callbacks_refused),
        ] {
            counter.inner().store(count, Ordering::Relaxed);
        }
        for (reason, count) in [
            ("unauthenticated", figures.calls_unauthenticated),
            ("too_often", figures.calls_too_often),
            ("too_large", figures.calls_too_large),
            ("too_slow", figures.calls_too_slow),
        ] {
            let counter = self.calls_refused.get_or_create(&ByReason { reason: Name(reason) });
            counter.inner().store(count, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStep {
    step: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByChange {
    change: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAnswer {
    answer: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name(&'static str);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.encode(encoder)
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// Metrics that have counted nothing yet.
    pub fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("punctual"),
            sent: Counter::default(),
            lag: Histogram::new(LAGS),
            closed: Family::default(),
            retries: Counter::default(),
            missed: Counter::default(),
            delayed: Counter::default(),
            late_reports: Counter::default(),
            refused_reports: Counter::default(),
            refused_registrations: Counter::default(),
            executors: Family::default(),
            executors_crowded: Counter::default(),
            memory_discarded: Counter::default(),
            arrivals_refused: Counter::default(),
            kills: Counter::default(),
            kills_answered: Family::default(),
            jobs_changed: Counter::default(),
            jobs_stopped: Counter::default(),
            shards_taken: Counter::default(),
            shards_left: Counter::default(),
            clock_steps: Counter::default(),
            store_failures: Family::default(),
            loaded: Gauge::default(),
            running: Gauge::default(),
            due: Gauge::default(),
            oldest_due: Gauge::default(),
            time_held: Gauge::default(),
            shards: Gauge::default(),
            nodes: Gauge::default(),
            skew: Gauge::default(),
            redis_overruled: Counter::default(),
            door: Door::default(),
        };
        metrics.register();
        // An outcome that never occurred is 0, not absent: alerts need the difference.
        for outcome in Outcome::ALL {
            drop(metrics.closed.get_or_create(&ByOutcome { outcome: Name(outcome.name()) }));
        }
        for change in CHANGES {
            drop(metrics.executors.get_or_create(&ByChange { change: Name(change.name()) }));
        }
        for is_confirmed in [true, false] {
            drop(metrics.kills_answered.get_or_create(&answered(is_confirmed)));
        }
        metrics
    }

    fn register(&mut self) {
        self.door.register(&mut self.registry);
        let counters = [
            ("attempts_sent", "Attempts that went out", &self.sent),
            ("retries", "Attempts that ended badly and are followed by another", &self.retries),
            ("fire_times_missed", "Fire times that were passed over", &self.missed),
            (
                "attempts_delayed",
                "Attempts that found every connection to their executor in use",
                &self.delayed,
            ),
            ("late_reports", "Reports about attempts that were no longer current", &self.late_reports),
            (
                "reports_refused",
                "Reports of executors that named no attempt of theirs",
                &self.refused_reports,
            ),
            ("registrations_refused", "Executors that were not let in", &self.refused_registrations),
            ("executors_crowded", "Times that there were too many executors", &self.executors_crowded),
            (
                "memory_discarded",
                "Times that a panic made the node read everything again",
                &self.memory_discarded,
            ),
            (
                "arrivals_refused",
                "One-shots that applications left and that cannot be run",
                &self.arrivals_refused,
            ),
            ("kills", "Attempts that an executor was told to end", &self.kills),
            ("jobs_changed", "Jobs that were created, edited, started or deleted", &self.jobs_changed),
            ("jobs_stopped", "Jobs that stopped", &self.jobs_stopped),
            ("shards_taken", "Shards that this node began to act for", &self.shards_taken),
            ("shards_left", "Shards that this node ceased to act for", &self.shards_left),
            ("clock_steps", "Times that the store's clock was set", &self.clock_steps),
        ];
        for (name, help, counter) in counters {
            self.registry.register(name, help, counter.clone());
        }
        let help = "From the moment a run was due to the moment its attempt went out";
        self.registry.register_with_unit("lag", help, Unit::Seconds, self.lag.clone());
        self.registry.register("runs_closed", "Runs that ended, by outcome", self.closed.clone());
        let help = "Times that the store did not do what a step asked";
        self.registry.register("store_failures", help, self.store_failures.clone());
        let help = "What became of executors: joined, left, died, missed (a beat), suspected, recovered";
        self.registry.register("executor_changes", help, self.executors.clone());
        let help = "What executors made of being told to end an attempt";
        self.registry.register("kills_answered", help, self.kills_answered.clone());
        let gauges = [
            ("runs_loaded", "Runs that are loaded and not on their way", &self.loaded),
            ("attempts_running", "Attempts that are on their way", &self.running),
            ("runs_due", "Runs that are due and not started", &self.due),
            ("shards_held", "Shards that this node acts for", &self.shards),
            ("nodes", "Nodes that live, as far as this one knows", &self.nodes),
        ];
        for (name, help, gauge) in gauges {
            self.registry.register(name, help, gauge.clone());
        }
        let help = "For how long the oldest run has been due that is not started; 0 if there is none";
        self.registry.register_with_unit("runs_due_oldest", help, Unit::Seconds, self.oldest_due.clone());
        let help = "For how long nothing fires, because the database's clock was set back";
        self.registry.register_with_unit("time_held", help, Unit::Seconds, self.time_held.clone());
        let help = "By how much this machine's clock is ahead of the cluster's";
        self.registry.register_with_unit("clock_skew", help, Unit::Seconds, self.skew.clone());
        let help = "Shards that the database was asked for although Redis refused them";
        self.registry.register("redis_overruled", help, self.redis_overruled.clone());
    }

    /// Counts events.
    pub fn record(&self, events: &[Event]) {
        for event in events {
            self.record_one(event);
        }
    }

    fn record_one(&self, event: &Event) {
        let add = |counter: &Counter, count: u64| {
            counter.inc_by(count);
        };
        match event {
            Event::Sent { lag, .. } => {
                add(&self.sent, 1);
                self.lag.observe(lag.as_secs_f64());
            }
            Event::Closed { outcome, .. } => {
                add(&self.closed.get_or_create(&ByOutcome { outcome: Name(outcome.name()) }), 1);
            }
            Event::Retrying { .. } => add(&self.retries, 1),
            Event::Missed { count, .. } => add(&self.missed, *count),
            Event::Delayed { .. } => add(&self.delayed, 1),
            Event::LateReport { more, .. } => add(&self.late_reports, more + 1),
            Event::ReportRefused { .. } => add(&self.refused_reports, 1),
            Event::Overreached { count, .. } => add(&self.refused_reports, *count as u64),
            Event::ReportsRefused { count, .. } => add(&self.refused_reports, *count),
            Event::RegistrationRefused { .. } => add(&self.refused_registrations, 1),
            Event::RegistryCrowded { .. } => add(&self.executors_crowded, 1),
            Event::MemoryDiscarded => add(&self.memory_discarded, 1),
            Event::ArrivalsRefused { count, .. } => add(&self.arrivals_refused, *count as u64),
            Event::Executor { what, .. } => {
                add(&self.executors.get_or_create(&ByChange { change: Name(what.name()) }), 1);
            }
            // The progress of an attempt is no metric of the node.
            Event::Progress { .. } => {}
            Event::KillAsked { .. } => add(&self.kills, 1),
            Event::KillAnswered { is_confirmed, .. } => {
                add(&self.kills_answered.get_or_create(&answered(*is_confirmed)), 1);
            }
            Event::JobChanged { .. } => add(&self.jobs_changed, 1),
            Event::JobStopped { .. } => add(&self.jobs_stopped, 1),
            Event::ShardTaken { .. } => add(&self.shards_taken, 1),
            Event::ShardLeft { .. } => add(&self.shards_left, 1),
            Event::ClockStepped { .. } => add(&self.clock_steps, 1),
            Event::StoreFailed { step, .. } => {
                add(&self.store_failures.get_or_create(&ByStep { step: Name(step) }), 1);
            }
        }
    }

    /// All metrics as text.
    pub fn text(&self, figures: Figures) -> String {
        self.loaded.set(figures.loaded);
        self.running.set(figures.running);
        self.due.set(figures.due);
        self.oldest_due.set(figures.oldest_due_ms as f64 / 1_000.0);
        self.time_held.set(figures.time_held_ms as f64 / 1_000.0);
        self.shards.set(figures.shards);
        self.nodes.set(figures.nodes);
        self.skew.set(figures.skew_ms as f64 / 1_000.0);
        self.redis_overruled.inner().store(figures.redis_overruled, Ordering::Relaxed);
        self.door.set(&figures);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

/// Every change that can happen to an executor.
const CHANGES: [ChangeKind; 6] = [
    ChangeKind::Joined,
    ChangeKind::Left,
    ChangeKind::Died,
    ChangeKind::Missed,
    ChangeKind::Suspected,
    ChangeKind::Recovered,
];

fn answered(is_confirmed: bool) -> ByAnswer {
    ByAnswer { answer: Name(if is_confirmed { "confirmed" } else { "refused" }) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::model::{Attempt, JobId, RunId, Text};

    use super::*;

    #[test]
    fn what_happened_is_counted_and_told_as_prometheus_reads_it() {
        let metrics = Metrics::new();
        let (run, job) = (RunId(1), JobId(2));
        metrics.record(&[
            Event::Sent { run, job, attempt: Attempt::FIRST, lag: Duration::from_millis(3), is_first: true },
            Event::Closed { run, job, outcome: Outcome::Succeeded, reason: Text::Borrowed(""), took: None },
            Event::StoreFailed { step: "fire", reason: Text::Borrowed("gone") },
            Event::Executor { app: "a".into(), address: "http://e".into(), what: ChangeKind::Joined },
            Event::RegistrationRefused { app: "a".into(), address: "x".into(), reason: "no".into() },
            Event::KillAsked { run, job, attempt: Attempt::FIRST },
            Event::KillAnswered { run, attempt: Attempt::FIRST, is_confirmed: true, said: "".into() },
        ]);
        let text = metrics.text(Figures {
            loaded: 4,
            running: 5,
            due: 6,
            oldest_due_ms: 12_500,
            time_held_ms: 312_000,
            shards: 64,
            streams: 7,
            bodies_refused: 8,
            calls_too_often: 9,
            ..Figures::default()
        });
        for line in [
            "punctual_attempts_sent_total 1",
            "punctual_lag_seconds_bucket{le=\"0.005\"} 1",
            "punctual_lag_seconds_bucket{le=\"0.002\"} 0",
            "punctual_runs_closed_total{outcome=\"succeeded\"} 1",
            "punctual_runs_closed_total{outcome=\"failed\"} 0",
            "punctual_store_failures_total{step=\"fire\"} 1",
            "punctual_executor_changes_total{change=\"joined\"} 1",
            "punctual_executor_changes_total{change=\"died\"} 0",
            "punctual_registrations_refused_total 1",
            "punctual_kills_total 1",
            "punctual_kills_answered_total{answer=\"confirmed\"} 1",
            "punctual_kills_answered_total{answer=\"refused\"} 0",
            "punctual_runs_loaded 4",
            "punctual_attempts_running 5",
            "punctual_runs_due 6",
            "punctual_runs_due_oldest_seconds 12.5",
            "punctual_time_held_seconds 312.0",
            "punctual_shards_held 64",
            "punctual_streams 7",
            "punctual_bodies_refused_total 8",
            "punctual_calls_refused_total{reason=\"too_often\"} 9",
            "punctual_calls_refused_total{reason=\"too_slow\"} 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
    }
}
