//! Planning: which clocks are due, and moving them with a record for every instant they pass.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{Child, JobId, NewRun};
use punctual_node::ports::{ClockRow, JobRow, Lease, Plan, Planned, StoreError};

use super::ask::{Moment, Verb};
use super::day::{Days, Need, Table};
use super::gather::{CLOCK_COLUMNS, Settings};
use super::leases::{current, current_leases, shards_of};
use super::link::Line;
use super::text::{Maybe, Script, list, maybe_ms, ms};
use super::thin::{ask_forgotten, read_forgotten};
use super::trouble::Trouble;
use crate::code::when_from;
use crate::rows::{clock_row, job_row};

/// Clocks that are due.
pub(super) struct Due<'a> {
    pub(super) leases: &'a [Lease],
    pub(super) until: Timestamp,
    pub(super) max: usize,
}

impl Due<'_> {
    /// In the order of the index, so that it ends with the last that is asked for; the shards of others are passed over
    /// within the index.
    pub(super) fn statement(&self) -> String {
        format!(
            "select job, shard, due_at, version, decided_to, reserved_to
             from clocks force index (clocks_by_due)
             where due_at <= {} and shard in ({})
             order by due_at, job
             limit {}",
            ms(self.until),
            list(shards_of(self.leases)),
            self.max
        )
    }
}

impl Verb for Due<'_> {
    type Answer = Vec<ClockRow>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Vec<ClockRow>, Trouble> {
        line.say(self.statement()).await?.rows.iter().map(clock_row).collect()
    }
}

/// Rows of jobs.
pub(super) struct Jobs<'a>(pub(super) &'a [JobId]);

impl Verb for Jobs<'_> {
    type Answer = Vec<(JobId, Result<JobRow, StoreError>)>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Self::Answer, Trouble> {
        let ids = list(self.0);
        let mut script = Script::snapshot();
        let jobs = script.push(format!(
            "select j.id, j.version, j.changed_at, j.state, j.reason, j.definition, c.shard, c.next_fire,
                    c.decided_to, c.reserved_to
             from jobs j
             left join clocks c on c.job = j.id
             where j.id in ({ids})"
        ));
        let bonds = script.push(format!(
            "select parent, child, ends from bonds where parent in ({ids}) order by parent, child, ends"
        ));
        script.push("commit");
        let said = line.ask(script).await?;
        let mut children: BTreeMap<JobId, Vec<Child>> = BTreeMap::new();
        for row in &said[bonds].rows {
            if let Some(when) = when_from(row.int(2)?) {
                children.entry(row.job(0)?).or_default().push(Child { job: row.job(1)?, when });
            }
        }
        let mut found = Vec::new();
        for row in &said[jobs].rows {
            let id = row.job(0)?;
            let children = children.remove(&id).unwrap_or_default();
            found.push((
                id,
                match job_row(row, children) {
                    Ok(row) => Ok(row),
                    Err(Trouble::Refused(error)) => Err(error),
                    Err(trouble) => return Err(trouble),
                },
            ));
        }
        Ok(found)
    }
}

/// Clocks that are to be moved.
pub(super) struct PlanAll<'a> {
    pub(super) plans: &'a [Plan],
    pub(super) settings: Settings,
}

impl PlanAll<'_> {
    fn runs(&self) -> impl Iterator<Item = &NewRun> + Clone {
        let skipped = self.plans.iter().filter_map(|plan| Some(&plan.skipped.as_ref()?.0));
        self.plans.iter().flat_map(|plan| &plan.runs).chain(skipped)
    }
}

impl Verb for PlanAll<'_> {
    type Answer = Vec<Planned>;

    fn needs(&self, _days: &Days) -> Vec<Need> {
        self.runs().map(|run| (run.id.day(), Table::Runs)).collect()
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<Planned>, Trouble> {
        let leases: Vec<Lease> = self.plans.iter().map(|plan| plan.lease).collect();
        let mut script = Script::transaction();
        at.days.keep_far(&mut script, self.runs().map(|run| run.id.day()));
        let days = at.days.watch(&mut script);
        let again = self
            .plans
            .iter()
            .flat_map(|plan| plan.runs.iter().filter(|run| run.fire_time <= plan.clock.planned.reserved));
        let forgotten = ask_forgotten(&mut script, again);
        let clocks = script.push(format!(
            "select {CLOCK_COLUMNS} from clocks where job in ({}) order by job for update",
            list(self.plans.iter().map(|plan| plan.clock.job))
        ));
        let held = script.push(current_leases(at, &leases));
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        let mut gathered = self.settings.begin();
        gathered.read_clocks(&said[clocks])?;
        gathered.unit.current = current(&said[held])?;
        gathered.unit.forgotten = read_forgotten(&said, forgotten)?;
        gathered.look_for(line, at, self.runs()).await?;
        let planned = self.plans.iter().map(|plan| gathered.unit.plan(plan)).collect();
        let mut script = Script::new();
        gathered.write(&mut script, at, line.slot());
        push_changes(&mut script, gathered.unit.writes.changes.iter().copied());
        script.push("commit");
        line.ask(script).await?;
        Ok(planned)
    }
}

/// Writes down that jobs changed, in this order. The numbers are given in the order of the commits, because the counter stays
/// locked until then: a node that has seen a number has seen all below it.
pub(super) fn push_changes(script: &mut Script, jobs: impl IntoIterator<Item = JobId>) -> Option<usize> {
    let jobs: Vec<JobId> = jobs.into_iter().collect();
    if jobs.is_empty() {
        return None;
    }
    let count = jobs.len();
    script.push(format!("update counters set value = last_insert_id(value + {count}) where name = 'change'"));
    let row = |(number, job): (usize, JobId)| format!("(last_insert_id() - {}, {job})", count - 1 - number);
    script.push_rows("insert into changes (id, job) values ", jobs.into_iter().enumerate().map(row), "");
    Some(script.push("select last_insert_id()"))
}

/// The parts of a clock that an edit sets, as literals.
pub(super) fn due_at(next_fire: Option<Timestamp>, is_enabled: bool) -> Maybe<i64> {
    maybe_ms(next_fire.filter(|_| is_enabled))
}
