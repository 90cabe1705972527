//! How far a verb has come on its connection: whether anything that it sent may have been committed. If the connection breaks
//! before, the server rolls back, and the verb certainly did nothing.

/// What was sent since the verb began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    is_in_transaction: bool,
    may_be_done: bool,
}

impl Progress {
    /// Takes note of a statement that is about to be sent.
    pub(crate) fn note(&mut self, statement: &str) {
        let statement = statement.trim_start();
        let begins =
            |word: &str| statement.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        if begins("begin") || begins("start transaction") {
            self.is_in_transaction = true;
        } else if begins("rollback") {
            self.is_in_transaction = false;
        } else if begins("commit") {
            self.is_in_transaction = false;
            self.may_be_done = true;
        } else {
            // Outside of a transaction every statement commits itself, and MySQL commits with each change of a table.
            let only_reads = begins("select") || begins("set ") || begins("explain");
            let changes_tables =
                ["create", "alter", "drop", "rename", "truncate", "lock"].into_iter().any(begins);
            self.may_be_done |= changes_tables || !(self.is_in_transaction || only_reads);
        }
    }

    /// Whether something may have been committed.
    pub(crate) fn may_be_done(self) -> bool {
        self.may_be_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(statements: &[&str]) -> bool {
        let mut progress = Progress::default();
        statements.iter().for_each(|statement| progress.note(statement));
        progress.may_be_done()
    }

    #[test]
    fn before_the_commit_is_sent_nothing_is_done() {
        for transaction in ["begin isolation level read committed", "start transaction"] {
            assert!(!after(&[transaction, "update runs set id = 1", "select 1"]));
            assert!(after(&[transaction, "update runs set id = 1", "commit"]));
            assert!(!after(&[transaction, "update runs set id = 1", "rollback", "select 1"]));
            assert!(after(&[transaction, "rollback", "update runs set id = 1"]));
        }
    }

    #[test]
    fn outside_of_a_transaction_only_reading_does_nothing() {
        assert!(!after(&["set names utf8mb4", "\n  select id from runs"]));
        for statement in ["insert into runs values (1)", "with gone as (delete from runs) select 1", "do 1"] {
            assert!(after(&[statement]), "{statement}");
        }
    }

    #[test]
    fn a_change_of_tables_commits_whatever_was_begun() {
        assert!(after(&["start transaction", "create table days (day int)"]));
    }
}
