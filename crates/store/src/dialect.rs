//! How the three databases put what they have in common: locks, values, texts as keys, and what writes one row by its key.
//!
//! Texts may be of any length, and only SQLite indexes those. PostgreSQL indexes their `md5`; MySQL keeps their SHA-256 sums in
//! columns of their own, named like the text and `_key`.

use std::fmt::Write as _;

use crate::verbs::statement::{Form, Role, Statement, Value};

/// A dialect of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlDialect {
    Sqlite,
    Postgres,
    MySql,
}

/// Texts of which MySQL keeps one sum together, and the column that it is kept in. Those of requests it keeps nowhere else.
const SUMMED_TOGETHER: [([&str; 2], &str); 2] = [(REQUEST, REQUEST_KEY), (["app", "name"], "name_key")];
const REQUEST: [&str; 2] = ["by", "key"];
const REQUEST_KEY: &str = "request_key";

/// Columns that are tables of their own in MySQL: the table, the column, the table there, and its column.
const ASIDE: [[&str; 4]; 2] =
    [["apps", "retention", "retentions", "kept"], ["apps", "paused", "pauses", "paused"]];

impl SqlDialect {
    /// The texts of a statement. The first is the statement itself, the others write what is kept aside of its row.
    pub(crate) fn texts(self, statement: &Statement) -> Vec<String> {
        let mut texts = match &statement.form {
            Form::Text(text) => vec![(*text).to_owned()],
            Form::Insert(table) => vec![self.insert(table, "", statement)],
            Form::Keep(table) => vec![self.insert(table, &self.or_nothing(statement), statement)],
            Form::Replace(table) => vec![self.insert(table, &self.or_over(statement), statement)],
            Form::Update(table) => vec![self.update(table, statement)],
            Form::Delete(table) => vec![format!("delete from {table} where {}", found_by_key(statement))],
        };
        if self == SqlDialect::MySql {
            texts.extend(aside(statement));
        }
        texts.iter().map(|text| self.translate(&text.replace("{beside}", &statement.beside))).collect()
    }

    /// A text of ours as the database understands it.
    fn translate(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 64);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("same(") {
            let (inside, after) = after.split_once(')').expect("every `same` is closed");
            out += before;
            out += &self.same(&inside.split(", ").collect::<Vec<&str>>());
            rest = after;
        }
        out += rest;
        if self != SqlDialect::Sqlite {
            out = out.replace("{counts}", "counts");
        }
        match self {
            SqlDialect::Sqlite => out.replace(" for update", "").replace("{counts}", "tallies"),
            SqlDialect::Postgres => {
                // How many rows were written is known by how many come back.
                if ["insert", "update", "delete"].iter().any(|word| out.starts_with(word)) {
                    out += " returning 1";
                }
                out.replace('?', "$")
            }
            SqlDialect::MySql => ASIDE.iter().fold(out, |out, [table, column, there, kept]| {
                let column = format!("{table}.{column}");
                out.replace(&column, &format!("(select {kept} from {there} where app_key = name_key)"))
            }),
        }
    }

    /// That columns hold these texts: first the columns, then as many values.
    fn same(self, parts: &[&str]) -> String {
        let (columns, values) = parts.split_at(parts.len() / 2);
        let together =
            SUMMED_TOGETHER.iter().find(|(texts, _)| self == SqlDialect::MySql && columns == texts);
        if let Some((_, column)) = together {
            return format!("{column} = {}", sum_of_two(values[0], values[1]));
        }
        let each = columns.iter().zip(values).map(|(column, value)| match self {
            SqlDialect::Sqlite => format!("{column} = {value}"),
            SqlDialect::Postgres => format!("md5({column}) = md5({value}) and {column} = {value}"),
            SqlDialect::MySql => format!("{column}_key = {}", sum(value)),
        });
        each.collect::<Vec<String>>().join(" and ")
    }

    fn insert(self, table: &str, otherwise: &str, statement: &Statement) -> String {
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for (place, (column, role)) in statement.columns.iter().enumerate() {
            let value = format!("?{}", place + 1);
            let is_text = matches!(statement.values[place], Value::Text(_));
            if self == SqlDialect::MySql && is_aside(table, column) {
                continue;
            }
            if self == SqlDialect::MySql && *role == Role::Key && is_text {
                let [first, second] = REQUEST;
                match *column {
                    column if column == first => continue,
                    column if column == second => {
                        columns.push(REQUEST_KEY.to_owned());
                        values.push(sum_of_two("?1", "?2"));
                        continue;
                    }
                    column => {
                        columns.push(format!("{column}_key"));
                        values.push(sum(&value));
                    }
                }
            }
            columns.push((*column).to_owned());
            values.push(value);
        }
        let (columns, values) = (columns.join(", "), values.join(", "));
        match statement.guard {
            "" => format!("insert into {table} ({columns}) values ({values}){otherwise}"),
            guard => format!("insert into {table} ({columns}) select {values} where {guard}{otherwise}"),
        }
    }

    /// What a new row does where one is there.
    fn or_nothing(self, statement: &Statement) -> String {
        match self {
            SqlDialect::MySql => {
                let kept = set_columns(statement).next().expect("a row is more than its key");
                format!(" on duplicate key update {kept} = {kept}")
            }
            _ => format!(" on conflict ({}) do nothing", self.unique(statement)),
        }
    }

    /// How a new row is written over one that is there.
    fn or_over(self, statement: &Statement) -> String {
        let set = |put: fn(&str) -> String| set_columns(statement).map(put).collect::<Vec<_>>().join(", ");
        match self {
            SqlDialect::MySql => {
                format!(" on duplicate key update {}", set(|column| format!("{column} = values({column})")))
            }
            _ => format!(
                " on conflict ({}) do update set {}",
                self.unique(statement),
                set(|column| format!("{column} = excluded.{column}"))
            ),
        }
    }

    /// What is unique about a row.
    fn unique(self, statement: &Statement) -> String {
        let of = |(column, value): (&str, &Value)| match (self, value) {
            (SqlDialect::Postgres, Value::Text(_)) => format!("md5({column})"),
            _ => column.to_owned(),
        };
        keys(statement).map(of).collect::<Vec<String>>().join(", ")
    }

    fn update(self, table: &str, statement: &Statement) -> String {
        let mut set = String::new();
        for (place, (column, role)) in statement.columns.iter().enumerate() {
            if *role == Role::Set && !(self == SqlDialect::MySql && is_aside(table, column)) {
                let comma = if set.is_empty() { "" } else { ", " };
                write!(set, "{comma}{column} = ?{}", place + 1).expect("a text takes everything");
            }
        }
        format!("update {table} set {set} where {}", found_by_key(statement))
    }
}

fn set_columns(statement: &Statement) -> impl Iterator<Item = &str> {
    statement.columns.iter().filter(|(_, role)| *role == Role::Set).map(|(column, _)| *column)
}

fn keys(statement: &Statement) -> impl Iterator<Item = (&str, &Value)> {
    let columns = statement.columns.iter().zip(&statement.values);
    columns.filter(|((_, role), _)| *role == Role::Key).map(|((column, _), value)| (*column, value))
}

/// That a row has the key of a statement, whose columns come first.
fn found_by_key(statement: &Statement) -> String {
    let of = |(place, (column, value)): (usize, (&str, &Value))| match value {
        Value::Text(_) => format!("same({column}, ?{})", place + 1),
        _ => format!("{column} = ?{}", place + 1),
    };
    keys(statement).enumerate().map(of).collect::<Vec<String>>().join(" and ")
}

fn is_aside(table: &str, column: &str) -> bool {
    ASIDE.iter().any(|[one, other, ..]| *one == table && *other == column)
}

/// What MySQL writes of a row in other tables.
fn aside(statement: &Statement) -> Vec<String> {
    let (Form::Insert(table) | Form::Update(table) | Form::Delete(table)) = &statement.form else {
        return Vec::new();
    };
    let key = sum("?1");
    let mut texts = Vec::new();
    for [_, column, there, kept] in ASIDE.iter().filter(|[of, ..]| of == table) {
        let place = statement.columns.iter().position(|(one, _)| one == column);
        let gone = format!("delete from {there} where app_key = {key}");
        match (place, &statement.form) {
            (None, Form::Delete(_)) => texts.push(gone),
            (None, _) => {}
            (Some(place), _) if statement.values[place].is_null() => texts.push(gone),
            (Some(place), _) => texts.push(format!(
                "insert into {there} (app_key, {kept}) values ({key}, ?{})
                 on duplicate key update {kept} = values({kept})",
                place + 1
            )),
        }
    }
    texts
}

/// The SHA-256 sum of a text, worked out by the server.
fn sum(text: &str) -> String {
    format!("unhex(sha2({text}, 256))")
}

/// The sum of two texts of which neither may run into the other.
fn sum_of_two(first: &str, second: &str) -> String {
    format!("unhex(sha2(concat(sha2({first}, 256), sha2({second}, 256)), 256))")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::statement::{delete, keep, replace, sql, update};

    fn check(statement: &Statement, [sqlite, postgres, mysql]: [&str; 3]) {
        for (dialect, text) in
            [(SqlDialect::Sqlite, sqlite), (SqlDialect::Postgres, postgres), (SqlDialect::MySql, mysql)]
        {
            assert_eq!(dialect.texts(statement)[0], text);
        }
    }

    #[test]
    fn a_text_is_found_by_what_the_database_indexes() {
        check(
            &sql("select version from apps where same(name, ?1) for update").with("a"),
            [
                "select version from apps where name = ?1",
                "select version from apps where md5(name) = md5($1) and name = $1 for update",
                "select version from apps where name_key = unhex(sha2(?1, 256)) for update",
            ],
        );
        check(
            &sql("delete from requests where same(by, key, ?1, ?2)").with("a").with("b"),
            [
                "delete from requests where by = ?1 and key = ?2",
                "delete from requests where md5(by) = md5($1) and by = $1 and md5(key) = md5($2) and key = $2 \
                 returning 1",
                "delete from requests where request_key = \
                 unhex(sha2(concat(sha2(?1, 256), sha2(?2, 256)), 256))",
            ],
        );
    }

    #[test]
    fn a_row_is_written_by_its_key() {
        check(
            &replace("executors").key("app", "a").set("beat_at", 1_i64).once("joined_at", 1_i64),
            [
                "insert into executors (app, beat_at, joined_at) values (?1, ?2, ?3) \
                 on conflict (app) do update set beat_at = excluded.beat_at",
                "insert into executors (app, beat_at, joined_at) values ($1, $2, $3) \
                 on conflict (md5(app)) do update set beat_at = excluded.beat_at returning 1",
                "insert into executors (app_key, app, beat_at, joined_at) \
                 values (unhex(sha2(?1, 256)), ?1, ?2, ?3) on duplicate key update beat_at = values(beat_at)",
            ],
        );
        check(
            &keep("requests").key("by", "a").key("key", "b").set("begun_at", 1_i64),
            [
                "insert into requests (by, key, begun_at) values (?1, ?2, ?3) on conflict (by, key) do nothing",
                "insert into requests (by, key, begun_at) values ($1, $2, $3) \
                 on conflict (md5(by), md5(key)) do nothing returning 1",
                "insert into requests (request_key, begun_at) \
                 values (unhex(sha2(concat(sha2(?1, 256), sha2(?2, 256)), 256)), ?3) \
                 on duplicate key update begun_at = begun_at",
            ],
        );
        check(
            &keep("peer_secret").key("id", 1_i64).set("secret", &[0_u8][..]),
            [
                "insert into peer_secret (id, secret) values (?1, ?2) on conflict (id) do nothing",
                "insert into peer_secret (id, secret) values ($1, $2) on conflict (id) do nothing returning 1",
                "insert into peer_secret (id, secret) values (?1, ?2) on duplicate key update secret = secret",
            ],
        );
    }

    #[test]
    fn what_mysql_keeps_aside_is_written_beside_the_row() {
        let paused = update("apps").key("name", "a").set("version", 2_i64).set("paused", Some("now"));
        assert_eq!(
            SqlDialect::Postgres.texts(&paused),
            ["update apps set version = $2, paused = $3 where md5(name) = md5($1) and name = $1 returning 1"]
        );
        let texts = SqlDialect::MySql.texts(&paused);
        assert_eq!(texts[0], "update apps set version = ?2 where name_key = unhex(sha2(?1, 256))");
        assert!(texts[1].starts_with("insert into pauses (app_key, paused) values"), "{texts:?}");
        let texts = SqlDialect::MySql.texts(&delete("apps").key("name", "a"));
        assert_eq!(texts.len(), 3, "{texts:?}");
        let texts = SqlDialect::MySql.texts(&sql("select apps.paused is null from apps"));
        assert_eq!(texts, ["select (select paused from pauses where app_key = name_key) is null from apps"]);
    }
}
