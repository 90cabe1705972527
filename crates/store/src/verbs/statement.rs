//! Statements with their values, before any dialect.
//!
//! A text is in the SQL that all databases have in common, with values as `?1` and so on, and with three words of ours:
//! `same(app, address, ?1, ?2)` compares columns with texts of any length, `{beside}` is a table beside a run, and `{counts}`
//! the table of what became of the runs of jobs. What writes one row by its key is built of columns, because that is where the
//! dialects differ most.

use calendar::Timestamp;

/// A value of a statement. Each says what it would be even where it is null, since PostgreSQL wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(Option<i64>),
    /// A number without a sign, which a database without such numbers keeps bit by bit.
    Bits(u64),
    Flag(Option<bool>),
    Text(Option<String>),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Number(None) | Value::Flag(None) | Value::Text(None))
    }
}

macro_rules! values {
    ($($rust:ty => |$value:ident| $made:expr),+ $(,)?) => {
        $(impl From<$rust> for Value {
            fn from($value: $rust) -> Value {
                $made
            }
        })+
    };
}

values!(
    i64 => |number| Value::Number(Some(number)),
    Option<i64> => |number| Value::Number(number),
    u32 => |number| Value::Number(Some(i64::from(number))),
    u64 => |bits| Value::Bits(bits),
    bool => |flag| Value::Flag(Some(flag)),
    Option<bool> => |flag| Value::Flag(flag),
    &str => |text| Value::Text(Some(text.to_owned())),
    Option<&str> => |text| Value::Text(text.map(str::to_owned)),
    String => |text| Value::Text(Some(text)),
    Option<String> => |text| Value::Text(text),
    &[u8] => |bytes| Value::Bytes(bytes.to_vec()),
    Timestamp => |at| Value::Number(Some(at.as_millis())),
    Option<Timestamp> => |at| Value::Number(at.map(Timestamp::as_millis)),
);

/// What a column is to a statement that writes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The row is found by it.
    Key,
    /// It is written.
    Set,
    /// It is written where the row is new.
    Once,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text(&'static str),
    /// Writes a new row; it is an error if one has the key.
    Insert(&'static str),
    /// Writes a new row, or nothing if one has the key.
    Keep(&'static str),
    /// Writes a new row, or over the one that has the key.
    Replace(&'static str),
    Update(&'static str),
    Delete(&'static str),
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) form: Form,
    /// Of the row that is written, each with the value of its place.
    pub(crate) columns: Vec<(&'static str, Role)>,
    pub(crate) values: Vec<Value>,
    /// What `{beside}` stands for.
    pub(crate) beside: String,
    /// A new row is written only where this holds.
    pub(crate) guard: &'static str,
}

/// A statement by its text.
pub(crate) fn sql(text: &'static str) -> Statement {
    Statement::new(Form::Text(text))
}

pub(crate) fn insert(table: &'static str) -> Statement {
    Statement::new(Form::Insert(table))
}

pub(crate) fn keep(table: &'static str) -> Statement {
    Statement::new(Form::Keep(table))
}

pub(crate) fn replace(table: &'static str) -> Statement {
    Statement::new(Form::Replace(table))
}

pub(crate) fn update(table: &'static str) -> Statement {
    Statement::new(Form::Update(table))
}

pub(crate) fn delete(table: &'static str) -> Statement {
    Statement::new(Form::Delete(table))
}

impl Statement {
    fn new(form: Form) -> Statement {
        Statement { form, columns: Vec::new(), values: Vec::new(), beside: String::new(), guard: "" }
    }

    /// The next value of a text.
    pub(crate) fn with(mut self, value: impl Into<Value>) -> Statement {
        self.values.push(value.into());
        self
    }

    /// A column that the row is found by. Keys come first.
    pub(crate) fn key(self, column: &'static str, value: impl Into<Value>) -> Statement {
        self.column(column, Role::Key, value)
    }

    pub(crate) fn set(self, column: &'static str, value: impl Into<Value>) -> Statement {
        self.column(column, Role::Set, value)
    }

    /// A column that a row which is there keeps as it is.
    pub(crate) fn once(self, column: &'static str, value: impl Into<Value>) -> Statement {
        self.column(column, Role::Once, value)
    }

    fn column(mut self, column: &'static str, role: Role, value: impl Into<Value>) -> Statement {
        self.columns.push((column, role));
        self.with(value)
    }
}
