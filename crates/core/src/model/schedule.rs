//! A job's schedule as it is kept: words and numbers, not yet a rule. A row in a database can hold anything, so
//! only [`Schedule::compile`] says whether it means something.

use std::time::Duration;

use calendar::{Cron, Dialect, Gap, Overlap, Rule, Timestamp, Zones};

use super::Poison;

/// A rule for instants, as written, with its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The kind and its words.
    pub kind: ScheduleKind,
    /// No instant before this one.
    pub from: Option<Timestamp>,
    /// No instant after this one.
    pub until: Option<Timestamp>,
}

/// The kinds of schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleKind {
    /// Wall times in a zone.
    Cron {
        /// The fields.
        expression: String,
        /// How they are read.
        dialect: Dialect,
        /// The zone's IANA name.
        zone: String,
        /// What becomes of wall times that do not exist.
        gap: Gap,
        /// What becomes of wall times that happen twice.
        overlap: Overlap,
    },
    /// A fixed rate.
    Every {
        /// From one instant to the next.
        interval: Duration,
        /// One of the instants.
        anchor: Timestamp,
    },
    /// A fixed delay after the end of the last run.
    Delay {
        /// From the end to the next fire time.
        delay: Duration,
    },
    /// One instant.
    Once {
        /// That instant.
        at: Timestamp,
    },
    /// None: people and programs start it.
    Manual,
}

impl From<ScheduleKind> for Schedule {
    fn from(kind: ScheduleKind) -> Schedule {
        Schedule { kind, from: None, until: None }
    }
}

impl Schedule {
    /// The rule it stands for; `seed` is what an `H` in a cron expression is spread by.
    pub fn compile(&self, zones: &Zones, seed: &str) -> Result<Rule, Poison> {
        let poison = |error: &dyn std::fmt::Display| Poison::new("/schedule", error);
        let rule = match &self.kind {
            ScheduleKind::Cron { expression, dialect, zone, gap, overlap } => {
                let cron = Cron::parse(expression, *dialect, seed)
                    .map_err(|e| Poison::new("/schedule/expression", &e))?;
                let zone = zones.get(zone).map_err(|e| Poison::new("/schedule/zone", &e))?;
                Rule::cron(cron, zone).with_gap(*gap).with_overlap(*overlap)
            }
            ScheduleKind::Every { interval, anchor } => {
                Rule::every(*interval, *anchor).map_err(|e| poison(&e))?
            }
            ScheduleKind::Delay { delay } => Rule::delay(*delay).map_err(|e| poison(&e))?,
            ScheduleKind::Once { at } => Rule::once(*at).map_err(|e| poison(&e))?,
            ScheduleKind::Manual => Rule::manual(),
        };
        let rule = self.from.into_iter().fold(rule, Rule::from);
        Ok(self.until.into_iter().fold(rule, Rule::until))
    }

    /// The next fire time of a fixed delay whose run ended at `end`; none for any other kind.
    pub fn after_end(&self, end: Timestamp) -> Option<Timestamp> {
        let ScheduleKind::Delay { delay } = self.kind else { return None };
        let rule = self.from.into_iter().fold(Rule::delay(delay).ok()?, Rule::from);
        self.until.into_iter().fold(rule, Rule::until).next_after(end)
    }

    /// Whether it counts from the end of the last run.
    pub fn is_delay(&self) -> bool {
        matches!(self.kind, ScheduleKind::Delay { .. })
    }
}
