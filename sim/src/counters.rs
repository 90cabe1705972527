//! Counters of the interesting events. A simulation in which an event never happens proves nothing about it.

use punctual_core::model::{Close, Outcome, Skip};
use punctual_core::policy::misfire::Policy;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A counter for every event that should happen sometimes.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Counters {
            /// All counters by name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }

            /// Adds the counters of another world.
            pub fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counters! {
    /// Sends that began.
    sends,
    /// Runs that succeeded.
    succeeded,
    /// Runs that failed.
    failed,
    /// Runs that were lost.
    lost,
    /// Runs that were cancelled.
    cancelled,
    /// Runs that were skipped one by one.
    skipped,
    /// Runs that were put off.
    waits,
    /// Runs that waited for their job.
    parked,
    /// Parked runs that were called back.
    unparked,
    /// Runs started by the end of others.
    children,
    /// Broadcast runs that were split into parts.
    wholes,
    /// Their parts.
    parts,
    /// Runs for which there was no executor.
    without_executor,
    /// Times that an executor named other apps' runs.
    intrusions,
    /// Runs for which all executors were asked and none accepted.
    nobody_chosen,
    /// Attempts that an executor was found to have lost.
    lost_by_doubt,
    /// Attempts that were timed out by a node that had taken them over.
    timed_out_after_adoption,
    /// Attempts that a node timed out.
    timed_out_by_us,
    /// Reports of executors that knew only the number of a gate.
    known_by_number,
    /// Attempts that an executor ended on request, and confirmed.
    kills_confirmed,
    /// Executors that stopped cleanly.
    goodbyes,
    /// Attempts without a report.
    attempt_lost,
    /// Attempts that took too long.
    attempt_timed_out,
    /// A takeover met runs that were due and had no gate.
    takeover_with_ungated,
    /// A takeover met runs that were gated and open.
    takeover_with_gated,
    /// A takeover met a run that had been in flight for longer than a lease.
    takeover_with_long_run,
    /// Two nodes acquired shards of one dead node within the same second.
    two_adopt_at_once,
    /// A request was answered as unknown and was applied.
    unknown_and_applied,
    /// A request was answered as unknown and was never applied.
    unknown_and_not_applied,
    /// A request was applied after it had been answered as unknown.
    applied_after_timeout,
    /// A request was applied after the node that sent it had crashed.
    applied_after_crash,
    /// A gate met a key that was taken, or a closed run.
    stale_gate_refused,
    /// A gate was committed after another node had taken its shard.
    gate_after_takeover,
    /// A plan lost the race for its clock.
    plan_overtaken,
    /// A settlement came too late.
    settlement_stale,
    /// A node was paused for longer than its lease.
    paused_beyond_lease,
    /// A send arrived more than a lease after it began.
    sent_long_before_arrival,
    /// Days were dropped.
    pruned,
    /// The store's clock went back after days were dropped.
    clock_back_after_prune,
    /// More than one instant was missed: policy skip.
    missed_many_skip,
    /// More than one instant was missed: policy fire once.
    missed_many_fire_once,
    /// More than one instant was missed: policy fire all.
    missed_many_fire_all,
    /// A run was found to be missed when it left the wheel.
    skipped_leaving_the_wheel,
    /// A plan met a run that was reserved before an edit.
    planned_over_reservation,
    /// An edit passed an instant that had a run.
    passed_over_reservation,
    /// A change recorded instants that had passed unplanned.
    edit_recorded_passed,
    /// A job was changed and changed back while its reservations waited.
    edited_back_and_forth,
    /// A run was closed because its job was deleted after it was written.
    deleted_after_planning,
    /// A run was closed because its job was stopped after it was written.
    stopped_after_planning,
    /// The last end of a fixed delay stopped it.
    delays_over,
    /// A run was closed because its job no longer named it.
    edited_after_planning,
    /// A result came for an attempt that was given up as lost.
    result_after_lost,
    /// A result was settled by a node that had not sent the attempt.
    settled_by_another,
    /// A hint between nodes was lost.
    hint_lost,
    /// A result was settled by another node, and the hint about it was lost.
    settled_by_another_and_hint_lost,
    /// A run was written when it was due already.
    written_after_due,
    /// A run was written that lay below what its holder had loaded.
    committed_below_loaded_mark,
    /// A wheel was full, and more was due.
    wheel_was_full,
    /// A run was sent again by the next holder.
    sent_again_after_takeover,
    /// An executor took a run a second time.
    received_twice,
    /// An executor refused an old token.
    token_refused,
    /// A job was quarantined because its row could not be read.
    quarantined,
    /// A schedule named a wall time in a gap.
    gap_crossed,
    /// A schedule named a wall time in an overlap.
    overlap_crossed,
    /// A run with overrides was sent.
    sent_with_overrides,
    /// Sends of runs with an exclusive key.
    sent_with_key,
    /// Runs that were refused because another had a key of theirs, or asked earlier.
    behind_a_key,
    /// A run was tried again by its own retry policy.
    retried_by_overrides,
    /// A run with overrides was settled by a node that had not sent it.
    overrides_settled_by_another,
    /// The same key was submitted twice.
    key_repeated,
    /// The same backfill was requested twice.
    backfill_repeated,
    /// A change was answered.
    change_answered,
    /// A node stopped cleanly.
    clean_stops,
    /// A node crashed with a request in flight.
    crashed_in_flight,
    /// The store had no room.
    store_was_full,
    /// The store's clock was set forward.
    clock_forward,
    /// The store's clock was set back.
    clock_back,
}

impl Counters {
    /// A run was closed.
    pub(crate) fn closed(&mut self, close: &Close) {
        match close.reason.parse() {
            Ok(Skip::JobDeleted) => self.deleted_after_planning += 1,
            Ok(Skip::JobStopped) => self.stopped_after_planning += 1,
            Ok(Skip::JobEdited) => self.edited_after_planning += 1,
            Ok(Skip::Misfire | Skip::Coalesced) => self.skipped_leaving_the_wheel += 1,
            _ => {}
        }
        self.without_executor += u64::from(close.reason.starts_with("no executor"));
        match close.outcome {
            Outcome::Succeeded => self.succeeded += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Lost => self.lost += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Skipped => self.skipped += 1,
        }
    }

    /// More than one instant was missed.
    pub(crate) fn missed(&mut self, policy: Policy) {
        match policy {
            Policy::Skip => self.missed_many_skip += 1,
            Policy::FireOnce => self.missed_many_fire_once += 1,
            Policy::FireAll => self.missed_many_fire_all += 1,
        }
    }
}
