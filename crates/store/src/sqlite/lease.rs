//! Leases: which nodes live, which shards they hold, and what the last holder promised.

use calendar::Timestamp;
use punctual_core::model::{ChangeId, Epoch, JobId, NodeId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Acquired, Lease, NodeRow, Renewal, Renewed, ShardRow, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use rustc_hash::FxHashMap;

use super::code::{bits, instant, instant_or_none};
use super::floor::Floor;
use super::keeper::Keeper;
use super::trouble::Trouble;

/// How many changes one renewal answers with at most.
const CHANGES_MAX: i64 = 1_000;

/// A node's row.
struct Node {
    expires_at: Timestamp,
    mark: Timestamp,
}

/// A shard's row.
struct Shard {
    owner: Option<NodeId>,
    inherited: Option<Timestamp>,
    checkpoint: Mark,
}

impl Keeper {
    pub(super) fn renew(&mut self, renewal: &Renewal) -> Result<Renewed, Trouble> {
        let now = self.now();
        self.shorten_lives(now)?;
        let node = node(&self.conn, renewal.node)?;
        if node.as_ref().is_some_and(|node| node.expires_at <= now) {
            return Err(expired(renewal.node).into());
        }
        // A mark never falls: what was begun under a higher one is not undone by a lower one.
        let mark = node.map_or(renewal.mark, |node| node.mark.max(renewal.mark));
        let is_latest = mark == renewal.mark;
        let mut upsert = self.conn.prepare_cached(
            "insert or replace into nodes (node, expires_at, term, mark, seen, address, name)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        upsert.execute(params![
            renewal.node.to_string(),
            now.saturating_add(renewal.term).as_millis(),
            i64::try_from(renewal.term.as_millis().min(1 << 40)).unwrap_or(i64::MAX),
            mark.as_millis(),
            renewal.seen.0 as i64,
            renewal.address.as_ref(),
            renewal.name.as_ref(),
        ])?;
        drop(upsert);
        for (lease, checkpoint) in renewal.checkpoints.iter().filter(|_| is_latest) {
            self.move_checkpoint(renewal.node, *lease, *checkpoint)?;
        }
        Ok(self.renewed(now, renewal.node, renewal.seen)?)
    }

    /// No node lives longer than its term from now, also if its row is from before the clock was set back.
    fn shorten_lives(&self, now: Timestamp) -> rusqlite::Result<()> {
        let mut update = self.conn.prepare_cached(
            "update nodes
             set expires_at = ?1 + term
             where expires_at > ?1 + term",
        )?;
        update.execute([now.as_millis()])?;
        Ok(())
    }

    /// Moves a checkpoint up, no further than to the first birth since it last moved.
    fn move_checkpoint(&mut self, node: NodeId, lease: Lease, wanted: Mark) -> rusqlite::Result<()> {
        let Some(floor) = self.side.floors.of(lease.shard) else { return Ok(()) };
        let reached = floor.checkpoint.max(wanted.min(Mark { due: floor.earliest, id: 0 }));
        let mut update = self.conn.prepare_cached(
            "update shards
             set checkpoint_due = ?4, checkpoint_run = ?5, floor = ?6
             where shard = ?1 and owner = ?2 and epoch = ?3",
        )?;
        let moved = update.execute(params![
            lease.shard.0,
            node.to_string(),
            lease.epoch.0 as i64,
            reached.due.as_millis(),
            reached.id as i64,
            i64::MAX,
        ])?;
        if moved > 0 {
            *floor = Floor { checkpoint: reached, earliest: Timestamp::MAX };
        }
        Ok(())
    }

    fn renewed(&self, now: Timestamp, node: NodeId, seen: ChangeId) -> rusqlite::Result<Renewed> {
        Ok(Renewed {
            now,
            nodes: self.living_nodes(now)?,
            shards: self.shard_rows(now)?,
            changes: self.changes_after(seen)?,
            latest: ChangeId(self.side.counters.change),
            arrivals: self.shards_with_arrivals(node)?,
        })
    }

    fn living_nodes(&self, now: Timestamp) -> rusqlite::Result<Vec<NodeRow>> {
        let mut select = self.conn.prepare_cached(
            "select node, address, name, expires_at
             from nodes
             where expires_at > ?1
             order by node",
        )?;
        let row = |row: &rusqlite::Row<'_>| {
            let node = node_id(&row.get::<_, String>(0)?);
            Ok(NodeRow {
                node: node.unwrap_or_default(),
                address: row.get::<_, String>(1)?.into(),
                name: row.get::<_, String>(2)?.into(),
                expires_at: Timestamp::from_millis(row.get(3)?),
            })
        };
        select.query_map([now.as_millis()], row)?.collect()
    }

    fn shard_rows(&self, now: Timestamp) -> rusqlite::Result<Vec<ShardRow>> {
        let mut select = self.conn.prepare_cached(
            "select shards.shard, nodes.node, shards.epoch, shards.checkpoint_due, shards.checkpoint_run
             from shards
             left join nodes on nodes.node = shards.owner and nodes.expires_at > ?1
             order by shards.shard",
        )?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok(ShardRow {
                shard: ShardId(row.get(0)?),
                owner: row.get::<_, Option<String>>(1)?.as_deref().and_then(node_id),
                epoch: Epoch(bits(row, 2)?),
                checkpoint: Mark { due: instant(row, 3)?, id: bits(row, 4)? },
            })
        };
        select.query_map([now.as_millis()], row)?.collect()
    }

    fn changes_after(&self, seen: ChangeId) -> rusqlite::Result<Vec<(ChangeId, JobId)>> {
        let mut select = self.conn.prepare_cached(
            "select id, job
             from changes
             where id > ?1
             order by id
             limit ?2",
        )?;
        let row = |row: &rusqlite::Row<'_>| Ok((ChangeId(bits(row, 0)?), JobId(row.get(1)?)));
        select.query_map([i64::try_from(seen.0).unwrap_or(i64::MAX), CHANGES_MAX], row)?.collect()
    }

    fn shards_with_arrivals(&self, node: NodeId) -> rusqlite::Result<Vec<ShardId>> {
        let mut select = self.conn.prepare_cached(
            "select shard
             from shards
             where owner = ?1 and exists (select 1 from arrivals where arrivals.shard = shards.shard)
             order by shard",
        )?;
        select.query_map([node.to_string()], |row| Ok(ShardId(row.get(0)?)))?.collect()
    }

    pub(super) fn acquire(&mut self, node: NodeId, shards: &[ShardId]) -> Result<Vec<Acquired>, Trouble> {
        let now = self.now();
        if !is_alive(&self.conn, now, node)? {
            return Err(expired(node).into());
        }
        let mut acquired = Vec::new();
        for shard in shards {
            acquired.extend(self.take(now, node, *shard)?);
        }
        let first_waits = self.first_waits()?;
        for Acquired { lease, checkpoint, .. } in &mut acquired {
            let first_wait = first_waits.get(&lease.shard).copied();
            *checkpoint = (*checkpoint).min(first_wait.unwrap_or(*checkpoint));
        }
        Ok(acquired)
    }

    /// Where the first run of each shard waits for an instant: it may have been made ready for one that is long past.
    fn first_waits(&self) -> rusqlite::Result<FxHashMap<ShardId, Mark>> {
        let mut select = self.conn.prepare_cached(
            "select shard, min(ready_at)
             from waiting
             where ready_at is not null
             group by shard",
        )?;
        let row = |row: &rusqlite::Row<'_>| Ok((ShardId(row.get(0)?), Mark { due: instant(row, 1)?, id: 0 }));
        select.query_map([], row)?.collect()
    }

    fn take(&mut self, now: Timestamp, node: NodeId, id: ShardId) -> rusqlite::Result<Option<Acquired>> {
        let Some(there) = shard(&self.conn, id)? else { return Ok(None) };
        let mut promised = None;
        if let Some(owner) = there.owner {
            if owner != node && is_alive(&self.conn, now, owner)? {
                return Ok(None);
            }
            promised = self::node(&self.conn, owner)?.map(|owner| owner.mark);
        }
        // Not the last promise alone: an earlier holder may have sent further ahead, and the last holder
        // may have gone before it got round to what it inherited.
        let inherited = there.inherited.max(promised);
        self.side.counters.epoch += 1;
        let epoch = Epoch(self.side.counters.epoch);
        let mut update = self.conn.prepare_cached(
            "update shards
             set owner = ?2, epoch = ?3, inherited = ?4
             where shard = ?1",
        )?;
        update.execute(params![
            id.0,
            node.to_string(),
            epoch.0 as i64,
            inherited.map(Timestamp::as_millis),
        ])?;
        let checkpoint = there.checkpoint;
        Ok(Some(Acquired { lease: Lease { shard: id, epoch }, mark: inherited, checkpoint }))
    }

    pub(super) fn release(&mut self, node: NodeId, leases: &[Lease], mark: Timestamp) -> Result<(), Trouble> {
        let mut update = self.conn.prepare_cached(
            "update shards
             set owner = null, inherited = max(coalesce(inherited, ?4), ?4)
             where shard = ?1 and owner = ?2 and epoch = ?3",
        )?;
        for lease in leases {
            update.execute(params![
                lease.shard.0,
                node.to_string(),
                lease.epoch.0 as i64,
                mark.as_millis()
            ])?;
        }
        Ok(())
    }

    pub(super) fn is_in_force(&mut self, change: ChangeId) -> Result<bool, Trouble> {
        let mut select = self.conn.prepare_cached(
            "select 1
             from shards
             join nodes on nodes.node = shards.owner
             where nodes.expires_at > ?1 and nodes.seen < ?2",
        )?;
        let change = i64::try_from(change.0).unwrap_or(i64::MAX);
        Ok(!select.exists([self.now().as_millis(), change])?)
    }

    /// Refuses if any of the leases is not current.
    pub(super) fn check(&self, leases: &[Lease]) -> Result<(), Trouble> {
        let current = self.current()?;
        match leases.iter().find(|lease| !current.contains(lease)) {
            None => Ok(()),
            Some(Lease { shard, epoch }) => {
                Err(StoreError::Fenced(format!("epoch {epoch} of shard {shard} is not current").into())
                    .into())
            }
        }
    }

    /// The leases whose holders live and have not given them back, by shard.
    pub(super) fn current(&self) -> rusqlite::Result<Vec<Lease>> {
        let rows = self.shard_rows(self.now())?.into_iter();
        let held = rows.filter(|row| row.owner.is_some());
        Ok(held.map(|row| Lease { shard: row.shard, epoch: row.epoch }).collect())
    }
}

fn node(conn: &Connection, id: NodeId) -> rusqlite::Result<Option<Node>> {
    let mut select = conn.prepare_cached(
        "select expires_at, mark
         from nodes
         where node = ?1",
    )?;
    let row = |row: &rusqlite::Row<'_>| Ok(Node { expires_at: instant(row, 0)?, mark: instant(row, 1)? });
    select.query_row([id.to_string()], row).optional()
}

fn shard(conn: &Connection, id: ShardId) -> rusqlite::Result<Option<Shard>> {
    let mut select = conn.prepare_cached(
        "select owner, inherited, checkpoint_due, checkpoint_run
         from shards
         where shard = ?1",
    )?;
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Shard {
            owner: row.get::<_, Option<String>>(0)?.as_deref().and_then(node_id),
            inherited: instant_or_none(row, 1)?,
            checkpoint: Mark { due: instant(row, 2)?, id: bits(row, 3)? },
        })
    };
    select.query_row([id.0], row).optional()
}

fn is_alive(conn: &Connection, now: Timestamp, id: NodeId) -> rusqlite::Result<bool> {
    Ok(node(conn, id)?.is_some_and(|node| now < node.expires_at))
}

fn node_id(text: &str) -> Option<NodeId> {
    u128::from_str_radix(text, 16).ok().map(NodeId)
}

fn expired(node: NodeId) -> StoreError {
    StoreError::Fenced(format!("node {node} has no row that lives").into())
}
