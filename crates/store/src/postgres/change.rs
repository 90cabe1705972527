//! Changes of jobs by people: definition, state, clock and revision together.

use calendar::Timestamp;
use punctual_core::cluster::home;
use punctual_core::model::{ChangeId, Definition, JobId, JobState};
use punctual_node::ports::{Change, Changed, PlannedTo, REVISIONS_MAX, StoreError};

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, text_code};
use super::code::{state_code, when_code};
use super::gather::Wanted;
use super::line::Line;
use super::session;
use super::trouble::{Trouble, corrupt};
use crate::row::{definition_from_text, definition_to_text};
use crate::rules;
use crate::rules::change::JobBefore;
use crate::rules::circle;
use crate::verbs::apps::ensure_app;

/// A job as it is before a change.
struct Before {
    version: u64,
    state: i64,
    definition: Definition,
}

impl Postgres {
    pub(super) async fn try_change(&self, line: &Line<'_>, change: &Change) -> Result<Changed, Trouble> {
        let wanted = Wanted {
            clocks: change.job.iter().map(|(id, _)| *id).collect(),
            fresh: change.clock.passed.iter().map(|(run, _)| run).collect(),
            counts: change.clock.passed.iter().map(|(run, _)| run.job).collect(),
            ..Wanted::default()
        };
        let mut gathered = self.gather(line, &wanted).await?;
        let (id, version, before) = match change.job {
            None => (self.next_job(line, change).await?, 1, None),
            Some((id, expected)) => {
                let before = read(line, id).await?.filter(|before| before.state != 2);
                let clock = gathered.unit.clocks.get(&id).map(|clock| {
                    (clock.next_fire, PlannedTo { decided: clock.decided, reserved: clock.reserved })
                });
                let known = before.as_ref().map(|before| JobBefore { version: before.version, clock });
                let version = rules::change::next_version(id, expected, change, known)?;
                check_circle(line, change).await?;
                (id, version, before)
            }
        };
        if let Some(definition) = &change.definition {
            rules::change::check_name(change, owner_of_name(line, definition).await?)?;
        }
        let earlier = before.iter().flat_map(|before| &before.definition.after).map(|parent| parent.job);
        gathered.unit.change(id, change, rules::change::parents(change, earlier));
        let mut flight = Pipeline::new();
        match (&before, &change.definition) {
            (Some(before), _) => edit(&mut flight, id, version, before, change),
            (None, Some(definition)) => create(&mut flight, id, home(id, self.shards).0, change, definition),
            (None, None) => {}
        }
        let flushed = self.flush_after(line, flight, &gathered).await?;
        Ok(Changed { job: id, version, change: flushed.change.unwrap_or(ChangeId(0)) })
    }

    /// The next number for a job. Two transactions that create jobs wait for each other here.
    async fn next_job(&self, line: &Line<'_>, change: &Change) -> Result<JobId, Trouble> {
        rules::change::check_definition(change)?;
        let ask = Ask::new("update counters set value = value + 1 where name = 'job' returning value");
        let rows = line.ask(ask).await?;
        let row = rows.first().ok_or_else(|| corrupt("counters", "job", "it is not there"))?;
        let id = u32::try_from(row.number(0)?).ok().filter(|id| *id < 1 << 31);
        Ok(JobId(id.ok_or_else(|| StoreError::Full("no more job numbers".into()))?))
    }

    pub(super) async fn try_is_in_force(&self, line: &Line<'_>, change: ChangeId) -> Result<bool, Trouble> {
        let rows = line
            .ask(
                Ask::new(
                    "select 1
                     from nodes n
                     where n.expires_at > coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
                       and n.seen < $2
                       and exists (select from shards s where s.owner = n.node)
                     limit 1",
                )
                .with(self.told_now())
                .with(i64::try_from(change.0).unwrap_or(i64::MAX)),
            )
            .await?;
        Ok(rows.is_empty())
    }
}

async fn read(line: &Line<'_>, id: JobId) -> Result<Option<Before>, Trouble> {
    let ask = Ask::new("select version, state::bigint, definition from jobs where id = $1");
    let rows = line.ask(ask.with(i64::from(id.0))).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let definition = definition_from_text(&row.string(2)?).map_err(|reason| corrupt("jobs", id, reason))?;
    Ok(Some(Before { version: row.bits(0)?, state: row.number(1)?, definition }))
}

async fn owner_of_name(line: &Line<'_>, definition: &Definition) -> Result<Option<JobId>, Trouble> {
    let ask = Ask::new(
        "select id
         from jobs
         where md5(app) = md5($1) and md5(name) = md5($2) and app = $1 and name = $2 and state <> 2",
    );
    let (app, name) = (&definition.app, &definition.name);
    let rows = line.ask(ask.with(text_code(app)).with(text_code(name))).await?;
    rows.first().map(|row| row.job(0)).transpose()
}

/// Refuses to let a job come after itself, in however many steps. Changes that could close a circle wait for each other,
/// at the row that new jobs wait at too.
async fn check_circle(line: &Line<'_>, change: &Change) -> Result<(), Trouble> {
    let Some((job, parents)) = circle::closed_by(change) else { return Ok(()) };
    line.ask(Ask::new("select value from counters where name = 'job' for update")).await?;
    let ask = Ask::new(
        "with recursive before (job) as (
             select unnest($1)
             union
             select b.parent from bonds b join before on b.child = before.job
         )
         select 1 from before where job = $2",
    );
    let parents: Vec<i64> = parents.iter().map(|parent| i64::from(parent.0)).collect();
    match line.ask(ask.with(parents).with(i64::from(job.0))).await?.is_empty() {
        true => Ok(()),
        false => Err(circle::refusal(job).into()),
    }
}

fn create(flight: &mut Pipeline, id: JobId, shard: u16, change: &Change, definition: &Definition) {
    let (state, reason) = state_code(&change.state);
    flight.add(
        Ask::new(
            "insert into jobs (id, version, changed_at, state, reason, app, name, definition)
             values ($1, 1, $2, $3, $4, $5, $6, $7)",
        )
        .with(i64::from(id.0))
        .with(change.at.as_millis())
        .with(state)
        .with(text_code(&reason))
        .with(text_code(&definition.app))
        .with(text_code(&definition.name))
        .with(text_code(&definition_to_text(definition))),
    );
    flight.add(
        Ask::new(
            "insert into clocks (job, shard, next_fire, version, enabled, decided, reserved)
             values ($1, $2, $3, 1, $4, $5, $6)",
        )
        .with(i64::from(id.0))
        .with(i64::from(shard))
        .with(change.clock.next_fire.map(Timestamp::as_millis))
        .with(change.state.is_enabled())
        .with(change.at.as_millis())
        .with(Timestamp::MIN.as_millis()),
    );
    write_revision(flight, id, 1, change, definition);
    link(flight, id, &change.state, definition);
}

fn edit(flight: &mut Pipeline, id: JobId, version: u64, before: &Before, change: &Change) {
    let (state, reason) = state_code(&change.state);
    let definition = change.definition.as_ref().unwrap_or(&before.definition);
    flight.add(
        Ask::new(
            "update jobs
             set version = $2, changed_at = $3, state = $4, reason = $5, app = $6, name = $7, definition = $8
             where id = $1",
        )
        .with(i64::from(id.0))
        .with(version as i64)
        .with(change.at.as_millis())
        .with(state)
        .with(text_code(&reason))
        .with(text_code(&definition.app))
        .with(text_code(&definition.name))
        .with(text_code(&definition_to_text(definition))),
    );
    flight.add(
        // What passed before it is recorded with it.
        Ask::new(
            "update clocks
             set version = $2, next_fire = $3, enabled = $4, decided = greatest(decided, $5)
             where job = $1",
        )
        .with(i64::from(id.0))
        .with(version as i64)
        .with(change.clock.next_fire.map(Timestamp::as_millis))
        .with(change.state.is_enabled())
        .with(change.at.as_millis()),
    );
    if let Some(definition) = &change.definition {
        write_revision(flight, id, version, change, definition);
    }
    flight.add(Ask::new("delete from bonds where child = $1").with(i64::from(id.0)));
    link(flight, id, &change.state, definition);
}

fn write_revision(flight: &mut Pipeline, id: JobId, version: u64, change: &Change, definition: &Definition) {
    flight.add(
        Ask::new("insert into revisions (job, version, at, by, definition) values ($1, $2, $3, $4, $5)")
            .with(i64::from(id.0))
            .with(version as i64)
            .with(change.at.as_millis())
            .with(text_code(&change.by))
            .with(text_code(&definition_to_text(definition))),
    );
    flight.add(
        Ask::new(
            "delete from revisions
             where job = $1 and version <= (
                 select version from revisions where job = $1 order by version desc limit 1 offset $2
             )",
        )
        .with(i64::from(id.0))
        .with(REVISIONS_MAX as i64),
    );
}

/// Makes a job known to its parents and as one of its app; a deleted one is known to none.
fn link(flight: &mut Pipeline, id: JobId, state: &JobState, definition: &Definition) {
    if *state == JobState::Deleted {
        return;
    }
    let parents: Vec<i64> = definition.after.iter().map(|parent| i64::from(parent.job.0)).collect();
    let ends: Vec<i64> = definition.after.iter().map(|parent| when_code(parent.when)).collect();
    if !parents.is_empty() {
        flight.add(
            Ask::new(
                "insert into bonds (parent, child, ends)
                 select distinct parent, $1, ends from unnest($2, $3) as n (parent, ends)",
            )
            .with(i64::from(id.0))
            .with(parents)
            .with(ends),
        );
    }
    flight.add(session::ask(&ensure_app(&definition.app)));
}
