//! Why an expression is refused: where, which field, what was expected.

use std::fmt;

/// A refused expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    column: usize,
    length: usize,
    field: Option<&'static str>,
    reason: String,
}

impl CronError {
    /// `start` and `length` are bytes of `text`; people count characters from 1.
    pub(super) fn new(
        text: &str,
        start: usize,
        length: usize,
        field: Option<&'static str>,
        reason: impl Into<String>,
    ) -> CronError {
        let characters = |from: usize, to: usize| text.get(from..to).map_or(to - from, |s| s.chars().count());
        let end = (start + length).min(text.len());
        CronError {
            column: characters(0, start) + 1,
            length: characters(start, end).max(1),
            field,
            reason: reason.into(),
        }
    }

    /// Where the trouble starts: characters from the start of the text, the first is 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// How many characters are in trouble; at least 1.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The field in trouble, such as `minute`, where it is one field.
    pub fn field(&self) -> Option<&'static str> {
        self.field
    }

    /// What is wrong and what was expected.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}, ", self.column)?;
        if let Some(field) = self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for CronError {}
