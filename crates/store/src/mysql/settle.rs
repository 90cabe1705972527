//! Settling: the end of an attempt or of a run, with all that follows.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{JobId, NewRun, RunId, Settlement, Then};
use punctual_node::ports::Settled;

use super::ask::{Moment, Verb};
use super::day::{Days, Need, Table};
use super::gather::{CLOCK_COLUMNS, Gathered, Settings, lock_joins};
use super::link::Line;
use super::plan::push_changes;
use super::read::Said;
use super::text::{Script, list};
use super::trouble::Trouble;
use crate::row::definition_from_text;
use crate::rows::locked_clock;
use crate::rules::{LockedClock, SettleVerdict};

/// Ends to be written.
pub(super) struct SettleAll<'a> {
    pub(super) settlements: &'a [Settlement],
    pub(super) settings: Settings,
}

impl SettleAll<'_> {
    fn children(&self) -> impl Iterator<Item = &NewRun> + Clone {
        self.settlements.iter().flat_map(|settlement| &settlement.children)
    }

    fn wholes(&self) -> BTreeSet<RunId> {
        self.settlements.iter().filter_map(|settlement| settlement.part_of).collect()
    }

    /// Jobs whose clock may wait for one of these ends.
    fn named(&self) -> impl Iterator<Item = JobId> {
        let closes = self.settlements.iter().filter(|settlement| matches!(settlement.then, Then::Close(_)));
        closes.filter(|settlement| settlement.named.is_some()).map(|settlement| settlement.job)
    }

    fn parks(&self) -> impl Iterator<Item = JobId> {
        let parks = self.settlements.iter().filter(|settlement| matches!(settlement.then, Then::Park { .. }));
        parks.map(|settlement| settlement.job)
    }

    /// The questions that go along with locking the runs.
    fn more(&self, at: &Moment) -> Vec<String> {
        let mut more = vec![
            // Held until the end: the command that starts a job calls back what was parked by then.
            format!(
                "select {CLOCK_COLUMNS} from clocks where job in ({}) order by job lock in share mode",
                list(self.parks().collect::<BTreeSet<JobId>>())
            ),
            format!(
                "select job, reserved_to
                 from clocks
                 where job in ({}) and enabled = 1 and next_fire is null",
                list(self.named().collect::<BTreeSet<JobId>>())
            ),
        ];
        more.extend(lock_joins(at, self.wholes()));
        more
    }
}

impl Verb for SettleAll<'_> {
    type Answer = Vec<Settled>;

    fn needs(&self, days: &Days) -> Vec<Need> {
        let mut needs: Vec<Need> = self.children().map(|run| (run.id.day(), Table::Runs)).collect();
        for settlement in self.settlements {
            let day = settlement.run.day();
            let goes_on = !matches!(settlement.then, Then::Close(_));
            // The run may be one that only comes with this batch.
            let is_there = days.has(days.home(day), Table::Runs)
                || self.children().any(|child| child.id == settlement.run);
            if goes_on && settlement.attempt.is_some() && is_there {
                needs.push((day, Table::Attempts));
            }
        }
        needs
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<Settled>, Trouble> {
        let runs: BTreeSet<RunId> = self.settlements.iter().map(|settlement| settlement.run).collect();
        let mut gathered = self.settings.begin();
        let said = gathered.lock_runs(line, at, &runs, self.more(at)).await?;
        gathered.read_clocks(&said[0])?;
        self.lock_delays(line, &said[1], &mut gathered).await?;
        for said in &said[2..] {
            gathered.read_joins(said)?;
        }
        gathered.look_for(line, at, self.children()).await?;
        let unit = &mut gathered.unit;
        let verdicts: Vec<SettleVerdict> =
            self.settlements.iter().map(|settlement| unit.settle(settlement)).collect();
        let mut script = Script::new();
        gathered.write(&mut script, at, line.slot());
        let jobs: BTreeSet<JobId> = verdicts.iter().filter_map(SettleVerdict::job).collect();
        let counts = script.push(format!(
            "select job, prior, consecutive_failures from counts where job in ({})",
            list(&jobs)
        ));
        let writes = &gathered.unit.writes;
        push_changes(&mut script, writes.changes.iter().copied());
        script.push("commit");
        let said = line.ask(script).await?;
        let mut before: BTreeMap<JobId, u32> = BTreeMap::new();
        for row in &said[counts].rows {
            let job = row.job(0)?;
            before.insert(job, row.number(if writes.counts.contains_key(&job) { 1 } else { 2 })?);
        }
        let failures = |job| before.get(&job).copied().unwrap_or(0);
        Ok(verdicts.into_iter().map(|verdict| verdict.answer(failures)).collect())
    }
}

impl SettleAll<'_> {
    /// Locks the clocks of fixed delays that wait for one of these ends. Mostly there are none, and nothing is asked.
    async fn lock_delays(
        &self,
        line: &mut Line,
        waiting: &Said,
        gathered: &mut Gathered<'_>,
    ) -> Result<(), Trouble> {
        let mut jobs: BTreeSet<JobId> = BTreeSet::new();
        for row in &waiting.rows {
            let (job, reserved) = (row.job(0)?, Some(row.at(1)?));
            if self.settlements.iter().any(|one| one.job == job && one.named == reserved) {
                jobs.insert(job);
            }
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let said = line
            .say(format!(
                "select c.job, c.shard, c.next_fire, c.version, c.enabled, c.decided_to, c.reserved_to, j.definition
                 from clocks c
                 join jobs j on j.id = c.job
                 where c.job in ({}) and c.enabled = 1 and c.next_fire is null
                 order by c.job
                 for update",
                list(&jobs)
            ))
            .await?;
        for row in &said.rows {
            // A definition that cannot be read is no reason to lose an end: its clock is left alone.
            let definition = definition_from_text(&row.string(7)?).ok();
            gathered.unit.clocks.insert(row.job(0)?, LockedClock { definition, ..locked_clock(row)? });
        }
        Ok(())
    }
}
