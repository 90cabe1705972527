//! Taking shards: those that no living node holds, each with a new epoch, and with what the last holders promised.

use std::collections::BTreeSet;

use punctual_core::model::{Epoch, NodeId, ShardId};
use punctual_node::ports::{Acquired, Lease};

use super::ask::{Moment, Verb};
use super::leases::{checkpoint, expired};
use super::link::Line;
use super::read::Record;
use super::text::{Script, list, node};
use super::trouble::Trouble;

/// Shards to be taken.
pub(super) struct Acquire<'a> {
    pub(super) node: NodeId,
    pub(super) shards: &'a [ShardId],
}

impl Verb for Acquire<'_> {
    type Answer = Vec<Acquired>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<Acquired>, Trouble> {
        let mut asked = Vec::new();
        for shard in self.shards {
            if !asked.contains(shard) {
                asked.push(*shard);
            }
        }
        let is_free = self.is_free(at);
        let mut script = Script::transaction();
        // The counter is what acquisitions wait for each other at; no row of a lease is.
        let counter = script.push("select value from counters where name = 'epoch' for update");
        let alive = script.push(self.is_alive(at));
        let free = script.push(format!(
            "select s.shard, s.owner
             from shards s
             left join nodes o on o.node = s.owner
             where s.shard in ({}) and {is_free}",
            list(&asked)
        ));
        let said = line.ask(script).await?;
        if said[alive].first().is_none() {
            return Err(expired(self.node).into());
        }
        let base = said[counter].number()?.unwrap_or_default();
        let mut owners: BTreeSet<NodeId> = BTreeSet::new();
        let mut free_shards: BTreeSet<ShardId> = BTreeSet::new();
        for row in &said[free].rows {
            free_shards.insert(row.shard(0)?);
            owners.extend(row.maybe(1, Record::node)?);
        }
        asked.retain(|shard| free_shards.contains(shard));
        let mut script = Script::new();
        let taken = self.take(&mut script, at, &asked, base, &owners);
        script.push("commit");
        let said = line.ask(script).await?;
        let mut acquired =
            taken.map_or(Ok(Vec::new()), |taken| said[taken].rows.iter().map(acquired).collect())?;
        acquired.sort_unstable_by_key(|acquired: &Acquired| acquired.lease.epoch);
        Ok(acquired)
    }
}

impl Acquire<'_> {
    fn is_free(&self, at: &Moment) -> String {
        let me = node(self.node);
        format!("(s.owner is null or s.owner = {me} or o.node is null or o.expires_at <= {})", at.now())
    }

    fn is_alive(&self, at: &Moment) -> String {
        format!("select 1 from nodes m where m.node = {} and m.expires_at > {}", node(self.node), at.now())
    }

    /// Adds the statements that take shards, each under the condition that it is still free.
    fn take(
        &self,
        script: &mut Script,
        at: &Moment,
        shards: &[ShardId],
        base: i64,
        owners: &BTreeSet<NodeId>,
    ) -> Option<usize> {
        if shards.is_empty() {
            return None;
        }
        let me = node(self.node);
        // Waits for renewals that are on their way: what they promise has to be inherited.
        script.push(format!(
            "select node from nodes where node in ({}) order by node lock in share mode",
            list(owners.iter().map(|owner| node(*owner)))
        ));
        let epochs: Vec<String> =
            (base + 1..).zip(shards).map(|(epoch, shard)| format!("when {shard} then {epoch}")).collect();
        // Not the last promise alone: an earlier holder may have sent further ahead, and the last holder may
        // have gone before it got round to what it inherited.
        script.push(format!(
            "update shards s
             left join nodes o on o.node = s.owner
             set s.inherited = if(o.node is null, s.inherited, greatest(coalesce(s.inherited, o.mark), o.mark)),
                 s.epoch = case s.shard {} end,
                 s.owner = {me}
             where s.shard in ({}) and {} and exists ({})",
            epochs.join(" "),
            list(shards),
            self.is_free(at),
            self.is_alive(at),
        ));
        script
            .push(format!("update counters set value = {} where name = 'epoch'", base + shards.len() as i64));
        Some(script.push(format!(
            "select s.shard, s.epoch, s.inherited, s.checkpoint_due, s.checkpoint_run,
                    least(coalesce(b.due, w.ready_at), coalesce(w.ready_at, b.due))
             from shards s
             left join (select shard, min(due) as due from births group by shard) b on b.shard = s.shard
             left join (select shard, min(ready_at) as ready_at
                        from waiting
                        where ready_at is not null
                        group by shard) w on w.shard = s.shard
             where s.owner = {me} and s.epoch > {base} and s.shard in ({})",
            list(shards)
        )))
    }
}

fn acquired(row: &Record) -> Result<Acquired, Trouble> {
    Ok(Acquired {
        lease: Lease { shard: row.shard(0)?, epoch: Epoch(row.uint(1)?) },
        mark: row.maybe(2, Record::at)?,
        checkpoint: checkpoint(row, 3, 5)?,
    })
}
