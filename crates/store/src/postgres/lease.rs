//! Leases: which nodes live, which shards they hold, and what the last holder promised.
//!
//! Every verb here is one flight: no row of a lease stays locked while the server waits for a client.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{ChangeId, Epoch, NodeId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Acquired, Lease, NodeRow, Renewal, Renewed, ShardRow, StoreError};
use tokio_postgres::Row;

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, ReadSql, text_code};
use super::code::{node_code, node_from};
use super::line::Line;
use super::migrate;
use super::trouble::{Trouble, corrupt};

/// How many changes one renewal answers with at most.
const CHANGES_MAX: i64 = 1_000;

impl Postgres {
    pub(super) async fn try_renew(&self, line: &Line<'_>, renewal: &Renewal) -> Result<Renewed, Trouble> {
        let (node, now) = (node_code(renewal.node), self.told_now());
        let mut flight = Pipeline::begin();
        flight.add(Ask::new(TRIM).with(now));
        let alive = flight.add(
            Ask::new(RENEW)
                .with(node.clone())
                .with(millis(renewal.term))
                .with(renewal.mark.as_millis())
                .with(i64::try_from(renewal.seen.0).unwrap_or(i64::MAX))
                .with(text_code(&renewal.address))
                .with(now)
                .with(text_code(&renewal.name))
                .with(i64::from(migrate::NEWEST)),
        );
        move_checkpoints(&mut flight, renewal, now);
        let nodes = flight.add(Ask::new(NODES).with(now));
        let shards = flight.add(Ask::new(SHARDS).with(now));
        let seen = i64::try_from(renewal.seen.0).unwrap_or(i64::MAX);
        let changes = "select id, job from changes where id > $1 order by id limit $2";
        let changes = flight.add(Ask::new(changes).with(seen).with(CHANGES_MAX));
        let latest = flight.add(Ask::new("select value from counters where name = 'change'"));
        let arrivals = "select s.shard::bigint
             from shards s
             where s.owner = $1 and (
                 exists (select from arrivals a where a.shard = s.shard)
                 or s.shard = 0 and exists (select from arrivals a where a.shard = -1)
             )
             order by s.shard";
        let arrivals = flight.add(Ask::new(arrivals).with(node));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        if landed.take(alive).is_empty() {
            // A newer program may have made the schema one that this one must not touch any more.
            migrate::schema(line).await?.check()?;
            return Err(expired(renewal.node).into());
        }
        let nodes = landed.take(nodes);
        let changes = landed.take(changes);
        Ok(Renewed {
            now: nodes.first().map(|row| row.instant(2)).transpose()?.unwrap_or_default(),
            nodes: nodes.iter().map(node_row).collect::<Result<_, Trouble>>()?,
            shards: landed.take(shards).iter().map(shard_row).collect::<Result<_, Trouble>>()?,
            changes: changes
                .iter()
                .map(|row| Ok((ChangeId(row.bits(0)?), row.job(1)?)))
                .collect::<Result<_, Trouble>>()?,
            latest: ChangeId(landed.take(latest).first().map(|row| row.bits(0)).transpose()?.unwrap_or(0)),
            arrivals: landed.take(arrivals).iter().map(|row| row.shard(0)).collect::<Result<_, Trouble>>()?,
        })
    }

    pub(super) async fn try_acquire(
        &self,
        line: &Line<'_>,
        node: NodeId,
        shards: &[ShardId],
    ) -> Result<Vec<Acquired>, Trouble> {
        let mut once = BTreeSet::new();
        let shards: Vec<i64> =
            shards.iter().filter(|shard| once.insert(**shard)).map(|shard| i64::from(shard.0)).collect();
        let mut flight = Pipeline::begin();
        // A node that is just renewing has renewed when this goes on, and is seen to live.
        flight.add(Ask::new(LOCK_HOLDERS).with(node_code(node)).with(shards.clone()));
        flight.add(Ask::new(LOCK_SHARDS).with(shards.clone()));
        let alive = flight.add(Ask::new(ALIVE).with(node_code(node)).with(self.told_now()));
        let taken =
            flight.add(Ask::new(TAKE).with(node_code(node)).with(shards.clone()).with(self.told_now()));
        let places = flight.add(Ask::new(PLACES).with(shards));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        if landed.take(alive).is_empty() {
            return Err(expired(node).into());
        }
        let mut checkpoints = BTreeMap::new();
        for row in landed.take(places) {
            let first_wait = row.maybe_instant(4)?.map(|due| Mark { due, id: 0 });
            let checkpoint = checkpoint(&row, 1)?;
            checkpoints.insert(row.shard(0)?, first_wait.map_or(checkpoint, |wait| wait.min(checkpoint)));
        }
        let mut taken = landed.take(taken);
        taken.sort_by_key(|row| row.number(0).unwrap_or(i64::MAX));
        let acquired = |row: &Row| {
            let lease = Lease { shard: row.shard(1)?, epoch: Epoch(row.bits(2)?) };
            let checkpoint = checkpoints.get(&lease.shard).copied().unwrap_or(START);
            Ok(Acquired { lease, mark: row.maybe_instant(3)?, checkpoint })
        };
        taken.iter().map(acquired).collect()
    }

    pub(super) async fn try_release(
        &self,
        line: &Line<'_>,
        node: NodeId,
        leases: &[Lease],
        mark: Timestamp,
    ) -> Result<(), Trouble> {
        let ask = Ask::new(
            "update shards s
             set owner = null, inherited = greatest(s.inherited, $4)
             from unnest($2, $3) as l (shard, epoch)
             where s.shard = l.shard and s.epoch = l.epoch and s.owner = $1",
        );
        let ask = ask
            .with(node_code(node))
            .with(leases.iter().map(|lease| i64::from(lease.shard.0)).collect::<Vec<i64>>())
            .with(leases.iter().map(|lease| lease.epoch.0 as i64).collect::<Vec<i64>>())
            .with(mark.as_millis());
        line.ask(ask).await.map(drop)
    }
}

const START: Mark = Mark { due: Timestamp::MIN, id: 0 };

/// From before the clock was set back: no node lives longer than its term from now.
const TRIM: &str = "
    with now as materialized (
        select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as ms
    ),
    long as (
        select n.node, now.ms + n.term as expires_at
        from nodes n, now
        where n.expires_at > now.ms + n.term
        order by n.node
        for no key update of n
    )
    update nodes n set expires_at = long.expires_at from long where n.node = long.node";

/// A mark never falls: what was begun under a higher one is not undone by a lower one. The clock is looked at when the row is
/// held, so a renewal that had to wait is judged by the time at which it goes on.
const RENEW: &str = "
    insert into nodes as n (node, expires_at, term, mark, seen, address, name)
    select $1, coalesce($6, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) + $2, $2, $3, $4, $5, $7
    where (select max(min_reader) from schema_version) <= $8
    on conflict (node) do update
    set expires_at = excluded.expires_at, term = excluded.term, mark = greatest(n.mark, excluded.mark),
        seen = excluded.seen, address = excluded.address, name = excluded.name
    where n.expires_at > coalesce($6, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
    returning n.mark";

const LOCK_SHARDS: &str = "
    select shard
    from shards
    where shard = any($1)
    order by shard
    for no key update";

/// The least of the greatest place that was told and the first birth since the last time. Births of transactions that have
/// not committed stay, and count the next time.
const CHECKPOINTS: &str = "
    with held as (
        select s.shard,
               case when (s.checkpoint_due, s.checkpoint_run) < (p.due, p.run) then p.due else s.checkpoint_due end as due,
               case when (s.checkpoint_due, s.checkpoint_run) < (p.due, p.run) then p.run else s.checkpoint_run end as run
        from unnest($3, $4, $5, $6) as p (shard, epoch, due, run)
        join shards s on s.shard = p.shard and s.epoch = p.epoch and s.owner = $1
        join nodes n on n.node = $1 and n.mark = $2
        where n.expires_at > coalesce($7, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
    ),
    consumed as (
        delete from births b using held where b.shard = held.shard returning b.shard, b.due
    ),
    floors as (
        select shard, min(due) as due from consumed group by shard
    ),
    reached as (
        select h.shard,
               case when (f.due, 0) < (h.due, h.run) then f.due else h.due end as due,
               case when (f.due, 0) < (h.due, h.run) then 0 else h.run end as run
        from held h
        left join floors f on f.shard = h.shard
    )
    update shards s
    set checkpoint_due = r.due, checkpoint_run = r.run
    from reached r
    where s.shard = r.shard";

const NODES: &str = "
    with now as materialized (
        select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as ms
    )
    select n.node, n.address, now.ms, n.name, n.expires_at
    from nodes n, now
    where n.expires_at > now.ms
    order by n.node";

const SHARDS: &str = "
    with now as materialized (
        select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as ms
    )
    select s.shard::bigint, n.node, s.epoch, s.checkpoint_due, s.checkpoint_run,
           (select min(b.due) from births b where b.shard = s.shard)
    from now, shards s
    left join nodes n on n.node = s.owner and n.expires_at > (select ms from now)
    order by s.shard";

const LOCK_HOLDERS: &str = "
    select node
    from nodes
    where node = $1 or node in (select owner from shards where shard = any($2))
    order by node
    for share";

const ALIVE: &str = "
    select 1
    from nodes
    where node = $1 and expires_at > coalesce($2, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)";

/// Not the last promise alone is inherited: an earlier holder may have sent further ahead, and the last holder
/// may have gone before it got round to what it inherited.
const TAKE: &str = "
    with now as materialized (
        select coalesce($3, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as ms
    ),
    free as materialized (
        select s.shard, o.place, n.mark
        from now, unnest($2) with ordinality as o (shard, place)
        join shards s on s.shard = o.shard
        left join nodes n on n.node = s.owner
        where (s.owner is null or s.owner = $1 or n.expires_at <= (select ms from now))
          and exists (select from nodes me where me.node = $1 and me.expires_at > (select ms from now))
        order by o.place
    ),
    numbered as materialized (
        select shard, place, mark, nextval('epochs') as epoch from free
    )
    update shards s
    set owner = $1, epoch = n.epoch, inherited = greatest(s.inherited, n.mark)
    from numbered n
    where s.shard = n.shard
    returning n.place, s.shard::bigint, s.epoch, s.inherited";

const PLACES: &str = "
    select s.shard::bigint, s.checkpoint_due, s.checkpoint_run,
           (select min(b.due) from births b where b.shard = s.shard),
           (select min(w.ready_at) from waiting w where w.shard = s.shard and w.ready_at is not null)
    from shards s
    where s.shard = any($1)";

fn move_checkpoints(flight: &mut Pipeline, renewal: &Renewal, now: Option<i64>) {
    let mut proposed: BTreeMap<Lease, Mark> = BTreeMap::new();
    for (lease, mark) in &renewal.checkpoints {
        let place = proposed.entry(*lease).or_insert(*mark);
        *place = (*place).max(*mark);
    }
    if proposed.is_empty() {
        return;
    }
    let shards: Vec<i64> = proposed.keys().map(|lease| i64::from(lease.shard.0)).collect();
    // Held first: births must not be consumed by a holder that has just lost the shard.
    flight.add(Ask::new(LOCK_SHARDS).with(shards.clone()));
    flight.add(
        Ask::new(CHECKPOINTS)
            .with(node_code(renewal.node))
            .with(renewal.mark.as_millis())
            .with(shards)
            .with(proposed.keys().map(|lease| lease.epoch.0 as i64).collect::<Vec<i64>>())
            .with(proposed.values().map(|mark| mark.due.as_millis()).collect::<Vec<i64>>())
            .with(
                proposed
                    .values()
                    .map(|mark| i64::try_from(mark.id).unwrap_or(i64::MAX))
                    .collect::<Vec<i64>>(),
            )
            .with(now),
    );
}

fn node_row(row: &Row) -> Result<NodeRow, Trouble> {
    let node = node_from(row.read(0)?).ok_or_else(|| corrupt("nodes", "of a node", "no such number"))?;
    Ok(NodeRow { node, address: row.text(1)?, name: row.text(3)?, expires_at: row.instant(4)? })
}

fn shard_row(row: &Row) -> Result<ShardRow, Trouble> {
    let owner = row.read::<Option<&[u8]>>(1)?.and_then(node_from);
    Ok(ShardRow { shard: row.shard(0)?, owner, epoch: Epoch(row.bits(2)?), checkpoint: checkpoint(row, 3)? })
}

/// A checkpoint from three columns: its place, and the first birth that it does not know of.
fn checkpoint(row: &Row, first: usize) -> Result<Mark, Trouble> {
    let stored = Mark { due: row.instant(first)?, id: row.bits(first + 1)? };
    let birth = row.maybe_instant(first + 2)?.map(|due| Mark { due, id: 0 });
    Ok(birth.map_or(stored, |birth| birth.min(stored)))
}

/// A term in milliseconds; so long that nothing overflows, and longer than any process lives.
fn millis(term: Duration) -> i64 {
    i64::try_from(term.as_millis()).unwrap_or(i64::MAX).min(1 << 50)
}

fn expired(node: NodeId) -> StoreError {
    StoreError::Fenced(format!("node {node} has no row that lives").into())
}
