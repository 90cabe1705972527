//! SQL as text: literals, lists, and scripts of several statements that go to the server together.
//!
//! Literals and not parameters: a batch is a few statements whose length is that of the batch, so nothing could be prepared,
//! and a script of statements costs one round trip. The session's `sql_mode` and character set are ours (`link.rs`), so
//! what has to be escaped is known.

use std::fmt::{Display, Formatter, Result, Write};

use calendar::Timestamp;
use punctual_core::model::NodeId;

/// How many bytes go into one packet. Servers take 16 MiB at least, or are refused.
pub(super) const PACKET_BYTES: usize = 12 << 20;

/// How long one statement of many rows becomes at most, if no single row is longer.
const STATEMENT_BYTES: usize = 2 << 20;

/// A text as a literal.
pub(super) struct Quoted<'t>(pub(super) &'t str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('\'')?;
        let mut rest = self.0;
        while let Some(at) = rest.find(['\'', '\\', '\0']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'\'' => "''",
                b'\\' => "\\\\",
                _ => "\\0",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)?;
        f.write_char('\'')
    }
}

/// Bytes as a literal.
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl Display for Bytes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("x'")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_char('\'')
    }
}

/// The SHA-256 sum of a text, worked out by the server.
pub(super) struct Sum<'t>(pub(super) &'t str);

impl Display for Sum<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "unhex(sha2({}, 256))", Quoted(self.0))
    }
}

/// The sum of two texts of which neither may run into the other.
pub(super) struct PairSum<'t>(pub(super) &'t str, pub(super) &'t str);

impl Display for PairSum<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (first, second) = (Quoted(self.0), Quoted(self.1));
        write!(f, "unhex(sha2(concat(sha2({first}, 256), sha2({second}, 256)), 256))")
    }
}

/// A value or `null`.
pub(super) struct Maybe<T>(pub(super) Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// An instant as a literal.
pub(super) fn ms(at: Timestamp) -> i64 {
    at.as_millis()
}

/// An instant or `null`.
pub(super) fn maybe_ms(at: Option<Timestamp>) -> Maybe<i64> {
    Maybe(at.map(ms))
}

/// A node as a literal.
pub(super) fn node(node: NodeId) -> String {
    format!("x'{:032x}'", node.0)
}

/// Values between commas. An empty list would be a mistake in SQL, so it says what is equal to nothing.
pub(super) fn list(values: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for value in values {
        if !text.is_empty() {
            text.push(',');
        }
        write!(text, "{value}").expect("a text takes everything");
    }
    if text.is_empty() { "null".into() } else { text }
}

/// Statements that go to the server together, in their order.
#[derive(Default)]
pub(super) struct Script {
    statements: Vec<String>,
}

impl Script {
    pub(super) fn new() -> Script {
        Script::default()
    }

    /// A script that begins a transaction.
    pub(super) fn transaction() -> Script {
        Script::of("start transaction")
    }

    /// A script that begins a transaction which only reads, all of it as of one moment.
    pub(super) fn snapshot() -> Script {
        let mut script = Script::of("set transaction isolation level repeatable read");
        script.push("start transaction with consistent snapshot, read only");
        script
    }

    pub(super) fn of(statement: impl Into<String>) -> Script {
        Script { statements: vec![statement.into()] }
    }

    /// Adds a statement, and says its place.
    pub(super) fn push(&mut self, statement: impl Into<String>) -> usize {
        self.statements.push(statement.into());
        self.statements.len() - 1
    }

    /// Adds what writes so many rows: `head` and `tail` stand around the values of each statement.
    pub(super) fn push_rows(&mut self, head: &str, rows: impl IntoIterator<Item = String>, tail: &str) {
        let mut statement = String::new();
        for row in rows {
            if statement.len() > STATEMENT_BYTES {
                self.statements.push(std::mem::take(&mut statement) + tail);
            }
            statement.push_str(if statement.is_empty() { head } else { "," });
            statement.push_str(&row);
        }
        if !statement.is_empty() {
            self.statements.push(statement + tail);
        }
    }

    pub(super) fn statements(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().map(String::as_str)
    }

    /// The statements in as few packets as they fit into, each with how many it holds.
    pub(super) fn packets(self) -> Vec<(String, usize)> {
        let mut packets: Vec<(String, usize)> = Vec::new();
        for statement in self.statements {
            match packets.last_mut() {
                Some((packet, count)) if packet.len() + statement.len() < PACKET_BYTES => {
                    packet.push_str(";\n");
                    packet.push_str(&statement);
                    *count += 1;
                }
                _ => packets.push((statement, 1)),
            }
        }
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_literal_is_escaped() {
        assert_eq!(Quoted("it's \\ \0 \"so\"").to_string(), "'it''s \\\\ \\0 \"so\"'");
        assert_eq!(Quoted("").to_string(), "''");
        assert_eq!(Bytes(&[0, 255]).to_string(), "x'00ff'");
    }

    #[test]
    fn a_list_is_never_empty() {
        assert_eq!(list([1, 2]), "1,2");
        assert_eq!(list([0; 0]), "null");
    }

    #[test]
    fn many_rows_are_split_by_their_bytes() {
        let mut script = Script::new();
        let row = || format!("({})", "x".repeat(STATEMENT_BYTES / 2));
        script.push_rows("insert into t values ", [row(), row(), row(), row()], " -- end");
        assert_eq!(script.statements.len(), 2);
        assert!(script.statements.iter().all(|one| one.starts_with("insert") && one.ends_with("-- end")));
        let mut script = Script::new();
        script.push_rows("insert into t values ", [], "");
        assert!(script.packets().is_empty());
    }
}
