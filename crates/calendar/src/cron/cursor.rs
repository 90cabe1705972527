//! Reads one item of a field, letter by letter, and refuses with the place and what was expected.

use super::CronError;
use super::fields::Field;

/// What an error may repeat of the text.
const LONGEST_QUOTED: usize = 24;

/// A value as written.
pub(super) struct Value {
    pub(super) number: u32,
    pub(super) is_name: bool,
}

/// A place inside an item.
pub(super) struct Cursor<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    at: usize,
    pub(super) field: &'static Field,
}

impl<'a> Cursor<'a> {
    /// At the beginning of the item `start..end` of the text.
    pub(super) fn new(text: &'a str, start: usize, end: usize, field: &'static Field) -> Cursor<'a> {
        Cursor { text, start, end, at: start, field }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..self.end]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn bump(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    pub(super) fn expect(&mut self, wanted: char) -> Result<(), CronError> {
        if self.peek() != Some(wanted) {
            return Err(self.refuse_rest(&format!("expected `{wanted}`")));
        }
        self.bump();
        Ok(())
    }

    pub(super) fn expect_end(&self) -> Result<(), CronError> {
        let expected = match self.peek() {
            None => return Ok(()),
            Some('W' | 'w') => "`W` belongs behind a number in the day of month, such as 15W",
            Some('L' | 'l') => "`L` belongs behind a weekday, such as 5L, or alone in a day field",
            Some('#') => "`#` belongs behind a weekday, such as 5#2",
            Some('/') => "a step belongs behind `*`, a value, a range or H",
            Some('-') => "a range is two values, such as 1-5",
            Some('?') => "`?` stands alone in its field",
            Some(_) => "expected `,`, `-`, `/` or the end of the field",
        };
        Err(self.refuse_rest(expected))
    }

    /// A number or a name, inside the field's bounds.
    pub(super) fn value(&mut self) -> Result<Value, CronError> {
        let start = self.at;
        if let Some(number) = self.digits()? {
            let Field { min, max, .. } = *self.field;
            if !(min..=max).contains(&number) {
                let reason = format!("{number} is out of range: expected {min} to {max}");
                return Err(self.refuse(start, self.at - start, reason));
            }
            return Ok(Value { number, is_name: false });
        }
        self.name()
    }

    /// One to four digits; nothing if there is no digit.
    fn digits(&mut self) -> Result<Option<u32>, CronError> {
        let length = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let digits = &self.rest()[..length];
        if length > 4 {
            let reason = format!("{} is too long: a number has at most 4 digits", quote(digits));
            return Err(self.refuse(self.at, length, reason));
        }
        self.at += length;
        Ok(digits.parse().ok())
    }

    fn name(&mut self) -> Result<Value, CronError> {
        let length = self.rest().bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = &self.rest()[..length];
        let known = word.get(..3).and_then(|name| self.field.named(name));
        // FRIL is FRI and L.
        let is_last_weekday = length == 4 && self.field.is_weekday() && word.ends_with(['L', 'l']);
        match known {
            Some(number) if length == 3 || is_last_weekday => {
                self.at += 3;
                Ok(Value { number, is_name: true })
            }
            Some(_) => {
                let reason = format!("{} is not a name: write {}", quote(word), &word[..3]);
                Err(self.refuse(self.at, length, reason))
            }
            None => Err(self.no_value(word)),
        }
    }

    /// Nothing that could be a value: says so in the way that helps most.
    fn no_value(&self, word: &str) -> CronError {
        let Field { min, max, .. } = *self.field;
        let names = if self.field.has_names() { " or a three-letter name" } else { "" };
        let expected = format!("expected {min} to {max}{names}");
        match self.peek() {
            None if self.at == self.start => {
                self.refuse_here("empty item: expected a value before and after every comma")
            }
            None => self.refuse_here(&format!("the range has no end: {expected}")),
            Some('L' | 'l') if word.len() == 1 => self.refuse_here("`L` belongs in a day field"),
            Some('W' | 'w') if word.len() == 1 => {
                self.refuse_here("`W` belongs behind a number in the day of month, such as 15W")
            }
            Some('+' | '-') => self.refuse_here(&format!("a number has no sign: {expected}")),
            Some('/') => self.refuse_here("a step belongs behind `*`, a value, a range or H"),
            Some('@') => self.refuse_here("a nickname stands alone"),
            Some(_) if !word.is_empty() => {
                self.refuse(self.at, word.len(), format!("{} is unknown: {expected}", quote(word)))
            }
            Some(c) => self.refuse(
                self.at,
                c.len_utf8(),
                format!("{} is not allowed here: {expected}", quote(&c.to_string())),
            ),
        }
    }

    /// `/n`, if there is one.
    pub(super) fn step(&mut self) -> Result<Option<u32>, CronError> {
        if self.peek() != Some('/') {
            return Ok(None);
        }
        self.bump();
        let size = self.field.size;
        self.number_between(1, size, "a step").map(Some)
    }

    /// The n of `d#n`.
    pub(super) fn nth(&mut self) -> Result<u32, CronError> {
        if matches!(self.peek(), Some('L' | 'l')) {
            return Err(self.refuse_here("the last such weekday is written without `#`, such as 5L"));
        }
        self.number_between(1, 5, "which one of the month")
    }

    pub(super) fn number_between(&mut self, min: u32, max: u32, what: &str) -> Result<u32, CronError> {
        let start = self.at;
        match self.digits()? {
            Some(number) if (min..=max).contains(&number) => Ok(number),
            Some(number) => {
                let reason = format!("{number} is out of range: expected {min} to {max} ({what})");
                Err(self.refuse(start, self.at - start, reason))
            }
            None => Err(self.refuse_here(&format!("expected a number from {min} to {max} ({what})"))),
        }
    }

    fn refuse(&self, start: usize, length: usize, reason: String) -> CronError {
        CronError::new(self.text, start, length, Some(self.field.name), reason)
    }

    /// Refuses at the letter that comes next, or at the end of the item.
    pub(super) fn refuse_here(&self, reason: &str) -> CronError {
        self.refuse(self.at, self.peek().map_or(1, char::len_utf8), reason.into())
    }

    fn refuse_rest(&self, expected: &str) -> CronError {
        let reason = match self.rest() {
            "" => expected.to_string(),
            rest => format!("unexpected {}: {expected}", quote(rest)),
        };
        self.refuse(self.at, self.rest().len(), reason)
    }

    pub(super) fn refuse_item(&self, reason: String) -> CronError {
        self.refuse(self.start, self.end - self.start, reason)
    }
}

/// A piece of the text, bounded and made harmless for a terminal.
pub(super) fn quote(piece: &str) -> String {
    let mut shown: String = piece.chars().take(LONGEST_QUOTED).collect();
    if shown.len() < piece.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
