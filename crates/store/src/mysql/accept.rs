//! Accepting: numbers for runs, runs that are handed over, and what is left for holders.

use punctual_core::model::{NewRun, Origin, RunId, ShardId, Text};
use punctual_node::ports::{Accepted, Arrival, ArrivalKind, Enqueued, Lease, StoreError};

use super::ask::{Moment, Verb};
use super::day::{Days, Need, Table};
use super::gather::Settings;
use super::leases::shards_of;
use super::link::Line;
use super::read::Record;
use super::text::{Quoted, Script, list};
use super::thin::{ask_forgotten, read_forgotten};
use super::trouble::Trouble;
use crate::code::arrival_code;
use crate::rows::arrival;

/// Numbers for runs of a day.
pub(super) struct Allot {
    pub(super) day: u32,
    pub(super) count: u64,
}

impl Verb for Allot {
    type Answer = u64;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<u64, Trouble> {
        let Allot { day, count } = *self;
        let room = RunId::PER_DAY.saturating_sub(count);
        let mut script = Script::transaction();
        let update = format!(
            "update sequences
             set last = last_insert_id(last + {count})
             where day = {day} and last < {room}"
        );
        let updated = script.push(update.as_str());
        let given = script.push("select last_insert_id()");
        script.push("commit");
        let said = line.ask(script).await?;
        if said[updated].affected == 1 {
            return Ok(said[given].number()?.unwrap_or_default() as u64 - count + 1);
        }
        let there = line.say(format!("select last from sequences where day = {day}")).await?.number()?;
        let is_full = there.unwrap_or(0) as u64 >= room;
        if is_full {
            return Err(StoreError::Full(format!("no more run ids for day {day}").into()).into());
        }
        // Of several that come together one makes the row, and all ask again.
        if there.is_none() {
            line.say(format!("insert into sequences (day, last) values ({day}, 0)")).await?;
        }
        Err(Trouble::Crossed("the day was begun".into()))
    }
}

/// Runs that are handed over, and what is left for holders.
pub(super) struct Accept<'a> {
    pub(super) runs: &'a [NewRun],
    pub(super) left: &'a [(ShardId, ArrivalKind)],
    pub(super) settings: Settings,
}

impl Verb for Accept<'_> {
    type Answer = Vec<Accepted>;

    fn needs(&self, _days: &Days) -> Vec<Need> {
        self.runs.iter().map(|run| (run.id.day(), Table::Runs)).collect()
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<Accepted>, Trouble> {
        let mut script = Script::transaction();
        let touches_far = at.days.keep_far(&mut script, self.runs.iter().map(|run| run.id.day()));
        let mut gathered = self.settings.begin();
        let has_backfills = self.runs.iter().any(|run| run.origin == Origin::Backfill);
        // Mostly there is nothing to ask, and everything goes in one flight.
        if touches_far || has_backfills || at.is_careful {
            let days = at.days.watch(&mut script);
            let backfills = self.runs.iter().filter(|run| run.origin == Origin::Backfill);
            let forgotten = ask_forgotten(&mut script, backfills);
            let said = line.ask(std::mem::take(&mut script)).await?;
            at.days.check(&said[days])?;
            gathered.unit.forgotten = read_forgotten(&said, forgotten)?;
        }
        gathered.look_for(line, at, self.runs).await?;
        let accepted = gathered.unit.accept(self.runs, self.left)?;
        gathered.write(&mut script, at, line.slot());
        script.push("commit");
        line.ask(script).await?;
        Ok(accepted)
    }
}

/// Leaves things for holders. What lies there already is not left twice.
pub(super) fn leave(script: &mut Script, left: &[(ShardId, ArrivalKind)]) {
    let row = |(shard, kind): &(ShardId, ArrivalKind)| {
        let (kind, about, at) = arrival_code(*kind);
        format!("({shard}, {kind}, {about}, {at})")
    };
    script.push_rows(
        "insert into arrivals (shard, kind, run, at) values ",
        left.iter().map(row),
        // Not `id = id`: where the same row comes twice in one statement, MySQL refuses to touch what it numbered itself (1869).
        " on duplicate key update kind = kind",
    );
}

/// What was left for shards.
pub(super) struct Arrivals<'a> {
    pub(super) leases: &'a [Lease],
    pub(super) max: usize,
}

impl Verb for Arrivals<'_> {
    type Answer = Vec<Arrival>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Vec<Arrival>, Trouble> {
        let said = line
            .say(format!(
                "select id, shard, kind, run, at
                 from arrivals
                 where shard in ({})
                 order by id
                 limit {}",
                list(shards_of(self.leases)),
                self.max
            ))
            .await?;
        said.rows.iter().map(arrival).collect()
    }
}

/// Arrivals that were seen to.
pub(super) struct Consume<'a>(pub(super) &'a [u64]);

impl Verb for Consume<'_> {
    type Answer = ();

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<(), Trouble> {
        line.say(format!("delete from arrivals where id in ({})", list(self.0))).await?;
        Ok(())
    }
}

/// What applications left. It lies under the shard 65535, and under 65534 if it was refused.
pub(super) struct LeftByApplications {
    pub(super) max: usize,
}

impl Verb for LeftByApplications {
    type Answer = Vec<Enqueued>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Vec<Enqueued>, Trouble> {
        let said = line
            .say(format!(
                "select a.id, j.id, a.at, a.payload, a.key_text, a.priority
                 from arrivals a
                 left join jobs j on j.name_key = unhex(sha2(concat(sha2(a.app, 256), sha2(a.job, 256)), 256))
                 where a.shard = 65535
                 order by a.id
                 limit {}",
                self.max
            ))
            .await?;
        said.rows.iter().map(enqueued).collect()
    }
}

fn enqueued(row: &Record) -> Result<Enqueued, Trouble> {
    Ok(Enqueued {
        id: row.uint(0)?,
        job: row.maybe(1, Record::job)?,
        at: Some(row.at(2)?).filter(|at| at.as_millis() != 0),
        payload: row.maybe(3, Record::string)?.map(Into::into),
        key: row.maybe(4, Record::text)?,
        priority: row.maybe(5, Record::int)?,
    })
}

/// Arrivals that cannot be run, each with the reason.
pub(super) struct Refuse<'a>(pub(super) &'a [(u64, Text)]);

impl Verb for Refuse<'_> {
    type Answer = ();

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<(), Trouble> {
        let mut script = Script::transaction();
        for (id, reason) in self.0 {
            script.push(format!(
                "update arrivals set shard = 65534, refused = {} where id = {id} and shard = 65535",
                Quoted(reason)
            ));
        }
        script.push("commit");
        line.ask(script).await?;
        Ok(())
    }
}
