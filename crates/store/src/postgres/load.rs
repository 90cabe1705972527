//! Loading: what a holder has to fire, what it has to adopt, and whole runs for sends.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{Attempt, JobId, Join, LogId, Payload, RunId, Token};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Adopted, Lease, Loaded, OpenSend, RunRow, StoreError, Unpark, Waiting};
use tokio_postgres::Row;

use super::Postgres;
use super::ask::{Ask, Columns, Landed, Pipeline, Seat};
use super::day::bounds;
use super::gather::current_leases;
use super::line::Line;
use super::run_row::{BORN_OF, born_columns};
use super::trouble::{Trouble, corrupt};
use crate::rows::{BORN, born, part, wait};
use crate::rules::WaitRow;

/// The days that may have something to load.
const SPANS: &str = "
    select day::bigint
    from buckets
    group by day
    having min(first_due) < $2 and max(last_due) >= $1 and sum(runs) > sum(closed)
    order by day";

/// Shard by shard along the index of what waits, of each as many as it has a share.
const READY: &str = "
    select w.run, w.ready_at, w.attempt, w.is_called_back
    from unnest($1, $2) as s (shard, share)
    cross join lateral (
        select run, ready_at, attempt, is_called_back
        from waiting
        where shard = s.shard and ready_at is not null and (ready_at, run) >= ($3, $4) and ready_at < $5
          and (select true from flights f where f.run = waiting.run) is null
        order by ready_at, run
        limit s.share
    ) as w";

/// Shard by shard along the due index, of each as many as it has a share. What is closed, gated or waiting is looked up row by
/// row: as a join, the server might read all that was ever closed on a day.
macro_rules! born {
    ($runs:literal, $closes:literal) => {
        concat!(
            "select born.*
             from unnest($1, $2) as s (shard, share)
             cross join lateral (
                 select ",
            born_columns!(),
            " from ",
            $runs,
            " as r
                 where r.shard = s.shard and (r.due, r.id) >= ($3, $4) and r.due < $5 and r.id >= $6 and r.id < $7
                   and (select true from ",
            $closes,
            " c where c.run = r.id and c.run >= $6 and c.run < $7) is null
                   and (select true from flights f where f.run = r.id) is null
                   and (select true from waiting w where w.run = r.id) is null
                 order by r.due, r.id
                 limit s.share
             ) as born"
        )
    };
}

pub(super) const DUE: &str = born!("runs", "closes");
const DUE_FAR: &str = born!("runs_far", "closes_far");

/// How much more is read of a shard that had more to give than was thought.
const MORE: i64 = 8;

/// How many runs are read of each shard. Whatever each of them gives is in order, but how they mix is not known before; to read as
/// many of each as are wanted of all would read 64 times too many. So each gives its part and somewhat more, and a shard
/// that turns out to have been cut off before the end of the page is asked for more.
struct Shares {
    limit: i64,
    of: BTreeMap<i64, i64>,
}

impl Shares {
    fn even(shards: Vec<i64>, limit: i64) -> Shares {
        let part = limit / i64::try_from(shards.len()).unwrap_or(i64::MAX).max(1);
        // Runs that are spread at random need hardly a quarter more.
        let share = part.saturating_add(part / 4).saturating_add(16).min(limit);
        Shares { limit, of: shards.into_iter().map(|shard| (shard, share)).collect() }
    }

    fn ask(&self, sql: &'static str) -> Ask {
        Ask::new(sql)
            .with(self.of.keys().copied().collect::<Vec<i64>>())
            .with(self.of.values().copied().collect::<Vec<i64>>())
    }

    /// Takes back what was read if it is not all that belongs on the page: then some shards have larger shares.
    fn suffice(&mut self, sources: &[Vec<Waiting>]) -> bool {
        let place = |run: &Waiting| (run.ready_at, run.run);
        let mut places: Vec<_> = sources.iter().flatten().map(place).collect();
        places.sort_unstable();
        let end = usize::try_from(self.limit - 1).ok().and_then(|last| places.get(last)).copied();
        let mut is_enough = true;
        for source in sources {
            let mut given: BTreeMap<i64, (i64, (Timestamp, RunId))> = BTreeMap::new();
            for run in source {
                let (count, last) = given.entry(i64::from(run.shard.0)).or_insert((0, place(run)));
                (*count, *last) = (*count + 1, place(run).max(*last));
            }
            for (shard, (count, last)) in given {
                let Some(share) = self.of.get_mut(&shard) else { continue };
                if count == *share && *share < self.limit && end.is_none_or(|end| last < end) {
                    *share = share.saturating_mul(MORE).min(self.limit);
                    is_enough = false;
                }
            }
        }
        is_enough
    }
}

impl Postgres {
    pub(super) async fn try_load(
        &self,
        line: &Line<'_>,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, Trouble> {
        // One more than asked for, to know where the rest begins.
        let limit = i64::try_from(max).unwrap_or(i64::MAX).saturating_add(1);
        let mut shares = Shares::even(shards_of(leases), limit);
        let sources = loop {
            let sources = self.load_shares(line, leases, from, until, &shares).await?;
            if shares.suffice(&sources) {
                break sources;
            }
        };
        let mut runs: Vec<Waiting> = sources.into_iter().flatten().collect();
        runs.sort_by_key(|run| (run.ready_at, run.run));
        let rest = runs.get(max).map(|run| Mark { due: run.ready_at, id: run.run.0 });
        runs.truncate(max);
        Ok(Loaded { runs, rest })
    }

    /// What each source has of each shard, as many as its share, in one snapshot with the leases.
    async fn load_shares(
        &self,
        line: &Line<'_>,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        shares: &Shares,
    ) -> Result<Vec<Vec<Waiting>>, Trouble> {
        let mut flight = Pipeline::snapshot();
        let current = flight.add(current_leases(&distinct(leases), self.told_now()));
        let (from_due, from_id) = (from.due.as_millis(), i64::try_from(from.id).unwrap_or(i64::MAX));
        let until = until.as_millis();
        let spans = flight.add(Ask::new(SPANS).with(from_due).with(until));
        let range = |sql: &'static str| shares.ask(sql).with(from_due).with(from_id).with(until);
        let ready = flight.add(range(READY));
        let mut landed = line.fly(flight).await?;
        check(&mut landed, current, leases)?;
        let waits = waits(&landed.take(ready))?;
        let mut flight = Pipeline::new();
        let mut seats = Vec::new();
        if from_due < until {
            for (low, high) in stretches(&landed.take(spans))? {
                seats.push(flight.add(range(DUE).with(low).with(high)));
            }
            seats.push(flight.add(range(DUE_FAR).with(0).with(i64::MAX)));
        }
        let of_waits = flight.add(runs(waits.keys()));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let mut sources = Vec::new();
        for seat in seats {
            sources.push(
                landed.take(seat).iter().map(|row| waiting(row, None, None)).collect::<Result<_, _>>()?,
            );
        }
        let mut waited = Vec::new();
        for row in landed.take(of_waits) {
            let wait = waits.get(&row.run(0)?).copied();
            waited.push(waiting(&row, wait, None)?);
        }
        sources.push(waited);
        Ok(sources)
    }

    pub(super) async fn try_adopt(&self, line: &Line<'_>, leases: &[Lease]) -> Result<Adopted, Trouble> {
        let mut flight = Pipeline::snapshot();
        let current = flight.add(current_leases(&distinct(leases), self.told_now()));
        let flights = flight.add(
            Ask::new(
                "select f.run, w.ready_at, w.attempt, w.is_called_back, w.run is not null
                 from flights f
                 left join waiting w on w.run = f.run
                 where f.shard = any($1) and (w.run is null or w.ready_at is not null)",
            )
            .with(shards_of(leases)),
        );
        let parked = flight.add(
            Ask::new(
                "select distinct shard::bigint, job from waiting where shard = any($1) and ready_at is null",
            )
            .with(shards_of(leases)),
        );
        let mut landed = line.fly(flight).await?;
        check(&mut landed, current, leases)?;
        let mut flying: BTreeMap<RunId, Option<WaitRow>> = BTreeMap::new();
        for row in landed.take(flights) {
            let wait = if row.flag(4)? { Some(wait(&row, 1)?) } else { None };
            flying.insert(row.run(0)?, wait);
        }
        let parked = landed.take(parked);
        let mut flight = Pipeline::new();
        let rows = flight.add(runs(flying.keys()));
        let sends = flight.add(
            Ask::new(
                "select distinct on (run) run, attempt, token, log, sent_at, executor
                 from sends
                 where run = any($1) and run between $2 and $3
                 order by run, attempt desc",
            )
            .with_runs(flying.keys()),
        );
        let joins =
            "select run, total, open, succeeded from joins where run = any($1) and run between $2 and $3";
        let joins = flight.add(Ask::new(joins).with_runs(flying.keys()));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let mut joined: BTreeMap<RunId, Join> = BTreeMap::new();
        for row in landed.take(joins) {
            let small = |column: usize| row.number(column).map(|number| number as u32);
            joined.insert(row.run(0)?, Join { total: small(1)?, open: small(2)?, succeeded: small(3)? });
        }
        let sent: BTreeMap<RunId, Row> = by_run(landed.take(sends))?;
        let mut adopted = Adopted::default();
        for row in landed.take(rows) {
            let id = row.run(0)?;
            let Some(send) = sent.get(&id) else { continue };
            let wait = flying.get(&id).copied().flatten();
            let run = waiting(&row, wait, None)?;
            let run = Waiting { attempt: send.attempt(1)?, ready_at: row.instant(4)?, ..run };
            adopted.sends.push(OpenSend {
                run,
                token: Token(send.bits(2)?),
                log: LogId(send.bits(3)?),
                sent_at: send.instant(4)?,
                executor: send.text(5)?,
                retry: wait.and_then(|wait| Some((wait.ready_at?, wait.attempt))),
                join: joined.get(&id).copied(),
            });
        }
        for row in parked {
            adopted.parked.push((row.shard(0)?, row.job(1)?));
        }
        Ok(adopted)
    }

    pub(super) async fn try_unpark(
        &self,
        line: &Line<'_>,
        unpark: &Unpark,
    ) -> Result<Vec<(JobId, RunId)>, Trouble> {
        let lease = unpark.lease;
        let mut flight = Pipeline::begin();
        let current = flight.add(current_leases(&distinct(&[lease]), self.told_now()));
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let called = flight.add(
            // Between the choice and the update a run may be closed or called back: the update asks again.
            Ask::new(
                "with picked as (
                     select parked.run
                     from unnest($2, $3) as wanted (job, most)
                     cross join lateral (
                         select run, due
                         from waiting
                         where shard = $1 and job = wanted.job and ready_at is null
                         order by due, run
                         limit wanted.most
                     ) parked
                     where exists (
                         select from shards s
                         join nodes n on n.node = s.owner
                         where s.shard = $1 and s.epoch = $6
                           and n.expires_at > coalesce($7, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
                     )
                     order by parked.due, parked.run
                     limit $4
                 )
                 update waiting w
                 set ready_at = $5, is_called_back = true
                 from picked
                 where w.run = picked.run and w.ready_at is null
                 returning w.due, w.run, w.job",
            )
            .with(i64::from(lease.shard.0))
            .with(unpark.jobs.iter().map(|(job, _)| i64::from(job.0)).collect::<Vec<i64>>())
            .with(unpark.jobs.iter().map(|(_, max)| number(*max)).collect::<Vec<i64>>())
            .with(number(unpark.max))
            .with(unpark.at.as_millis())
            .with(lease.epoch.0 as i64)
            .with(self.told_now()),
        );
        flight.commit();
        let mut landed = line.fly(flight).await?;
        check(&mut landed, current, &[lease])?;
        let mut runs = Vec::new();
        for row in landed.take(called) {
            runs.push((row.instant(0)?, row.run(1)?, row.job(2)?));
        }
        runs.sort_unstable();
        Ok(runs.into_iter().map(|(_, run, job)| (job, run)).collect())
    }

    pub(super) async fn try_fetch(
        &self,
        line: &Line<'_>,
        ids: &[RunId],
        rows_of: &'static str,
    ) -> Result<Vec<RunRow>, Trouble> {
        let mut flight = Pipeline::snapshot();
        let of_runs = |sql: &'static str| Ask::new(sql).with_runs(ids);
        let rows = flight.add(of_runs(rows_of));
        let closes =
            flight.add(of_runs("select run from all_closes where run = any($1) and run between $2 and $3"));
        let waits_seat = flight.add(of_runs(
            "select run, ready_at, attempt, is_called_back from waiting where run = any($1) and run between $2 and $3",
        ));
        let sends = flight.add(of_runs(
            "select run, max(attempt) from sends where run = any($1) and run between $2 and $3 group by run",
        ));
        let parts = flight.add(of_runs(
            "select run, part, total, address from parts where run = any($1) and run between $2 and $3",
        ));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let closed: BTreeMap<RunId, Row> = by_run(landed.take(closes))?;
        let waits = waits(&landed.take(waits_seat))?;
        let sends: BTreeMap<RunId, Row> = by_run(landed.take(sends))?;
        let parts: BTreeMap<RunId, Row> = by_run(landed.take(parts))?;
        let mut fetched = Vec::new();
        for row in landed.take(rows) {
            let id = row.run(0)?;
            let wait = waits.get(&id).copied();
            let gated = sends.get(&id).map(|row| row.attempt(1)).transpose()?;
            let part = parts.get(&id).map(|row| part(row, 1)).transpose()?;
            fetched.push(RunRow {
                waiting: waiting(&row, wait, gated)?,
                payload: row.maybe_string(BORN)?.map(Payload::from),
                is_closed: closed.contains_key(&id),
                is_gated: gated.is_some(),
                is_parked: wait.is_some_and(|wait| wait.ready_at.is_none()),
                part: row.maybe(BORN + 1)?.map(|of| RunId(of as u64)).zip(part),
            });
        }
        Ok(fetched)
    }
}

/// A part from three columns.
pub(super) fn by_run(rows: Vec<Row>) -> Result<BTreeMap<RunId, Row>, Trouble> {
    rows.into_iter().map(|row| Ok((row.run(0)?, row))).collect()
}

/// The shards of leases, each once.
pub(super) fn shards_of(leases: &[Lease]) -> Vec<i64> {
    let shards: BTreeSet<i64> = leases.iter().map(|lease| i64::from(lease.shard.0)).collect();
    shards.into_iter().collect()
}

fn distinct(leases: &[Lease]) -> BTreeSet<Lease> {
    leases.iter().copied().collect()
}

/// Refuses if any of the leases is not among the current ones.
fn check(landed: &mut Landed, current: Seat, leases: &[Lease]) -> Result<(), Trouble> {
    let mut there = BTreeSet::new();
    for row in landed.take(current) {
        there.insert((row.shard(0)?, row.bits(1)?));
    }
    match leases.iter().find(|lease| !there.contains(&(lease.shard, lease.epoch.0))) {
        None => Ok(()),
        Some(Lease { shard, epoch }) => {
            Err(StoreError::Fenced(format!("epoch {epoch} of shard {shard} is not current").into()).into())
        }
    }
}

/// Days that follow each other, as spans of ids.
fn stretches(days: &[Row]) -> Result<Vec<(i64, i64)>, Trouble> {
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    for row in days {
        let day = u32::try_from(row.number(0)?).map_err(|_| corrupt("buckets", "of a day", "no such day"))?;
        let (low, high) = bounds(day);
        match stretches.last_mut() {
            Some(last) if last.1 == low => last.1 = high,
            _ => stretches.push((low, high)),
        }
    }
    Ok(stretches)
}

fn runs<'a>(ids: impl IntoIterator<Item = &'a RunId>) -> Ask {
    Ask::new(BORN_OF).with_runs(ids)
}

fn waits(rows: &[Row]) -> Result<BTreeMap<RunId, WaitRow>, Trouble> {
    rows.iter().map(|row| Ok((row.run(0)?, wait(row, 1)?))).collect()
}

/// A run as the wheel needs it. One that waits for nothing is at the last attempt that was gated, or at the first.
fn waiting(row: &Row, wait: Option<WaitRow>, gated: Option<Attempt>) -> Result<Waiting, Trouble> {
    let born = born(row)?;
    Ok(Waiting {
        ready_at: wait.and_then(|wait| wait.ready_at).unwrap_or(born.ready_at),
        attempt: wait.map(|wait| wait.attempt).or(gated).unwrap_or(born.attempt),
        is_called_back: wait.is_some_and(|wait| wait.is_called_back),
        ..born
    })
}
