//! The places of HTTP calls in flight: taken when a call goes out, given back when it ends, and exchanged for one outside
//! the fast pool when it turns out to be slow.

use calendar::Timestamp;
use punctual_core::due::AppNumber;
use punctual_core::model::{Attempt, JobId, RunId};
use punctual_core::policy::Pool;
use punctual_core::policy::pool::SLOW_SEND;

use crate::memory::{Flight, Memory};
use crate::settings::Planted;

/// The place that an HTTP call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HttpPlace {
    pub(crate) pool: Pool,
    /// The app that it counts for, whatever becomes of its job meanwhile.
    pub(crate) app: AppNumber,
    pub(crate) job: JobId,
    /// Whether it was noted as slow while in flight.
    pub(crate) is_noted: bool,
}

/// A call from the fast pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastCall {
    /// From then on it is slow.
    pub(crate) slow_at: Timestamp,
    run: RunId,
    attempt: Attempt,
}

impl Memory {
    pub(crate) fn take_place(&mut self, id: RunId, flight: &Flight) {
        let Some(place) = flight.http else { return };
        self.in_flight.places.take(place.pool, place.app, place.job);
        if place.pool == Pool::Fast {
            let slow_at = flight.sent_at.saturating_add(SLOW_SEND);
            self.in_flight.fast_calls.push_back(FastCall { slow_at, run: id, attempt: flight.attempt });
        }
    }

    /// Calls that are slow by now leave the fast pool. Where there is no place for them elsewhere they stay, and ask again.
    pub(crate) fn move_slow_calls(&mut self, now: Timestamp) {
        if self.has_planted(Planted::SlowCallsStay) {
            return self.in_flight.fast_calls.clear();
        }
        while let Some(call) = self.in_flight.fast_calls.front().copied()
            && call.slow_at < now
        {
            self.in_flight.fast_calls.pop_front();
            // How long the store takes to hear of an answer says nothing about the target.
            let is_out = |flight: &&mut Flight| flight.attempt == call.attempt && !flight.is_answered;
            let flight = self.in_flight.flights.get_mut(&call.run).filter(is_out);
            let place = flight.and_then(|flight| flight.http.as_mut());
            // A call that outlived the loss of its shard was counted twice.
            let Some(place) = place.filter(|place| place.pool == Pool::Fast) else { continue };
            let job = place.job;
            place.pool = self.in_flight.places.outlive(place.app, job);
            let (is_noted, stays) = (std::mem::replace(&mut place.is_noted, true), place.pool == Pool::Fast);
            if stays {
                let slow_at = now.saturating_add(SLOW_SEND);
                self.in_flight.fast_calls.push_back(FastCall { slow_at, ..call });
            }
            if !is_noted {
                self.note_slow(job, now);
            }
        }
    }

    fn note_slow(&mut self, job: JobId, now: Timestamp) {
        let just_too_long = SLOW_SEND + std::time::Duration::from_millis(1);
        self.in_flight.paces.entry(job).or_default().record(now, just_too_long);
    }

    /// The pool that a call of the job starts from.
    pub(crate) fn pool_for(&self, job: JobId, now: Timestamp) -> Pool {
        let pace = self.in_flight.paces.get(&job).map_or(Pool::Fast, |pace| pace.pool(now));
        if self.in_flight.places.is_lingering(job) { Pool::Slow } else { pace }
    }
}
