//! What can go wrong on the way: a refusal, which wrote nothing; the server, which may be away; or another transaction that was
//! faster, after which the verb is tried again.

use std::collections::BTreeSet;

use punctual_node::ports::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

pub(super) use crate::rows::corrupt;

/// Why a verb has no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The verb said no. Whatever it wrote is rolled back.
    Refused(StoreError),
    /// The server said no, or says nothing any more.
    Sql(Box<Error>),
    /// The server did not answer in time.
    Late,
    /// What was read before is not so any more.
    Moved,
    /// These days lack tables, which have to be made first.
    Lacks(BTreeSet<u32>),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Sql(Box::new(error))
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Refused(error)
    }
}

impl Trouble {
    /// Whether nothing was written and the same question may have another answer now: another transaction has written what
    /// this verb was about to write, or two waited for each other.
    pub(super) fn is_worth_another_try(&self) -> bool {
        match self {
            Trouble::Moved | Trouble::Lacks(_) => true,
            Trouble::Refused(_) | Trouble::Late => false,
            Trouble::Sql(error) => error.code().is_some_and(|code| {
                [
                    &SqlState::UNIQUE_VIOLATION,
                    &SqlState::T_R_DEADLOCK_DETECTED,
                    &SqlState::T_R_SERIALIZATION_FAILURE,
                    // The table of a day is not there any more.
                    &SqlState::CHECK_VIOLATION,
                    // What was prepared is no longer so.
                    &SqlState::INVALID_SQL_STATEMENT_NAME,
                    &SqlState::FEATURE_NOT_SUPPORTED,
                ]
                .contains(&code)
            }),
        }
    }

    /// Whether the server takes no writes, as after a switch-over. Then nothing was written, and other connections of the
    /// same age are on the same server.
    pub(super) fn is_read_only(&self) -> bool {
        match self {
            Trouble::Sql(error) => {
                error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) || is_refused_as_read_only(error)
            }
            _ => false,
        }
    }

    /// Whether the connection broke, or the server sends its clients away.
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Trouble::Sql(error) => error.as_db_error().is_none_or(|error| error.severity() != "ERROR"),
            Trouble::Late => true,
            Trouble::Moved | Trouble::Lacks(_) | Trouble::Refused(_) => false,
        }
    }

    /// Whether the session goes on after a rollback.
    pub(super) fn leaves_a_session(&self) -> bool {
        match self {
            Trouble::Moved | Trouble::Lacks(_) | Trouble::Refused(_) => true,
            Trouble::Late => false,
            Trouble::Sql(error) => {
                !error.is_closed()
                    && !self.is_read_only()
                    && error.as_db_error().is_some_and(|error| error.severity() == "ERROR")
            }
        }
    }

    /// Whether statements have to be prepared anew: the server has lost them, or what they answer has other columns since the
    /// schema was changed.
    pub(super) fn is_of_statements(&self) -> bool {
        self.has_code(&SqlState::INVALID_SQL_STATEMENT_NAME)
            || self.has_code(&SqlState::FEATURE_NOT_SUPPORTED)
    }

    /// Whether the server cannot be spoken to, so that another may be asked.
    pub(super) fn is_away(&self) -> bool {
        match self {
            Trouble::Late => true,
            Trouble::Moved | Trouble::Lacks(_) | Trouble::Refused(_) => false,
            Trouble::Sql(error) => match error.code() {
                None => true,
                // Connection trouble, an end by the server's operator, or no room for one more.
                Some(code) => ["08", "57", "53"].iter().any(|class| code.code().starts_with(class)),
            },
        }
    }

    pub(super) fn has_code(&self, wanted: &SqlState) -> bool {
        matches!(self, Trouble::Sql(error) if error.code() == Some(wanted))
    }

    /// As the steps understand it, where nothing was sent that may have been committed.
    pub(super) fn told_undone(self) -> StoreError {
        match self {
            trouble if trouble.is_read_only() || trouble.is_broken() => match trouble.told() {
                StoreError::Unknown(said) => StoreError::Away(said),
                error => error,
            },
            trouble => trouble.told(),
        }
    }

    /// As the steps understand it.
    pub(super) fn told(self) -> StoreError {
        match self {
            Trouble::Refused(error) => error,
            Trouble::Late => StoreError::Unknown("the database did not answer in time".into()),
            Trouble::Moved | Trouble::Lacks(_) => {
                StoreError::Unknown("too many wrote the same at once".into())
            }
            Trouble::Sql(error) => told(&error),
        }
    }
}

/// Whether a connection was closed again by us, because the server takes no writes.
pub(super) fn is_refused_as_read_only(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
}

fn told(error: &Error) -> StoreError {
    let said = said(error).into();
    match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => StoreError::Full(said),
        Some(code) if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => {
            StoreError::Corrupt { what: "the database".into(), reason: said }
        }
        _ => StoreError::Unknown(said),
    }
}

/// What the server said, with its code; never the address, which may carry a password.
pub(super) fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
