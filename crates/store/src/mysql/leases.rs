//! Leases: which nodes live, which shards they hold, and giving shards back. Taking is in `acquire.rs`.
//!
//! Expiry is judged inside the statements that rely on it. Rows of shards are written by single statements with conditions and
//! never locked across a round trip; the row of a node is locked by its own renewals alone.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{ChangeId, Epoch, NodeId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Lease, NodeRow, Renewal, Renewed, ShardRow, StoreError};

use super::ask::{Moment, Verb};
use super::link::{Line, READ_ONLY};
use super::migrate;
use super::read::{Record, Said};
use super::text::{Quoted, Script, list, maybe_ms, ms, node};
use super::trouble::Trouble;

/// How many changes one renewal answers with at most.
const CHANGES_MAX: usize = 1_000;

/// How many births one renewal takes note of; the others hold the checkpoint back until the next.
const BIRTHS_MAX: usize = 10_000;

/// A renewal of a node's row.
pub(super) struct Renew<'a>(pub(super) &'a Renewal);

impl Verb for Renew<'_> {
    type Answer = Renewed;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Renewed, Trouble> {
        let Renewal { node: id, mark, seen, checkpoints, .. } = self.0;
        let shards = list(checkpoints.iter().map(|(lease, _)| lease.shard));
        let mut script = Script::transaction();
        let mode = script.push(READ_ONLY);
        script.push(clamp(at));
        let reader = script.push("select cast(coalesce(max(min_reader), 0) as unsigned) from schema_version");
        let renewed = script.push(self.update(at));
        let own = script.push(format!("select mark from nodes where node = {}", node(*id)));
        let births = script
            .push(format!("select id, shard, due from births where shard in ({shards}) limit {BIRTHS_MAX}"));
        let floors = script
            .push(format!("select shard, min(due) from births where shard in ({shards}) group by shard"));
        let stored = script.push(format!(
            "select shard, checkpoint_due, checkpoint_run from shards where shard in ({shards})"
        ));
        let said = line.ask(script).await?;
        Line::check_writes(&said[mode])?;
        let needed = said[reader].first().map(|row| row.uint(0)).transpose()?.unwrap_or(0);
        if needed > u64::from(migrate::NEWEST) {
            line.say("rollback").await?;
            return Err(migrate::too_new(needed).into());
        }
        let mut is_latest = true;
        match (said[renewed].affected, said[own].first()) {
            (1, Some(row)) => is_latest = row.at(0)? == *mark,
            (_, Some(_)) => {
                line.say("commit").await?;
                return Err(expired(*id).into());
            }
            (_, None) => {
                line.say(self.insert(at)).await?;
            }
        }
        let mut script = Script::new();
        if is_latest && !checkpoints.is_empty() {
            let moves = self.moves(&said[floors], &said[stored])?;
            let seen: Vec<u64> = said[births].rows.iter().map(|row| row.uint(0)).collect::<Result<_, _>>()?;
            move_checkpoints(&mut script, *id, &moves, &seen);
        }
        let first = Asked::push(&mut script, at, *id, *seen);
        script.push("commit");
        first.read(&line.ask(script).await?)
    }
}

impl Renew<'_> {
    /// Only a row that lives is renewed. A mark never falls: what was begun under a higher one is not undone by a lower one.
    fn update(&self, at: &Moment) -> String {
        let Renewal { node: id, mark, seen, name, address, .. } = self.0;
        let (now, term) = (at.now(), self.term());
        format!(
            "update nodes
             set expires_at = {now} + {term},
                 term = {term},
                 mark = greatest(mark, {}),
                 seen = {seen},
                 renewals = renewals + 1,
                 name = {},
                 address = {}
             where node = {} and expires_at > {now}",
            ms(*mark),
            Quoted(name),
            Quoted(address),
            node(*id),
        )
    }

    fn insert(&self, at: &Moment) -> String {
        let Renewal { node: id, mark, seen, name, address, .. } = self.0;
        let (now, term) = (at.now(), self.term());
        format!(
            "insert into nodes (node, expires_at, term, mark, seen, renewals, name, address)
             values ({}, {now} + {term}, {term}, {}, {seen}, 1, {}, {})",
            node(*id),
            ms(*mark),
            Quoted(name),
            Quoted(address),
        )
    }

    fn term(&self) -> i64 {
        // Far beyond every lifetime, and far from where a sum would not fit any more.
        i64::try_from(self.0.term.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 4)
    }

    /// Where the checkpoints go: no further than to the first birth that was not taken note of.
    fn moves(&self, floors: &Said, stored: &Said) -> Result<Vec<(Lease, Mark)>, Trouble> {
        let mut first: BTreeMap<ShardId, Mark> = BTreeMap::new();
        for row in &floors.rows {
            first.insert(row.shard(0)?, Mark { due: row.at(1)?, id: 0 });
        }
        let mut there: BTreeMap<ShardId, Mark> = BTreeMap::new();
        for row in &stored.rows {
            there.insert(row.shard(0)?, Mark { due: row.at(1)?, id: row.uint(2)? });
        }
        let mut moves = Vec::new();
        for (lease, proposed) in &self.0.checkpoints {
            let Some(there) = there.get(&lease.shard) else { continue };
            let floor = first.get(&lease.shard).copied().unwrap_or(Mark { due: Timestamp::MAX, id: 0 });
            moves.push((*lease, (*proposed).min(floor).max((*there).min(floor))));
        }
        Ok(moves)
    }
}

/// From before the clock was set back: no node lives longer than its term from now.
fn clamp(at: &Moment) -> String {
    let now = at.now();
    format!("update nodes set expires_at = {now} + term where expires_at > {now} + term")
}

/// Moves the checkpoints of leases that are current, and with them forgets the births that were taken note of.
fn move_checkpoints(script: &mut Script, id: NodeId, moves: &[(Lease, Mark)], births: &[u64]) {
    if moves.is_empty() {
        return;
    }
    let leases = lease_list(moves.iter().map(|(lease, _)| lease));
    let case = |value: &dyn Fn(&Mark) -> String| {
        let whens = moves.iter().map(|(lease, mark)| format!("when {} then {}", lease.shard, value(mark)));
        whens.collect::<Vec<String>>().join(" ")
    };
    script.push(format!(
        "update shards
         set checkpoint_due = case shard {} end,
             checkpoint_run = case shard {} end
         where owner = {} and (shard, epoch) in ({leases})",
        case(&|mark| ms(mark.due).to_string()),
        case(&|mark| mark.id.to_string()),
        node(id),
    ));
    if !births.is_empty() {
        script.push(format!(
            "delete b
             from births b
             join shards s on s.shard = b.shard
             where b.id in ({}) and s.owner = {} and (s.shard, s.epoch) in ({leases})",
            list(births),
            node(id),
        ));
    }
}

/// The places of what a renewal is answered with.
struct Asked {
    now: usize,
}

impl Asked {
    fn push(script: &mut Script, at: &Moment, id: NodeId, seen: ChangeId) -> Asked {
        let now = script.push(format!("select {}", at.now()));
        script.push(format!(
            "select node, name, address, expires_at from nodes where expires_at > {} order by node",
            at.now()
        ));
        script.push(format!(
            "select s.shard, if(o.expires_at > {}, s.owner, null), s.epoch, s.checkpoint_due, s.checkpoint_run,
                    b.due
             from shards s
             left join nodes o on o.node = s.owner
             left join (select shard, min(due) as due from births group by shard) b on b.shard = s.shard
             order by s.shard",
            at.now()
        ));
        // In this order: what is the last is then among those that are listed.
        script.push("select max(id) from changes");
        script.push(format!("select id, job from changes where id > {seen} order by id limit {CHANGES_MAX}"));
        script.push(format!(
            "select s.shard
             from shards s
             where s.owner = {} and (
                 exists (select 1 from arrivals a where a.shard = s.shard)
                 or s.shard = 0 and exists (select 1 from arrivals a where a.shard = 65535)
             )
             order by s.shard",
            node(id)
        ));
        Asked { now }
    }

    fn read(&self, said: &[Said]) -> Result<Renewed, Trouble> {
        let [now, nodes, shards, latest, changes, arrivals] = &said[self.now..self.now + 6] else {
            return Err(StoreError::Unknown("an answer is missing".into()).into());
        };
        let node = |row: &Record| {
            Ok(NodeRow {
                node: row.node(0)?,
                name: row.text(1)?,
                address: row.text(2)?,
                expires_at: row.at(3)?,
            })
        };
        let shard = |row: &Record| {
            Ok(ShardRow {
                shard: row.shard(0)?,
                owner: row.maybe(1, Record::node)?,
                epoch: Epoch(row.uint(2)?),
                checkpoint: checkpoint(row, 3, 5)?,
            })
        };
        let change = |row: &Record| Ok((ChangeId(row.uint(0)?), row.job(1)?));
        let changes: Vec<_> = changes.rows.iter().map(change).collect::<Result<_, Trouble>>()?;
        let latest = latest.first().map(|row| row.maybe(0, Record::uint)).transpose()?.flatten();
        let told = changes.last().map_or(0, |(id, _): &(ChangeId, _)| id.0);
        Ok(Renewed {
            now: Timestamp::from_millis(now.number()?.unwrap_or_default()),
            nodes: nodes.rows.iter().map(node).collect::<Result<_, Trouble>>()?,
            shards: shards.rows.iter().map(shard).collect::<Result<_, Trouble>>()?,
            latest: ChangeId(latest.unwrap_or(0).max(told)),
            changes,
            arrivals: arrivals.rows.iter().map(|row| row.shard(0)).collect::<Result<_, _>>()?,
        })
    }
}

/// The checkpoint in two cells, or the first birth in another if that is earlier.
pub(super) fn checkpoint(row: &Record, cell: usize, birth: usize) -> Result<Mark, Trouble> {
    let stored = Mark { due: row.at(cell)?, id: row.uint(cell + 1)? };
    let birth = row.maybe(birth, Record::at)?.map(|due| Mark { due, id: 0 });
    Ok(birth.map_or(stored, |birth| stored.min(birth)))
}

/// Shards that are given back.
pub(super) struct Release<'a> {
    pub(super) node: NodeId,
    pub(super) leases: &'a [Lease],
    pub(super) mark: Timestamp,
}

impl Verb for Release<'_> {
    type Answer = ();

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<(), Trouble> {
        if self.leases.is_empty() {
            return Ok(());
        }
        let mark = maybe_ms(Some(self.mark));
        line.say(format!(
            "update shards
             set owner = null,
                 inherited = greatest(coalesce(inherited, {mark}), {mark})
             where owner = {} and (shard, epoch) in ({})",
            node(self.node),
            lease_list(self.leases)
        ))
        .await?;
        Ok(())
    }
}

/// Whether a change is in force.
pub(super) struct IsInForce(pub(super) ChangeId);

impl Verb for IsInForce {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<bool, Trouble> {
        let said = line
            .say(format!(
                "select 1
                 from shards s
                 join nodes o on o.node = s.owner
                 where o.expires_at > {} and o.seen < {}
                 limit 1",
                at.now(),
                self.0
            ))
            .await?;
        Ok(said.first().is_none())
    }
}

/// The statement that [`check_leases`] reads the answer of.
pub(super) fn current_leases(at: &Moment, leases: &[Lease]) -> String {
    format!(
        "select s.shard, s.epoch
         from shards s
         join nodes o on o.node = s.owner
         where s.shard in ({}) and o.expires_at > {}",
        list(shards_of(leases)),
        at.now()
    )
}

/// Leases that are the last given for their shard, and whose holder lives.
pub(super) fn current(said: &Said) -> Result<BTreeSet<Lease>, Trouble> {
    let lease = |row: &Record| Ok(Lease { shard: row.shard(0)?, epoch: Epoch(row.uint(1)?) });
    said.rows.iter().map(lease).collect()
}

/// Refuses if any of the leases is not current.
pub(super) fn check_leases(said: &Said, leases: &[Lease]) -> Result<(), Trouble> {
    let current = current(said)?;
    match leases.iter().find(|lease| !current.contains(lease)) {
        None => Ok(()),
        Some(Lease { shard, epoch }) => {
            Err(StoreError::Fenced(format!("epoch {epoch} of shard {shard} is not current").into()).into())
        }
    }
}

/// The shards of leases, each once.
pub(super) fn shards_of(leases: &[Lease]) -> BTreeSet<ShardId> {
    leases.iter().map(|lease| lease.shard).collect()
}

fn lease_list<'l>(leases: impl IntoIterator<Item = &'l Lease>) -> String {
    list(leases.into_iter().map(|Lease { shard, epoch }| format!("({shard}, {epoch})")))
}

pub(super) fn expired(node: NodeId) -> StoreError {
    StoreError::Fenced(format!("node {node} has no row that lives").into())
}
