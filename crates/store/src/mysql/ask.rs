//! How a verb is asked: on a lent connection, within a deadline, and again where nothing was written yet.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use calendar::Timestamp;
use punctual_node::ports::StoreError;

use super::day::{self, Days, Need};
use super::link::{Line, Lines, refusal};
use super::trouble::Trouble;
use crate::StoreClock;
use crate::clock;

/// How often a verb is asked before its trouble is told.
const TRIES: u32 = 40;

/// From this many tries on, a pause between them lets others finish.
const PATIENT_TRIES: u32 = 3;

/// A question to the store: everything it has to do, on one connection. It is asked again, from its beginning, if it was in
/// the way of others.
pub(super) trait Verb: Sync {
    type Answer: Send;

    /// The tables that must be there before it begins.
    fn needs(&self, _days: &Days) -> Vec<Need> {
        Vec::new()
    }

    fn ask(&self, line: &mut Line, at: &Moment)
    -> impl Future<Output = Result<Self::Answer, Trouble>> + Send;
}

/// What a verb is told when it is asked.
pub(super) struct Moment {
    /// The time, if it is told and not asked of the database.
    told: Option<Timestamp>,
    /// Which tables there are, as far as is known.
    pub(super) days: Arc<Days>,
    /// Whether it met something unique that was there already: then it looks before it writes.
    pub(super) is_careful: bool,
}

impl Moment {
    /// The time as SQL: of the moment in which the server comes across it.
    pub(super) fn now(&self) -> String {
        match self.told {
            Some(told) => told.as_millis().to_string(),
            None => DATABASE_NOW.to_owned(),
        }
    }
}

/// Not `now()`, which stands still while a statement waits for a lock; and not `unix_timestamp()`, which ends in 2038.
pub(super) const DATABASE_NOW: &str =
    "(timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', sysdate(6)) div 1000)";

/// What a verb asks with: connections, a deadline, and what is known of the days.
pub(super) struct Desk {
    pub(super) lines: Lines,
    clock: Option<StoreClock>,
    deadline: Duration,
    days: Arc<Mutex<Arc<Days>>>,
}

impl Desk {
    pub(super) fn new(
        lines: Lines,
        clock: Option<StoreClock>,
        deadline: Duration,
        days: Arc<Mutex<Arc<Days>>>,
    ) -> Desk {
        Desk { lines, clock, deadline, days }
    }

    pub(super) fn days(&self) -> Arc<Days> {
        Arc::clone(&self.days.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn learn(&self, days: Days) {
        *self.days.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(days);
    }

    /// Asks a verb, and gives its answer.
    pub(super) async fn ask<V: Verb>(&self, verb: &V) -> Result<V::Answer, StoreError> {
        match tokio::time::timeout(self.deadline, self.ask_on(verb)).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unknown("the database did not answer in time".into())),
        }
    }

    async fn ask_on<V: Verb>(&self, verb: &V) -> Result<V::Answer, StoreError> {
        let mut is_careful = false;
        let mut last = Trouble::OldDays;
        for tried in 0..TRIES {
            if tried > PATIENT_TRIES {
                clock::sleep(Duration::from_millis(u64::from(tried))).await;
            }
            let mut lent = self.lines.lend().await.map_err(refusal)?;
            let asked = self.ask_once(verb, &mut lent.line, is_careful).await;
            let trouble = match asked {
                Ok(answer) => {
                    self.lines.give_back(lent);
                    return Ok(answer);
                }
                Err(trouble @ Trouble::Broken(_)) => {
                    let may_be_done = lent.line.progress.may_be_done();
                    self.lines.give_up(lent);
                    return Err(refusal(if may_be_done { trouble } else { trouble.before_anything() }));
                }
                // Once: a new connection is refused, or leads to a server that takes writes.
                Err(trouble @ Trouble::ReadOnly(_)) => {
                    self.lines.give_up(lent);
                    if matches!(last, Trouble::ReadOnly(_)) {
                        return Err(refusal(trouble));
                    }
                    last = trouble;
                    continue;
                }
                Err(trouble) => trouble,
            };
            is_careful |= matches!(trouble, Trouble::Twin(_));
            let again = async {
                lent.line.say("rollback").await?;
                match &trouble {
                    Trouble::OldDays => self.learn(Days::read(&mut lent.line).await?),
                    Trouble::Lacks(need) => {
                        self.learn(day::make(&mut lent.line, &BTreeSet::from([*need])).await?);
                    }
                    _ => {}
                }
                Ok::<(), Trouble>(())
            };
            // What cannot even be rolled back is dropped, which rolls it back.
            if again.await.is_ok() {
                self.lines.give_back(lent);
            }
            match trouble {
                Trouble::Refused(error) => return Err(error),
                trouble => last = trouble,
            }
        }
        Err(refusal(last))
    }

    async fn ask_once<V: Verb>(
        &self,
        verb: &V,
        line: &mut Line,
        is_careful: bool,
    ) -> Result<V::Answer, Trouble> {
        let missing = self.days().missing(verb.needs(&self.days()));
        if !missing.is_empty() {
            self.learn(day::make(line, &missing).await?);
        }
        let told = self.clock.as_ref().map(|clock| clock());
        verb.ask(line, &Moment { told, days: self.days(), is_careful }).await
    }

    /// Reads the days anew, so that the first verb need not be asked twice.
    pub(super) async fn look(&self) -> Result<(), StoreError> {
        let mut lent = self.lines.lend().await.map_err(refusal)?;
        let days = Days::read(&mut lent.line).await.map_err(refusal)?;
        self.learn(days);
        self.lines.give_back(lent);
        Ok(())
    }
}
