//! Changes of jobs by people: definition, state, clock and revision together.

use std::collections::BTreeSet;

use punctual_core::cluster::home;
use punctual_core::model::{ChangeId, Definition, JobId, JobState, NewRun};
use punctual_node::ports::{Change, Changed, PlannedTo, REVISIONS_MAX, StoreError};

use super::ask::{Moment, Verb};
use super::day::{Days, Need, Table};
use super::gather::Settings;
use super::link::Line;
use super::plan::{due_at, push_changes};
use super::read::{Record, Said};
use super::session;
use super::text::{Maybe, PairSum, Quoted, Script, Sum, maybe_ms, ms};
use super::trouble::Trouble;
use crate::code::{DELETED, state_code, when_code};
use crate::row::definition_to_text;
use crate::rules;
use crate::rules::change::JobBefore;
use crate::rules::circle;
use crate::verbs::apps::ensure_app;

/// A change of a job.
pub(super) struct ChangeJob<'a> {
    pub(super) change: &'a Change,
    pub(super) settings: Settings,
}

impl ChangeJob<'_> {
    fn passed(&self) -> impl Iterator<Item = &NewRun> + Clone {
        self.change.clock.passed.iter().map(|(run, _)| run)
    }

    fn is_deleted(&self) -> bool {
        self.change.state == JobState::Deleted
    }
}

impl Verb for ChangeJob<'_> {
    type Answer = Changed;

    fn needs(&self, _days: &Days) -> Vec<Need> {
        self.passed().map(|run| (run.id.day(), Table::Runs)).collect()
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Changed, Trouble> {
        let change = self.change;
        rules::change::check_definition(change)?;
        let edited = change.job.map_or(0, |(id, _)| id.0);
        let mut script = Script::transaction();
        at.days.keep_far(&mut script, self.passed().map(|run| run.id.day()));
        let row = script.push(match change.job {
            Some((id, _)) => format!(
                "select j.version, c.next_fire, c.decided_to, c.reserved_to
                 from jobs j
                 join clocks c on c.job = j.id
                 where j.id = {id} and j.state <> {DELETED}
                 for update"
            ),
            None => "select value from counters where name = 'job' for update".to_owned(),
        });
        let circle = circle::closed_by(change)
            .map(|(job, parents)| (job, look_for_circle(&mut script, job, &parents)));
        let name = change.definition.as_ref().map(|one| PairSum(&one.app, &one.name));
        let names = script.push(format!("select id from jobs where name_key = {}", Maybe(name)));
        let bonds = script.push(format!("select distinct parent from bonds where child = {edited}"));
        let days = at.days.watch(&mut script);
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        let (job, version) = match change.job {
            None => create(&said[row])?,
            Some((id, expected)) => {
                let before = said[row].first().map(before).transpose()?;
                (id, rules::change::next_version(id, expected, change, before)?)
            }
        };
        let owner = said[names].first().map(|row| row.job(0)).transpose()?;
        rules::change::check_name(change, owner)?;
        if let Some((job, found)) = circle
            && said[found].first().is_some()
        {
            return Err(circle::refusal(job).into());
        }
        let earlier =
            said[bonds].rows.iter().map(|row| row.job(0)).collect::<Result<Vec<JobId>, Trouble>>()?;
        let mut gathered = self.settings.begin();
        gathered.look_for(line, at, self.passed()).await?;
        gathered.unit.change(job, change, rules::change::parents(change, earlier));
        let mut script = Script::new();
        self.write_job(&mut script, job, version);
        self.write_clock(&mut script, job, version);
        self.write_bonds(&mut script, job);
        if let Some(definition) = change.definition.as_ref().filter(|_| !self.is_deleted()) {
            for text in session::texts(&ensure_app(&definition.app)) {
                script.push(text);
            }
        }
        gathered.write(&mut script, at, line.slot());
        let number = push_changes(&mut script, gathered.unit.writes.changes.iter().copied());
        script.push("commit");
        let said = line.ask(script).await?;
        let number = number.map(|number| said[number].number()).transpose()?.flatten();
        Ok(Changed { job, version, change: ChangeId(number.unwrap_or_default() as u64) })
    }
}

impl ChangeJob<'_> {
    fn write_job(&self, script: &mut Script, job: JobId, version: u64) {
        let Change { definition, state, at, by, .. } = self.change;
        let ((code, reason), at) = (state_code(state), ms(*at));
        let reason = Quoted(&reason);
        match (definition, self.change.job) {
            (Some(definition), None) => {
                script.push(format!(
                    "insert into jobs (id, version, changed_at, state, reason, app, name, definition, app_key, name_key)
                     values ({job}, {version}, {at}, {code}, {reason}, {})",
                    self.described(definition).join(", ")
                ));
                script.push(format!("update counters set value = {job} where name = 'job'"));
            }
            (Some(definition), Some(_)) => {
                let [app, name, text, app_key, name_key] = self.described(definition);
                script.push(format!(
                    "update jobs
                     set version = {version}, changed_at = {at}, state = {code}, reason = {reason}, app = {app},
                         name = {name}, definition = {text}, app_key = {app_key}, name_key = {name_key}
                     where id = {job}"
                ));
            }
            (None, _) => {
                let name_key = if self.is_deleted() { "null" } else { "name_key" };
                script.push(format!(
                    "update jobs
                     set version = {version}, changed_at = {at}, state = {code}, reason = {reason},
                         name_key = {name_key}
                     where id = {job}"
                ));
            }
        }
        if let Some(definition) = definition {
            script.push(format!(
                "insert into revisions (job, version, at, `by`, definition)
                 values ({job}, {version}, {at}, {}, {})",
                Quoted(by),
                Quoted(&definition_to_text(definition))
            ));
            // Within a name of its own, because a statement does not read what it deletes from.
            script.push(format!(
                "delete from revisions
                 where job = {job} and version <= (
                     select version
                     from (
                         select version
                         from revisions
                         where job = {job}
                         order by version desc
                         limit 1 offset {REVISIONS_MAX}
                     ) as old
                 )"
            ));
        }
    }

    /// What the row of a job says of its definition. A deleted job leaves its name to others.
    fn described(&self, definition: &Definition) -> [String; 5] {
        let Definition { app, name, .. } = definition;
        let name_key = Maybe((!self.is_deleted()).then_some(PairSum(app, name)));
        [
            Quoted(app).to_string(),
            Quoted(name).to_string(),
            Quoted(&definition_to_text(definition)).to_string(),
            Sum(app).to_string(),
            name_key.to_string(),
        ]
    }

    /// The shard is decided when the job is made, for good.
    fn write_clock(&self, script: &mut Script, job: JobId, version: u64) {
        let Change { clock, state, at, .. } = self.change;
        script.push(format!(
            "insert into clocks (job, shard, next_fire, version, enabled, decided_to, reserved_to, due_at)
             values ({job}, {}, {}, {version}, {}, {}, {}, {})
             on duplicate key update
                 next_fire = values(next_fire),
                 version = values(version),
                 enabled = values(enabled),
                 decided_to = greatest(decided_to, values(decided_to)),
                 due_at = values(due_at)",
            home(job, self.settings.shards),
            maybe_ms(clock.next_fire),
            u8::from(state.is_enabled()),
            // What passed before it is recorded with it.
            ms(*at),
            i64::MIN,
            due_at(clock.next_fire, state.is_enabled()),
        ));
    }

    /// Makes a job known to its parents; a deleted one is known to none.
    fn write_bonds(&self, script: &mut Script, job: JobId) {
        if !self.is_deleted() && self.change.definition.is_none() {
            return;
        }
        script.push(format!("delete from bonds where child = {job}"));
        let parents = self.change.definition.iter().filter(|_| !self.is_deleted());
        let bonds: BTreeSet<(JobId, i64)> = parents
            .flat_map(|definition| &definition.after)
            .map(|parent| (parent.job, when_code(parent.when)))
            .collect();
        let row = |(parent, ends)| format!("({parent}, {job}, {ends})");
        script.push_rows("insert into bonds (parent, child, ends) values ", bonds.into_iter().map(row), "");
    }
}

/// Looks whether a job would come after itself, in however many steps. Changes that could close a circle wait for each other,
/// at the row that new jobs wait at too.
fn look_for_circle(script: &mut Script, job: JobId, parents: &[JobId]) -> usize {
    script.push("select value from counters where name = 'job' for update");
    let parents: Vec<String> = parents.iter().map(|parent| format!("select {parent}")).collect();
    script.push(format!(
        "with recursive `before` (job) as (
             {}
             union
             select b.parent from bonds b join `before` on b.child = `before`.job
         )
         select 1 from `before` where job = {job} limit 1",
        parents.join(" union ")
    ))
}

fn create(counter: &Said) -> Result<(JobId, u64), Trouble> {
    let next = counter.number()?.unwrap_or_default() + 1;
    let id = u32::try_from(next).ok().filter(|id| *id < 1 << 31);
    let id = id.ok_or_else(|| StoreError::Full("no more job ids".into()))?;
    Ok((JobId(id), 1))
}

/// The version and the clock of a job that is to be changed.
fn before(row: &Record) -> Result<JobBefore, Trouble> {
    let planned = PlannedTo { decided: row.at(2)?, reserved: row.at(3)? };
    Ok(JobBefore { version: row.uint(0)?, clock: Some((row.maybe(1, Record::at)?, planned)) })
}
