//! What is known of one executor: whether it is alive, by its beats, and whether it can be reached, by probes.

use std::sync::Arc;

use calendar::Timestamp;

use super::ChangeKind;
use crate::model::names::names;

/// This number of failed probes in a row makes an executor suspect.
const FAILED_MAX: u32 = 2;

/// The protocol that an executor speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// XXL-JOB 2.2 to 3.4.
    #[default]
    Classic,
    /// XXL-JOB from 3.5 on, which takes runs at `/trigger`.
    Trigger,
    /// Orth.
    Orth,
    /// Punctual's own protocol.
    Native,
}

names!(Dialect, "dialect", Classic = "classic", Trigger = "trigger", Orth = "orth", Native = "native");

/// Whether an executor can be reached, by the probes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// No probe has failed twice in a row.
    Good,
    /// It could not be reached twice in a row.
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

/// An executor that runs can be sent to.
#[derive(Clone, Debug)]
pub struct RegisteredExecutor {
    /// Its address, exactly as it registered it or as people typed it. This is its identity.
    pub address: Arc<str>,
    /// Its dialect.
    pub dialect: Dialect,
    /// When its last beat was received; none while it is only listed by people.
    pub last_beat: Option<Timestamp>,
    /// Since when it has been known without interruption.
    pub since: Timestamp,
    /// Whether a beat is missing by now.
    pub is_late: bool,
    /// Whether people listed it, under an app with manual addresses.
    pub is_listed: bool,
    /// The dialect of its last beat, which may say less than what a node found out since.
    said: Dialect,
    /// Failed probes in a row.
    failed_probes: u32,
}

impl RegisteredExecutor {
    /// An executor without beats or probes.
    pub(super) fn new(address: &str, since: Timestamp) -> RegisteredExecutor {
        RegisteredExecutor {
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

    /// Whether it can be reached, by the probes so far.
    pub fn health(&self) -> Health {
        if self.failed_probes < FAILED_MAX { Health::Good } else { Health::Suspect }
    }

    /// Whether it has registered and has neither left nor died.
    pub fn is_beating(&self) -> bool {
        self.last_beat.is_some()
    }

    /// Notes a beat; one that is older than the last changes nothing.
    pub(super) fn hear(&mut self, dialect: Dialect, at: Timestamp) -> Option<ChangeKind> {
        let Some(last) = self.last_beat else {
            // A new process: nothing is kept of the old one but whether people listed it.
            let is_listed = self.is_listed;
            *self = RegisteredExecutor {
                is_listed,
                dialect,
                said: dialect,
                ..RegisteredExecutor::new(&self.address, at)
            };
            self.last_beat = Some(at);
            return Some(ChangeKind::Joined);
        };
        if at >= last {
            if dialect != self.said {
                (self.dialect, self.said) = (dialect, dialect);
            }
            // The same instant is the same beat, read from the store.
            self.is_late &= at == last;
            self.last_beat = Some(at);
        }
        None
    }

    pub(super) fn probed(&mut self, ok: bool, at: Timestamp) -> Option<ChangeKind> {
        // A probe that began before the executor joined was of the process before.
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
