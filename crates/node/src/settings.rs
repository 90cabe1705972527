//! The knobs of a node, with safe defaults.

use std::time::Duration;

use punctual_core::model::Text;
use punctual_core::policy::{Classes, Limits};

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long the store keeps the node's row alive without a renewal.
    pub term: Duration,
    /// How much earlier than that the node stops by itself.
    pub margin: Duration,
    /// How often it renews.
    pub renew_every: Duration,
    /// How far ahead fire times are written down.
    pub horizon: Duration,
    /// How often it looks for jobs that enter the horizon.
    pub look_every: Duration,
    /// How many jobs are planned in one step.
    pub plan_max: usize,
    /// How far ahead runs are loaded.
    pub load_ahead: Duration,
    /// How many runs are loaded in one step.
    pub load_max: usize,
    /// How many loaded runs it holds; the earliest.
    pub wheel_capacity: usize,
    /// How many jobs it keeps in memory; at least half of them are those it asked for last.
    pub known_max: usize,
    /// How many runs are started in one step.
    pub fire_max: usize,
    /// How many caught-up runs among them, so that catching up is paced.
    pub catch_up_max: usize,
    /// How many reports are settled in one step.
    pub settle_max: usize,
    /// How many runs of one job wait in memory for their turn.
    pub queue_max: usize,
    /// How many HTTP sends are on their way at once.
    pub limits: Limits,
    /// The classes of work in their order, and how many runs of each are under way at once.
    pub classes: Classes,
    /// How many runs that are due wait in memory for a place; the rest waits in the wheel.
    pub due_max: usize,
    /// How long after its timeout an attempt may still be heard of.
    pub grace: Duration,
    /// How long an ungated attempt may be on its way before it is written down as running.
    pub note_after: Duration,
    /// How often it looks for what it should know and does not.
    pub sweep_every: Duration,
    /// How long it waits before it asks a store again that did not answer as it should; longer, up to 5 s, if that goes on.
    pub pause: Duration,
    /// How executors are watched.
    pub registry: RegistrySettings,
    /// How long closed runs are kept.
    pub retention: Duration,
    /// What people call it.
    pub name: Text,
    /// Where other nodes reach it.
    pub address: Text,
    /// A bug to be found. Only the simulator plants one.
    #[cfg(feature = "planted")]
    pub planted: Option<Planted>,
}

impl Settings {
    /// The longest term that any node asks for, however slow its store is.
    pub(crate) fn term_max(&self) -> Duration {
        self.term * 3
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            term: Duration::from_secs(4),
            margin: Duration::from_millis(500),
            renew_every: Duration::from_secs(1),
            horizon: Duration::from_secs(5),
            look_every: Duration::from_secs(1),
            plan_max: 5_000,
            load_ahead: Duration::from_secs(30),
            load_max: 10_000,
            wheel_capacity: 1_000_000,
            known_max: 200_000,
            fire_max: 2_000,
            catch_up_max: 100,
            settle_max: 5_000,
            queue_max: 1_000,
            limits: Limits::default(),
            classes: Classes::default(),
            due_max: 100_000,
            grace: Duration::from_secs(10),
            note_after: Duration::from_secs(1),
            sweep_every: Duration::from_secs(30),
            pause: Duration::from_millis(200),
            registry: RegistrySettings::default(),
            retention: Duration::from_secs(30 * 86_400),
            name: Text::Borrowed(""),
            address: Text::Borrowed(""),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

/// How executors are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrySettings {
    /// How often an executor is expected to say that it is there.
    pub beat: Duration,
    /// After how much silence it is gone.
    pub dead: Duration,
    /// How often the store is cleared of those.
    pub sweep: Duration,
    /// How long a run waits for an executor.
    pub wait: Duration,
    /// How often an executor is asked whether it is there, and the store which others are.
    pub probe: Duration,
    /// How long an attempt is left alone before its executor is asked about it, and between two such questions.
    pub doubt: Duration,
    /// How long an executor may be unreachable before what it had is lost.
    pub away: Duration,
    /// How long a native executor whose session broke may take to come back.
    pub resume: Duration,
    /// How long executors may take to repeat what they could not report while no node was there.
    pub repeat: Duration,
    /// How long executors may take to say what they hold, after another node's shards were taken over.
    pub listen: Duration,
}

impl Default for RegistrySettings {
    fn default() -> RegistrySettings {
        RegistrySettings {
            beat: Duration::from_secs(30),
            dead: Duration::from_secs(90),
            sweep: Duration::from_secs(30),
            wait: Duration::from_secs(60),
            probe: Duration::from_secs(5),
            // Longer than an attempt may wait for a connection and for the answer to it. And XXL-JOB's own executor
            // repeats a result that reached no node after 30 s, so two questions must lie further apart than that.
            doubt: Duration::from_secs(30),
            away: Duration::from_secs(45),
            resume: Duration::from_secs(3),
            // XXL-JOB's own executor does so every 30 s.
            repeat: Duration::from_secs(40),
            listen: Duration::from_secs(2),
        }
    }
}

/// Bugs that the simulator must find when they are switched on. They keep it honest: a checker that finds none of
/// them would find none of ours either.
#[cfg_attr(not(feature = "planted"), expect(unreachable_pub, reason = "only the simulator plants bugs"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A gated attempt is sent before its gate is written.
    SendBeforeGate,
    /// What was loaded stays loaded when its shard is lost.
    WheelKeptOnLoss,
    /// Silence about an at-most-once attempt leads to another.
    ResendAtMostOnce,
    /// A reservation exactly at the threshold counts as missed.
    MisfireOffByOne,
    /// Only what became due in the last second is looked at.
    LooksBackOneSlot,
    /// The job is not asked again after the gate was written.
    NoSecondLook,
    /// The mark is the present moment, not a promise.
    MarkBehind,
    /// A report is acknowledged before it is kept.
    AcknowledgedEarly,
    /// Changes are said to be in memory before they are.
    ChangeSeenUnread,
    /// The job is asked before the first attempt only.
    RetryUnasked,
    /// Time is counted by the machine's own clock once the store was heard.
    OwnClock,
    /// An executor that says it is idle is believed at once.
    IdleBelieved,
    /// The overrides of a run count only for the node that sent it.
    OverridesForgotten,
    /// Calls that hang keep their places in the fast pool.
    SlowCallsStay,
    /// One job, or one app, may take every place of a pool.
    SharesIgnored,
    /// Claims and reports are believed, whichever executor they come from.
    ClaimsBelieved,
    /// An attempt that may have been sent is recorded as one that was.
    SupposedAsSent,
    /// An attempt of which only its dead node's gate is known is recorded as one that was sent.
    GateAsSent,
    /// Calls in flight are forgotten with their shard, and reports in hand do not keep silence from counting.
    ResultsForgotten,
    /// The executor of an attempt that was taken over is asked about it without the token of its app.
    AdoptedUnasked,
    /// A missed instant is coalesced although no later one stands for it.
    CoalescedAlone,
    /// The fired mark is a second behind what is sent without a gate.
    MarkAfterSend,
    /// After an absence of ours silence counts from the send, as if executors had had a node to report to.
    NoRepeatGrace,
}
