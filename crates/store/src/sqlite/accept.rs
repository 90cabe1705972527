//! Accepting: numbers for runs, runs that are handed over, and what is left for holders.

use punctual_core::model::{NewRun, Origin, RunId, ShardId};
use punctual_node::ports::{Accepted, Arrival, ArrivalKind, Lease, StoreError};
use rusqlite::{OptionalExtension, params};
use rustc_hash::FxHashSet;

use super::code::{arrival_from, bits};
use super::keeper::Keeper;
use super::trouble::Trouble;

impl Keeper {
    pub(super) fn allot(&mut self, day: u32, count: u64) -> Result<u64, Trouble> {
        let mut select = self.conn.prepare_cached("select next from sequences where day = ?1")?;
        let first = select.query_row([day], |row| bits(row, 0)).optional()?.unwrap_or(1);
        let next = first.checked_add(count).filter(|next| *next <= RunId::PER_DAY);
        let next = next.ok_or_else(|| StoreError::Full(format!("no more run ids for day {day}").into()))?;
        let mut upsert = self.conn.prepare_cached(
            "insert or replace into sequences (day, next)
             values (?1, ?2)",
        )?;
        upsert.execute(params![day, next as i64])?;
        Ok(first)
    }

    pub(super) fn accept(
        &mut self,
        runs: &[NewRun],
        left: &[(ShardId, ArrivalKind)],
    ) -> Result<Vec<Accepted>, Trouble> {
        let backfills = runs.iter().filter(|run| run.origin == Origin::Backfill);
        self.forgotten(backfills.map(|run| run.job))?.check(runs)?;
        let mut pen = self.pen();
        for (shard, kind) in left {
            pen.leave(*shard, *kind)?;
        }
        let mut accepted = Vec::with_capacity(runs.len());
        for run in runs {
            accepted.push(match pen.write_run(run)? {
                Ok(id) => Accepted::New(id),
                Err(there) => Accepted::Duplicate(there),
            });
        }
        Ok(accepted)
    }

    pub(super) fn arrivals(&mut self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, Trouble> {
        let shards: FxHashSet<ShardId> = leases.iter().map(|lease| lease.shard).collect();
        let mut select = self.conn.prepare_cached(
            "select id, shard, kind, run, at
             from arrivals
             order by id",
        )?;
        let mut rows = select.query([])?;
        let mut arrivals = Vec::new();
        while let Some(row) = rows.next()?.filter(|_| arrivals.len() < max) {
            let shard = ShardId(row.get(1)?);
            let kind = arrival_from(row.get(2)?, RunId(bits(row, 3)?), row.get(4)?);
            if let Some(kind) = kind.filter(|_| shards.contains(&shard)) {
                arrivals.push(Arrival { id: bits(row, 0)?, shard, kind });
            }
        }
        Ok(arrivals)
    }

    pub(super) fn consume(&mut self, arrivals: &[u64]) -> Result<(), Trouble> {
        let mut delete = self.conn.prepare_cached("delete from arrivals where id = ?1")?;
        for id in arrivals {
            delete.execute([*id as i64])?;
        }
        Ok(())
    }
}
