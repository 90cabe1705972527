//! Accepting: numbers for runs, runs that are handed over, and what is left for holders.

use std::collections::BTreeSet;

use punctual_core::model::{JobId, NewRun, Origin, RunId, ShardId, Text};
use punctual_node::ports::{Accepted, Arrival, ArrivalKind, Enqueued, Lease, StoreError};

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, ReadSql, text_code};
use super::gather::Wanted;
use super::insert::insert_arrivals;
use super::line::Line;
use super::load::shards_of;
use super::run_row::insert_plain;
use super::trouble::Trouble;
use crate::rows::arrival;
use crate::rules::UnitOfWork;

impl Postgres {
    pub(super) async fn try_allot(&self, line: &Line<'_>, day: u32, count: u64) -> Result<u64, Trouble> {
        let full = || StoreError::Full(format!("no more run ids for day {day}").into());
        let count =
            i64::try_from(count).ok().filter(|count| *count < RunId::PER_DAY as i64).ok_or_else(full)?;
        let rows = line
            .ask(
                Ask::new(
                    "insert into sequences as s (day, last)
                     values ($1, $2)
                     on conflict (day) do update set last = s.last + $2 where s.last + $2 < $3
                     returning last",
                )
                .with(i64::from(day))
                .with(count)
                .with(RunId::PER_DAY as i64),
            )
            .await?;
        let last = rows.first().ok_or_else(full)?.number(0)?;
        Ok((last - count + 1) as u64)
    }

    pub(super) async fn try_accept(
        &self,
        line: &Line<'_>,
        runs: &[NewRun],
        left: &[(ShardId, ArrivalKind)],
    ) -> Result<Vec<Accepted>, Trouble> {
        if runs.is_empty() {
            return self.leave_only(line, left).await;
        }
        let is_plain = |run: &NewRun| run.key.is_none() && !run.origin.is_named_by_schedule();
        if runs.iter().all(is_plain) {
            let places = self.ensure(line, runs.iter().map(|run| run.id.day())).await?;
            if places.values().all(|is_far| !is_far) {
                return self.accept_plain(line, runs, left).await;
            }
        }
        let backfills = runs.iter().filter(|run| run.origin == Origin::Backfill);
        let wanted = Wanted {
            fresh: runs.iter().collect(),
            thinned: backfills.map(|run| run.job).collect(),
            ..Wanted::default()
        };
        let mut gathered = self.gather(line, &wanted).await?;
        let answers = gathered.unit.accept(runs, left)?;
        self.flush(line, &gathered).await?;
        Ok(answers)
    }

    async fn leave_only(
        &self,
        line: &Line<'_>,
        left: &[(ShardId, ArrivalKind)],
    ) -> Result<Vec<Accepted>, Trouble> {
        let left = distinct(left);
        if !left.is_empty() {
            line.ask(insert_arrivals(&left)).await?;
        }
        Ok(Vec::new())
    }

    /// Runs that only their ids identify: one statement, and nothing is asked before.
    async fn accept_plain(
        &self,
        line: &Line<'_>,
        runs: &[NewRun],
        left: &[(ShardId, ArrivalKind)],
    ) -> Result<Vec<Accepted>, Trouble> {
        let ask = insert_plain(runs);
        let left = distinct(left);
        let rows = if left.is_empty() {
            line.ask(ask).await?
        } else {
            let mut flight = Pipeline::begin();
            flight.add(insert_arrivals(&left));
            let seat = flight.add(ask);
            flight.commit();
            line.fly(flight).await?.take(seat)
        };
        let mut written = BTreeSet::new();
        for row in &rows {
            written.insert(row.run(0)?);
        }
        // Of two with the same id in a batch, the first is the one that was written.
        let accepted = |run: &NewRun| match written.remove(&run.id) {
            true => Accepted::New(run.id),
            false => Accepted::Duplicate(run.id),
        };
        Ok(runs.iter().map(accepted).collect())
    }

    pub(super) async fn try_arrivals(
        &self,
        line: &Line<'_>,
        leases: &[Lease],
        max: usize,
    ) -> Result<Vec<Arrival>, Trouble> {
        let rows = line
            .ask(
                Ask::new(
                    "select a.id, a.shard::bigint, a.kind::bigint, a.run, a.at
                     from unnest($1) as s (shard)
                     cross join lateral (
                         select id, shard, kind, run, at
                         from arrivals
                         where shard = s.shard
                         order by id
                         limit $2
                     ) as a
                     order by a.id
                     limit $2",
                )
                .with(shards_of(leases))
                .with(i64::try_from(max).unwrap_or(i64::MAX)),
            )
            .await?;
        rows.iter().map(arrival).collect()
    }

    pub(super) async fn try_consume(&self, line: &Line<'_>, arrivals: &[u64]) -> Result<(), Trouble> {
        let ids: Vec<i64> = arrivals.iter().filter_map(|id| i64::try_from(*id).ok()).collect();
        line.ask(Ask::new("delete from arrivals where id = any($1)").with(ids)).await.map(drop)
    }

    /// What applications left lies under the shard -1, and under -2 if it was refused.
    pub(super) async fn try_enqueued(&self, line: &Line<'_>, max: usize) -> Result<Vec<Enqueued>, Trouble> {
        let ask = Ask::new(
            "select a.id, j.id, a.at, a.payload::text, a.key, a.priority::bigint
             from arrivals a
             left join jobs j on md5(j.app) = md5(a.app) and md5(j.name) = md5(a.job) and j.state <> 2
             where a.shard = -1
             order by a.id
             limit $1",
        );
        let rows = line.ask(ask.with(i64::try_from(max).unwrap_or(i64::MAX))).await?;
        rows.iter().map(enqueued).collect()
    }

    pub(super) async fn try_refuse(&self, line: &Line<'_>, refused: &[(u64, Text)]) -> Result<(), Trouble> {
        let ask = Ask::new(
            "update arrivals a set shard = -2, refused = r.reason
             from unnest($1, $2) as r (id, reason)
             where a.id = r.id and a.shard = -1",
        );
        let ids: Vec<i64> = refused.iter().filter_map(|(id, _)| i64::try_from(*id).ok()).collect();
        let reasons: Vec<String> = refused.iter().map(|(_, reason)| text_code(reason)).collect();
        line.ask(ask.with(ids).with(reasons)).await.map(drop)
    }
}

/// Messages, each once.
fn distinct(left: &[(ShardId, ArrivalKind)]) -> Vec<(ShardId, ArrivalKind)> {
    let mut unit = UnitOfWork::default();
    left.iter().for_each(|(shard, kind)| unit.leave(*shard, *kind));
    unit.writes.arrivals
}

/// Texts as the application wrote them.
fn enqueued(row: &tokio_postgres::Row) -> Result<Enqueued, Trouble> {
    let job = row.maybe(1)?.map(|id| JobId(u32::try_from(id).unwrap_or_default()));
    Ok(Enqueued {
        id: row.bits(0)?,
        job,
        at: Some(row.instant(2)?).filter(|at| at.as_millis() != 0),
        payload: row.read::<Option<String>>(3)?.map(Into::into),
        key: row.read::<Option<String>>(4)?.map(Into::into),
        priority: row.maybe(5)?,
    })
}
