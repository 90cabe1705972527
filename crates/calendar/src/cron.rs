//! Cron expressions: what a text names, as sets of wall times.
//!
//! `parse` and `cursor` read the text, `days` and `search` answer which days and wall seconds match, `spread` resolves
//! `H`, `describe` says it in English. Nothing here knows zones: `place` puts wall times on the time line.

mod cursor;
mod days;
mod describe;
mod error;
mod fields;
mod parse;
mod search;
mod spread;

pub use error::CronError;

use crate::option::names;
use days::DayFields;

/// How an expression is to be read. Six fields mean different things to different people, and 1 is Monday
/// to one half of them and Sunday to the other, so the dialect is never guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// As crontab users write it: 5 fields, 6 with seconds first, 7 with the year last; 0 and 7 are Sunday.
    Unix,
    /// As Quartz and XXL-JOB users write it: 6 fields, 7 with the year last; 1 is Sunday.
    Quartz,
}

names!(Dialect, "dialect", Dialect::Unix = "unix", Dialect::Quartz = "quartz");

impl Dialect {
    pub(crate) fn other(self) -> Dialect {
        match self {
            Dialect::Unix => Dialect::Quartz,
            Dialect::Quartz => Dialect::Unix,
        }
    }
}

/// Whether a rule means times of day or a rhythm. The two want different things of a clock change: the
/// nightly batch must run once, the quarter-hourly poll must keep its pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronKind {
    /// Second, minute and hour are values, lists or ranges.
    Fixed,
    /// The second, minute or hour field, as written, has a `*` or a `/`.
    Interval,
}

names!(CronKind, "kind", CronKind::Fixed = "fixed", CronKind::Interval = "interval");

/// A parsed expression: sets of seconds, minutes, hours, days, months and years.
#[derive(Clone, Debug)]
pub struct Cron {
    text: Box<str>,
    /// What decided where `H` fell, if there is one.
    seed: Option<Box<str>>,
    dialect: Dialect,
    kind: CronKind,
    /// Bit n stands for the value n.
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: DayFields,
    years: Years,
    quirks: Quirks,
}

impl Cron {
    /// Reads an expression. `seed` decides where `H` falls: the same seed, the same place, for ever.
    pub fn parse(text: &str, dialect: Dialect, seed: &str) -> Result<Cron, CronError> {
        parse::expression(text, dialect, seed)
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The dialect it was read in.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether it means times of day or a rhythm.
    pub fn kind(&self) -> CronKind {
        self.kind
    }

    /// Whether it has an `H`, so that the seed matters.
    pub fn is_spread(&self) -> bool {
        self.seed.is_some()
    }

    /// The same text in the other dialect, if it is an expression there.
    pub(crate) fn in_other_dialect(&self) -> Option<Cron> {
        Cron::parse(&self.text, self.dialect.other(), self.seed.as_deref().unwrap_or_default()).ok()
    }

    /// The expression in plain English, without its zone.
    pub fn describe(&self) -> String {
        describe::describe(self)
    }

    pub(crate) fn quirks(&self) -> Quirks {
        self.quirks
    }

    pub(crate) fn is_every_hour(&self) -> bool {
        self.hours == fields::HOUR.all()
    }

    pub(crate) fn names_the_same_as(&self, other: &Cron) -> bool {
        let sets = |cron: &Cron| (cron.seconds, cron.minutes, cron.hours, cron.months, cron.years, cron.kind);
        sets(self) == sets(other) && self.days == other.days
    }
}

/// Years 1970 to 2199 as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Years([u64; 4]);

/// What in the text other implementations read otherwise; for warnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// `5/10` in unix: refused by some, "from 5 on" to others.
    pub(crate) open_step: bool,
    /// `FRI-SUN` in unix: a range that ends in Sunday by name.
    pub(crate) ends_in_sunday: bool,
    /// `*/2` in one day field with the other restricted: both must match here, either elsewhere.
    pub(crate) stepped_day: bool,
    /// `31W`: not at all in a shorter month here, its last weekday elsewhere.
    pub(crate) nearest_beyond_28: bool,
}
