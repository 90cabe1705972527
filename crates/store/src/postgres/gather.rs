//! The first half of a verb that writes: locks the rows it touches, in the same order as every other verb, and reads them.
//!
//! Locks come first and reads after them as statements of their own, because at this isolation each statement sees what was
//! committed when it began: what is read is what the locks hold still. It is one flight, so the server waits for no client
//! between the first lock and the last row.

use std::collections::BTreeSet;

use punctual_core::model::{Epoch, JobId, LogId, NewRun, RunId, Text, Token};
use punctual_node::ports::Lease;
use tokio_postgres::Row;

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, Seat, run_code, text_code};
use super::day::{come_near, hold_far};
use super::line::Line;
use super::thin::{read_thinned, thinned_of};
use super::trouble::Trouble;
use crate::row::definition_from_text;
use crate::rows::{counts, join, locked_clock};
use crate::rules::{GateOwner, JoinRow, LockedRun, UnitOfWork, WaitRow};

/// The rows that a verb touches.
#[derive(Default)]
pub(super) struct Wanted<'v> {
    /// Runs that are there, to be locked.
    pub(super) runs: BTreeSet<RunId>,
    /// Runs that may be written.
    pub(super) fresh: Vec<&'v NewRun>,
    /// Clocks to be locked.
    pub(super) clocks: BTreeSet<JobId>,
    /// Runs of whose jobs the clocks are to be locked.
    pub(super) clocks_of: BTreeSet<RunId>,
    /// Whether the counts of the jobs of `runs` are to be locked.
    pub(super) counts_of_runs: bool,
    /// Jobs whose counts are to be locked.
    pub(super) counts: BTreeSet<JobId>,
    /// Runs that were split.
    pub(super) wholes: BTreeSet<RunId>,
    /// Resources whose places are asked for.
    pub(super) resources: BTreeSet<Text>,
    pub(super) leases: BTreeSet<Lease>,
    /// Jobs of which it matters whether runs were removed.
    pub(super) thinned: BTreeSet<JobId>,
}

/// The rows that a verb has read, and which of its runs lie in the far tables.
pub(super) struct Gathered<'v> {
    pub(super) unit: UnitOfWork<'v>,
    far_days: BTreeSet<u32>,
    far_runs: BTreeSet<RunId>,
}

impl Gathered<'_> {
    pub(super) fn is_far(&self, run: RunId) -> bool {
        self.far_runs.contains(&run) || self.far_days.contains(&run.day())
    }
}

/// The questions of a gathering that may be left out.
struct Seats {
    near: Option<Seat>,
    context: Seat,
    thinned: Option<Seat>,
    leases: Option<Seat>,
    clocks: Option<Seat>,
    definitions: Option<Seat>,
    far: Option<Seat>,
    runs: Option<Seat>,
    counts: Option<Seat>,
    joins: Option<Seat>,
    closes: Option<Seat>,
    waits: Option<Seat>,
    sends: Option<Seat>,
    flights: Option<Seat>,
    holds: Option<Seat>,
    there: Option<Seat>,
    named: Option<Seat>,
    keys: Option<Seat>,
}

impl Postgres {
    /// Begins a transaction with the rows that a verb touches. Room for the runs that it may write is made before.
    pub(super) async fn gather<'v>(
        &self,
        line: &Line<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<Gathered<'v>, Trouble> {
        let days: BTreeSet<u32> = wanted.fresh.iter().map(|run| run.id.day()).collect();
        let places = self.ensure(line, days).await?;
        let far_days: BTreeSet<u32> =
            places.iter().filter(|(_, is_far)| **is_far).map(|(day, _)| *day).collect();
        let mut flight = Pipeline::begin();
        let seats = wanted.board(&mut flight, &far_days, self.told_now());
        let mut landed = line.fly(flight).await?;
        let mut rows = |seat: Option<Seat>| seat.map(|seat| landed.take(seat)).unwrap_or_default();
        if !rows(seats.near).is_empty() {
            return Err(Trouble::Moved);
        }
        let mut unit = UnitOfWork { key_ttl: self.key_ttl, shards: self.shards, ..UnitOfWork::default() };
        let mut far_runs = BTreeSet::new();
        for row in rows(Some(seats.context)) {
            unit.now = row.instant(0)?;
            unit.forgotten.days = row.number(1)? as u32;
        }
        unit.forgotten.jobs = read_thinned(&rows(seats.thinned))?;
        for row in rows(seats.leases) {
            unit.current.insert(Lease { shard: row.shard(0)?, epoch: Epoch(row.bits(1)?) });
        }
        for row in rows(seats.clocks) {
            unit.clocks.insert(row.job(0)?, locked_clock(&row)?);
        }
        for row in rows(seats.definitions) {
            if let Some(clock) = unit.clocks.get_mut(&row.job(0)?) {
                // One that cannot be read names nothing.
                clock.definition = definition_from_text(&row.string(1)?).ok();
            }
        }
        for (seat, is_far) in [(seats.far, true), (seats.runs, false)] {
            for row in rows(seat) {
                let (id, run) = (row.run(0)?, run(&row)?);
                if let (Some(key), Some(holder)) = (&run.key, row.maybe(5)?) {
                    let keyed = (RunId(holder as u64), row.maybe_instant(6)?);
                    unit.keys.insert((run.job, key.clone()), keyed);
                }
                if is_far {
                    far_runs.insert(id);
                }
                unit.runs.insert(id, run);
            }
        }
        for row in rows(seats.counts) {
            unit.counts.insert(row.job(0)?, counts(&row, 1)?);
        }
        for row in rows(seats.joins) {
            unit.joins.insert(row.run(0)?, join_row(&row)?);
        }
        for row in rows(seats.closes) {
            if let Some(run) = unit.runs.get_mut(&row.run(0)?) {
                run.progress.is_closed = true;
                if row.maybe(1)?.is_some() {
                    run.progress.gates.insert(row.attempt(1)?, GateOwner::Unsent);
                }
            }
        }
        for row in rows(seats.waits) {
            if let Some(run) = unit.runs.get_mut(&row.run(0)?) {
                let (ready_at, attempt) = (row.maybe_instant(1)?, row.attempt(2)?);
                run.progress.wait = Some(WaitRow { ready_at, attempt, is_called_back: row.flag(3)? });
                run.was_waiting = true;
            }
        }
        for row in rows(seats.sends) {
            if let Some(run) = unit.runs.get_mut(&row.run(0)?) {
                run.progress
                    .gates
                    .insert(row.attempt(1)?, GateOwner::Sent(Token(row.bits(2)?), Some(LogId(row.bits(3)?))));
            }
        }
        for row in rows(seats.flights) {
            if let Some(run) = unit.runs.get_mut(&row.run(0)?) {
                run.was_flying = true;
            }
        }
        for row in rows(seats.holds) {
            let (resource, slot, run) = (row.text(0)?, row.number(1)? as u32, row.run(2)?);
            if let Some(run) = unit.runs.get_mut(&run) {
                run.progress.holds.insert(resource.clone());
            }
            unit.holds.insert((resource, slot), run);
        }
        for row in rows(seats.there) {
            unit.taken_ids.insert(row.run(0)?);
        }
        for row in rows(seats.named) {
            unit.named.insert((row.instant(0)?, row.job(1)?), row.run(2)?);
        }
        for row in rows(seats.keys) {
            unit.keys.insert((row.job(0)?, row.text(1)?), (row.run(2)?, row.maybe_instant(3)?));
        }
        Ok(Gathered { unit, far_days, far_runs })
    }
}

/// Which leases are current: the last given for their shards, by holders that live and have not given them back.
pub(super) fn current_leases(leases: &BTreeSet<Lease>, now: Option<i64>) -> Ask {
    let shards: Vec<i64> = leases.iter().map(|lease| i64::from(lease.shard.0)).collect();
    let epochs: Vec<i64> = leases.iter().map(|lease| lease.epoch.0 as i64).collect();
    Ask::new(
        "select s.shard::bigint, s.epoch
         from unnest($1, $2) as l (shard, epoch)
         join shards s on s.shard = l.shard and s.epoch = l.epoch
         join nodes n on n.node = s.owner
         where n.expires_at > coalesce($3, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)",
    )
    .with(shards)
    .with(epochs)
    .with(now)
}

impl Wanted<'_> {
    fn board(&self, flight: &mut Pipeline, far_days: &BTreeSet<u32>, now: Option<i64>) -> Seats {
        let near = (!far_days.is_empty()).then(|| {
            hold_far(flight);
            flight.add(come_near(&far_days.iter().copied().collect::<Vec<u32>>()))
        });
        let has_runs = !self.runs.is_empty();
        let of_runs = |sql: &'static str| Ask::new(sql).with_runs(&self.runs);
        let clocks = (!self.clocks.is_empty() || !self.clocks_of.is_empty())
            .then(|| flight.add(self.clocks(LOCK_CLOCKS)));
        // First far, then near: a run that is brought near between the two is found by the second.
        let far = has_runs.then(|| flight.add(of_runs(LOCK_FAR)));
        let runs = has_runs.then(|| flight.add(of_runs(LOCK_RUNS)));
        let has_counts = self.counts_of_runs || !self.counts.is_empty();
        let counts = has_counts.then(|| flight.add(self.lock_counts()));
        let joins =
            (!self.wholes.is_empty()).then(|| flight.add(Ask::new(LOCK_JOINS).with_runs(&self.wholes)));
        let resources: Vec<String> = self.resources.iter().map(|text| text_code(text)).collect();
        if !resources.is_empty() {
            flight.add(Ask::new(LOCK_RESOURCES).with(resources.clone()));
        }
        Seats {
            near,
            clocks,
            far,
            runs,
            counts,
            joins,
            context: flight.add(Ask::new(CONTEXT).with(now)),
            thinned: (!self.thinned.is_empty()).then(|| flight.add(thinned_of(&self.thinned))),
            leases: (!self.leases.is_empty()).then(|| flight.add(current_leases(&self.leases, now))),
            definitions: (!self.clocks_of.is_empty()).then(|| flight.add(self.clocks(DEFINITIONS))),
            closes: has_runs.then(|| flight.add(of_runs(CLOSES))),
            waits: has_runs.then(|| flight.add(Ask::new(WAITS).with(codes(&self.runs)))),
            sends: has_runs.then(|| flight.add(of_runs(SENDS))),
            flights: has_runs.then(|| flight.add(Ask::new(FLIGHTS).with(codes(&self.runs)))),
            holds: has_runs.then(|| flight.add(Ask::new(HOLDS).with(codes(&self.runs)).with(resources))),
            there: self.there().map(|ask| flight.add(ask)),
            named: self.named().map(|ask| flight.add(ask)),
            keys: self.keys().map(|ask| flight.add(ask)),
        }
    }

    fn clocks(&self, sql: &'static str) -> Ask {
        let jobs: Vec<i64> = self.clocks.iter().map(|job| i64::from(job.0)).collect();
        Ask::new(sql).with_runs(&self.clocks_of).with(jobs)
    }

    fn lock_counts(&self) -> Ask {
        let none = BTreeSet::new();
        let jobs: Vec<i64> = self.counts.iter().map(|job| i64::from(job.0)).collect();
        Ask::new(LOCK_COUNTS).with_runs(if self.counts_of_runs { &self.runs } else { &none }).with(jobs)
    }

    fn there(&self) -> Option<Ask> {
        let ids = || self.fresh.iter().map(|run| &run.id);
        (!self.fresh.is_empty()).then(|| Ask::new(THERE).with_runs(ids()))
    }

    fn named(&self) -> Option<Ask> {
        let named = || self.fresh.iter().filter(|run| run.is_named());
        let (mut fires, mut jobs): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        for run in named() {
            fires.push(run.fire_time.as_millis());
            jobs.push(i64::from(run.job.0));
        }
        // What has the same name lies on the same day.
        let low = named().map(|run| super::day::bounds(run.id.day()).0).min()?;
        let high = named().map(|run| super::day::bounds(run.id.day()).1).max()?;
        Some(Ask::new(NAMED).with(fires).with(jobs).with(low).with(high))
    }

    fn keys(&self) -> Option<Ask> {
        let keyed: Vec<_> = self.fresh.iter().filter_map(|run| Some((run.job, run.key.as_ref()?))).collect();
        let jobs: Vec<i64> = keyed.iter().map(|(job, _)| i64::from(job.0)).collect();
        let keys: Vec<String> = keyed.iter().map(|(_, key)| text_code(key)).collect();
        (!keyed.is_empty()).then(|| Ask::new(KEYS).with(jobs).with(keys))
    }
}

fn codes(runs: &BTreeSet<RunId>) -> Vec<i64> {
    runs.iter().map(|run| run_code(*run)).collect()
}

const CONTEXT: &str = "
    select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), value
    from meta
    where name = 'pruned_to'";

/// The jobs as one list: with an `or` the server walks all clocks instead (1 million rows: 861 ms in the place of 0.15 ms).
const LOCK_CLOCKS: &str = "
    select job, shard::bigint, next_fire, version, enabled, decided, reserved
    from clocks
    where job = any(array(select unnest($4) union select job from all_runs where id = any($1) and id between $2 and $3))
    order by job
    for no key update";

/// Only where the end of a run may set the clock.
const DEFINITIONS: &str = "
    select j.id, j.definition
    from jobs j
    join clocks c on c.job = j.id
    where j.id = any(array(select unnest($4) union select job from all_runs where id = any($1) and id between $2 and $3))
      and c.enabled and c.next_fire is null";

const LOCK_FAR: &str = "
    select id, job, shard::bigint, due, key,
           (select k.run from keys k where k.job = r.job and k.key = r.key),
           (select k.expires_at from keys k where k.job = r.job and k.key = r.key)
    from runs_far as r
    where id = any($1) and id between $2 and $3
    order by id
    for no key update of r";

const LOCK_RUNS: &str = "
    select id, job, shard::bigint, due, key,
           (select k.run from keys k where k.job = r.job and k.key = r.key),
           (select k.expires_at from keys k where k.job = r.job and k.key = r.key)
    from runs as r
    where id = any($1) and id between $2 and $3
    order by id
    for no key update of r";

const LOCK_COUNTS: &str = "
    select job, succeeded, failed, not_run, consecutive_failures, last_outcome::bigint, last_success
    from counts
    where job = any(array(select unnest($4) union select job from all_runs where id = any($1) and id between $2 and $3))
    order by job
    for no key update";

const LOCK_JOINS: &str = "
    select run, total, open, succeeded, first_part, last_part
    from joins
    where run = any($1) and run between $2 and $3
    order by run
    for no key update";

/// Transactions that look for a free place of the same resource wait for each other.
const LOCK_RESOURCES: &str = "
    select pg_advisory_xact_lock(1886415715, place)
    from (select distinct hashtext(resource) as place from unnest($1) as resource order by 1) as places";

const CLOSES: &str = "
    select run, unsent
    from all_closes
    where run = any($1) and run between $2 and $3";

const WAITS: &str = "
    select run, ready_at, attempt, is_called_back
    from waiting
    where run = any($1)";

const SENDS: &str = "
    select run, attempt, token, log
    from sends
    where run = any($1) and run between $2 and $3";

const FLIGHTS: &str = "
    select run
    from flights
    where run = any($1)";

const HOLDS: &str = "
    select resource, slot, run
    from holds
    where run = any($1) or resource = any($2)";

const THERE: &str = "
    select id
    from all_runs
    where id = any($1) and id between $2 and $3";

const NAMED: &str = "
    select r.fire_time, r.job, r.id
    from unnest($1, $2) as n (fire_time, job)
    join all_runs r on r.fire_time = n.fire_time and r.job = n.job
    where r.id >= $3 and r.id < $4 and r.origin in (0, 3) and r.decided <> 4";

const KEYS: &str = "
    select k.job, k.key, k.run, k.expires_at
    from unnest($1, $2) as n (job, key)
    join keys k on k.job = n.job and k.key = n.key";

fn run(row: &Row) -> Result<LockedRun, Trouble> {
    let key = row.maybe_string(4)?.map(Text::from);
    Ok(LockedRun::open(row.job(1)?, row.shard(2)?, row.instant(3)?, key))
}

fn join_row(row: &Row) -> Result<JoinRow, Trouble> {
    Ok(JoinRow { join: join(row, 1)?, first_part: row.run(4)?, last_part: row.run(5)? })
}
