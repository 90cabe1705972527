//! What is known of one executor: that it lives, by its beats, and that it can be reached, by probes.

use std::sync::Arc;

use calendar::Timestamp;

use super::ChangeKind;
use crate::model::names::names;

/// So many failed probes in a row make an executor suspect.
const FAILED_MAX: u32 = 2;

/// How an executor speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// XXL-JOB 2.2 to 3.4.
    #[default]
    Classic,
    /// XXL-JOB from 3.5 on, where runs go to `/trigger`.
    Trigger,
    /// Orth.
    Orth,
    /// Ours.
    Native,
}

names!(Dialect, "dialect", Classic = "classic", Trigger = "trigger", Orth = "orth", Native = "native");

/// Whether an executor can be reached, as far as anybody tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing speaks against it.
    Good,
    /// It could not be reached, twice in a row.
    Suspect,
}

impl Health {
    /// Its name for people and programs outside.
    pub const fn name(self) -> &'static str {
        match self {
            Health::Good => "good",
            Health::Suspect => "suspect",
        }
    }
}

/// An executor: a place where runs can be sent to.
#[derive(Clone, Debug)]
pub struct Executor {
    /// Where it is, to the letter as it said or people typed: this is its identity.
    pub address: Arc<str>,
    /// How it speaks.
    pub dialect: Dialect,
    /// When it was last heard; nothing while it is only listed by people.
    pub last_beat: Option<Timestamp>,
    /// Since when it is known without a break.
    pub since: Timestamp,
    /// Whether a beat is missing since the last one.
    pub is_late: bool,
    /// Whether people listed it, under an app with manual addresses.
    pub is_listed: bool,
    /// What its last beat said, which may be less than we learned.
    said: Dialect,
    /// In a row.
    failed_probes: u32,
}

impl Executor {
    /// One that nobody has heard of.
    pub(super) fn new(address: &str, since: Timestamp) -> Executor {
        Executor {
            address: address.into(),
            dialect: Dialect::Classic,
            last_beat: None,
            since,
            is_late: false,
            is_listed: false,
            said: Dialect::Classic,
            failed_probes: 0,
        }
    }

    /// Whether it can be reached, as far as anybody tried.
    pub fn health(&self) -> Health {
        if self.failed_probes < FAILED_MAX { Health::Good } else { Health::Suspect }
    }

    /// Whether it registered and has neither left nor died.
    pub fn is_beating(&self) -> bool {
        self.last_beat.is_some()
    }

    /// A beat; one that is older than the last says nothing.
    pub(super) fn hear(&mut self, dialect: Dialect, at: Timestamp) -> Option<ChangeKind> {
        let Some(last) = self.last_beat else {
            // A new process. The only thing left of the old one is that people listed it.
            let is_listed = self.is_listed;
            *self = Executor { is_listed, dialect, said: dialect, ..Executor::new(&self.address, at) };
            self.last_beat = Some(at);
            return Some(ChangeKind::Joined);
        };
        if at >= last {
            if dialect != self.said {
                (self.dialect, self.said) = (dialect, dialect);
            }
            // The same instant is the same beat, told again by the store.
            self.is_late &= at == last;
            self.last_beat = Some(at);
        }
        None
    }

    pub(super) fn probed(&mut self, ok: bool, at: Timestamp) -> Option<ChangeKind> {
        // One that began before it joined speaks of the process before.
        if at < self.since {
            return None;
        }
        let before = self.health();
        self.failed_probes = if ok { 0 } else { self.failed_probes.saturating_add(1) };
        match (before, self.health()) {
            (Health::Good, Health::Suspect) => Some(ChangeKind::Suspected),
            (Health::Suspect, Health::Good) => Some(ChangeKind::Recovered),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_read_by_the_names_they_print() {
        for (place, dialect) in Dialect::ALL.iter().enumerate() {
            assert_eq!((*dialect as usize, dialect.to_string().parse()), (place, Ok(*dialect)));
        }
        assert_eq!([Dialect::Trigger.name(), Dialect::Native.name()], ["trigger", "native"]);
        assert!("xxl".parse::<Dialect>().is_err());
    }
}
