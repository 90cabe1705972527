//! How the server goes about the questions that are asked all the time, and about a list of one job's runs: whether it takes the index that was made for them.

use calendar::Timestamp;
use punctual_core::model::{JobId, RunId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Lease, RunFilter};

use super::ask::{Moment, Verb};
use super::link::Line;
use super::load::Load;
use super::plan::Due;
use super::read::{Record, Said};
use super::run_list::RunList;
use super::trouble::Trouble;

/// A table that the server looks into, and by which index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The table, or what the statement calls it.
    pub table: String,
    /// How it looks, in the server's word: `range` reads a piece of an index, `ALL` everything.
    pub access: String,
    /// The index.
    pub index: Option<String>,
    /// What else it does, in the server's words.
    pub extra: String,
}

/// Asks how clocks that are due, open runs of a day and the runs of a job are found.
pub(super) struct Explain<'a> {
    pub(super) leases: &'a [Lease],
    pub(super) until: Timestamp,
    pub(super) home: u32,
}

impl Verb for Explain<'_> {
    type Answer = [Vec<Look>; 3];

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Self::Answer, Trouble> {
        let (leases, until) = (self.leases, self.until);
        let due = Due { leases, until, max: 1_000 }.statement();
        let from = Mark { due: Timestamp::from_millis(0), id: 0 };
        let load = Load { leases, from, until, max: 1_000 }.births(self.home);
        let filter = RunFilter { job: Some(JobId(1)), ..RunFilter::default() };
        let before = RunId(u64::MAX >> 1);
        let list = RunList { filter: &filter, before: None, limit: 1 }.statement(self.home, before);
        let due = looks(&line.say(format!("explain format=traditional {due}")).await?)?;
        let load = looks(&line.say(format!("explain format=traditional {load}")).await?)?;
        Ok([due, load, looks(&line.say(format!("explain format=traditional {list}")).await?)?])
    }
}

/// MySQL says two columns more than MariaDB, so the columns are counted from the ends.
fn looks(said: &Said) -> Result<Vec<Look>, Trouble> {
    let look = |row: &Record| {
        let more = row.len().saturating_sub(10);
        Ok(Look {
            table: row.string(2)?,
            access: row.string(3 + more.min(1))?,
            index: row.maybe(5 + more.min(1), Record::string)?,
            extra: row.maybe(row.len() - 1, Record::string)?.unwrap_or_default(),
        })
    };
    said.rows.iter().map(look).collect()
}
