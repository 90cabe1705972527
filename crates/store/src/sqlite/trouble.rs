//! What can go wrong on the way: a refusal, which wrote nothing, or SQLite itself, after which the round is undone.

use punctual_node::ports::StoreError;
use rusqlite::ErrorCode;

/// Why a verb has no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The verb said no. It may say so only before its first write, because nothing is rolled back for it.
    Refused(StoreError),
    /// SQLite said no. Whatever the round wrote is rolled back.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Sql(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Refused(error)
    }
}

/// Whether a verb that met this error must not be tried again as long as there is no room.
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// An error of SQLite as the steps understand it.
pub(super) fn told(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.to_string().into()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { what: "the database file".into(), reason: error.to_string().into() }
        }
        _ => StoreError::Unknown(error.to_string().into()),
    }
}

/// Leaves out what cannot be read, and passes on every other trouble.
pub(super) fn readable<T>(read: Result<T, Trouble>) -> Result<Option<T>, Trouble> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Trouble::Refused(StoreError::Corrupt { .. })) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// A row that holds what cannot be.
pub(super) fn corrupt(table: &str, id: i64, reason: impl ToString) -> StoreError {
    StoreError::Corrupt { what: format!("{table} row {id}").into(), reason: reason.to_string().into() }
}
