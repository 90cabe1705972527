//! Reads an expression: splits it into fields, each field into items, each item into a set.
//!
//! One pass over the text, whatever its length; every refusal says where and what was expected.
//! The grammar and the reasons for its choices are in `docs/decisions/0003-cron-dialects.md`.

use super::cursor::{Cursor, Value, quote};
use super::days::{DayFields, EVERY_DAY, EVERY_WEEKDAY};
use super::fields::{self, Field};
use super::{Cron, CronError, CronKind, Dialect, Quirks, Years, spread};

/// Longer texts are refused unread.
const LONGEST: usize = 64 * 1024;

pub(super) fn expression(text: &str, dialect: Dialect, seed: &str) -> Result<Cron, CronError> {
    if text.len() > LONGEST {
        return Err(CronError::new(text, LONGEST, 1, None, format!("longer than {LONGEST} bytes")));
    }
    let words = split(text)?;
    match words.first() {
        Some(word) if word.text.starts_with('@') => {
            let fields = expand_nickname(text, &words, dialect)?;
            let expanded = from_fields(fields, &split(fields)?, dialect, seed)?;
            Ok(Cron { text: text.into(), ..expanded })
        }
        _ => from_fields(text, &words, dialect, seed),
    }
}

/// A word of the text and where it starts.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    start: usize,
}

/// Splits at spaces and tabs; any other blank or control character would only look like one of them.
fn split(text: &str) -> Result<Vec<Word<'_>>, CronError> {
    let is_odd = |c: char| c != ' ' && c != '\t' && (c.is_whitespace() || c.is_control());
    // A line of a file may come with its end.
    let line = text.trim_end_matches(['\r', '\n']);
    if let Some((start, c)) = line.char_indices().find(|(_, c)| is_odd(*c)) {
        let reason = format!("U+{:04X} is not allowed: fields are split by spaces or tabs", c as u32);
        return Err(CronError::new(text, start, c.len_utf8(), None, reason));
    }
    let words = pieces(Word { text: line, start: 0 }, [' ', '\t']);
    Ok(words.filter(|word| !word.text.is_empty()).collect())
}

/// The pieces of a word between separators of one byte.
fn pieces<'a, const N: usize>(word: Word<'a>, separators: [char; N]) -> impl Iterator<Item = Word<'a>> {
    let mut next = word.start;
    word.text.split(separators).map(move |text| {
        let start = next;
        next += text.len() + 1;
        Word { text, start }
    })
}

fn expand_nickname(text: &str, words: &[Word<'_>], dialect: Dialect) -> Result<&'static str, CronError> {
    let name = words[0];
    let refuse = |word: &Word<'_>, reason: String| {
        Err(CronError::new(text, word.start, word.text.len(), None, reason))
    };
    let fields = match name.text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        "@every" => return refuse(&name, "@every is not cron: use a schedule of kind `every`".into()),
        "@reboot" => {
            return refuse(&name, "@reboot names no instant: there is no reboot to wait for".into());
        }
        _ => {
            let known = "@yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly";
            return refuse(&name, format!("{} is unknown: expected {known}", quote(name.text)));
        }
    };
    if dialect == Dialect::Quartz {
        return refuse(&name, "nicknames belong to the unix dialect: write six fields".into());
    }
    match words.get(1) {
        Some(extra) => refuse(extra, format!("nothing may follow {}", name.text)),
        None => Ok(fields),
    }
}

fn from_fields(text: &str, words: &[Word<'_>], dialect: Dialect, seed: &str) -> Result<Cron, CronError> {
    check_number_of_fields(text, words, dialect)?;
    let (second, words) = if words.len() == 5 { (None, words) } else { (Some(words[0]), &words[1..]) };
    let &[minute, hour, day, month, weekday, ref year @ ..] = words else {
        unreachable!("the number of fields was checked")
    };
    let mut reader = Reader { text, dialect, seed, quirks: Quirks::default(), is_spread: false };
    // Without a second field it is second 0: bit 0.
    let seconds = second.map_or(Ok(1), |second| reader.simple(second, &fields::SECOND))?;
    let minutes = reader.simple(minute, &fields::MINUTE)?;
    let hours = reader.simple(hour, &fields::HOUR)?;
    let mut days = DayFields::default();
    reader.day_of_month(day, &mut days)?;
    let months = reader.simple(month, &fields::MONTH)?;
    reader.day_of_week(weekday, &mut days)?;
    let years = match year {
        [year] => reader.years(*year)?,
        _ => Years::ALL,
    };
    check_question_marks(text, day, weekday, dialect)?;

    let begins_open = |word: Word<'_>| word.text.starts_with(['*', '?']);
    days.both = begins_open(day) || begins_open(weekday);
    let is_stepped = |word: Word<'_>| word.text.starts_with("*/");
    reader.quirks.stepped_day =
        (is_stepped(day) && !begins_open(weekday)) || (is_stepped(weekday) && !begins_open(day));
    let is_rhythm = second.iter().chain([&minute, &hour]).any(|word| word.text.contains(['*', '/']));
    let kind = if is_rhythm { CronKind::Interval } else { CronKind::Fixed };
    let Reader { quirks, is_spread, .. } = reader;
    let seed = is_spread.then(|| seed.into());
    Ok(Cron { text: text.into(), seed, dialect, kind, seconds, minutes, hours, months, days, years, quirks })
}

fn check_number_of_fields(text: &str, words: &[Word<'_>], dialect: Dialect) -> Result<(), CronError> {
    let (least, allowed) = match dialect {
        Dialect::Unix => (5, "unix takes 5, 6 (second first) or 7 (year last)"),
        Dialect::Quartz => (6, "quartz takes 6 or 7 (year last)"),
    };
    if let Some(extra) = words.get(7) {
        let reason = format!("{} fields: {allowed}", words.len());
        return Err(CronError::new(text, extra.start, extra.text.len(), None, reason));
    }
    if words.len() >= least {
        return Ok(());
    }
    let end = words.last().map_or(0, |word| word.start + word.text.len());
    let reason = match words.len() {
        0 => format!("empty expression: {allowed}"),
        1 => format!("1 field: {allowed}"),
        number => format!("{number} fields: {allowed}"),
    };
    Err(CronError::new(text, end, 1, None, reason))
}

/// Quartz leaves exactly one of the day fields open, by `?`.
fn check_question_marks(
    text: &str,
    day: Word<'_>,
    weekday: Word<'_>,
    dialect: Dialect,
) -> Result<(), CronError> {
    if dialect == Dialect::Unix || (day.text == "?") != (weekday.text == "?") {
        return Ok(());
    }
    let (word, field, reason) = match (day.text, weekday.text) {
        ("?", _) => {
            (weekday, fields::weekday(dialect), "both day fields are `?`: write `*` or days in one of them")
        }
        (_, "*") => {
            (weekday, fields::weekday(dialect), "quartz wants `?` in one of the day fields: write `?` here")
        }
        ("*", _) => (day, &fields::DAY, "quartz wants `?` in one of the day fields: write `?` here"),
        _ => (
            weekday,
            fields::weekday(dialect),
            "quartz wants `?` in one of the day fields: days of month and of week cannot both be given",
        ),
    };
    Err(CronError::new(text, word.start, word.text.len(), Some(field.name), reason))
}

/// One item of a list, understood but not yet put into a set.
enum Item {
    /// `start`, `start + step`, … up to `end`; beyond the field's end it goes on at its beginning.
    Values { start: u32, end: u32, step: u32 },
    /// `L-n`, and `L` with n = 0.
    FromLast(u32),
    /// `nW`.
    Nearest(u32),
    /// `L-nW`, and `LW` with n = 0.
    NearestFromLast(u32),
    /// `d#n`: weekday, n.
    NthWeekday(u32, u32),
    /// `dL`.
    LastWeekday(u32),
}

/// Reads fields and notes what others would read otherwise.
struct Reader<'a> {
    text: &'a str,
    dialect: Dialect,
    seed: &'a str,
    quirks: Quirks,
    is_spread: bool,
}

impl<'a> Reader<'a> {
    /// A field of plain values, as bits.
    fn simple(&mut self, word: Word<'a>, field: &'static Field) -> Result<u64, CronError> {
        let mut set = 0;
        self.list(word, field, |item| {
            if let Item::Values { start, end, step } = item {
                set |= values(field, start, end, step).fold(0, |set, value| set | 1 << value);
            }
        })?;
        Ok(set)
    }

    fn years(&mut self, word: Word<'a>) -> Result<Years, CronError> {
        let mut years = Years::NONE;
        self.list(word, &fields::YEAR, |item| {
            if let Item::Values { start, end, step } = item {
                values(&fields::YEAR, start, end, step).for_each(|year| years.insert(year as i32));
            }
        })?;
        Ok(years)
    }

    fn day_of_month(&mut self, word: Word<'a>, days: &mut DayFields) -> Result<(), CronError> {
        if word.text == "?" {
            days.plain = EVERY_DAY;
            return Ok(());
        }
        let mut is_beyond_28 = false;
        self.list(word, &fields::DAY, |item| match item {
            Item::Values { start, end, step } => {
                days.plain |= values(&fields::DAY, start, end, step).fold(0, |set, day| set | 1 << day);
            }
            Item::FromLast(back) => days.from_last |= 1 << back,
            Item::Nearest(day) => {
                days.nearest |= 1 << day;
                is_beyond_28 |= day > 28;
            }
            Item::NearestFromLast(back) => days.nearest_from_last |= 1 << back,
            Item::NthWeekday(..) | Item::LastWeekday(_) => {}
        })?;
        self.quirks.nearest_beyond_28 |= is_beyond_28;
        Ok(())
    }

    fn day_of_week(&mut self, word: Word<'a>, days: &mut DayFields) -> Result<(), CronError> {
        if word.text == "?" {
            days.weekdays = EVERY_WEEKDAY;
            return Ok(());
        }
        let field = fields::weekday(self.dialect);
        // Sunday is bit 0, whether it was written 0, 7 or, in quartz, 1.
        let bit = |weekday: u32| 1 << ((weekday + 7 - field.min) % 7);
        self.list(word, field, |item| match item {
            Item::Values { start, end, step } => {
                days.weekdays |= values(field, start, end, step).fold(0, |set, weekday| set | bit(weekday));
            }
            Item::NthWeekday(weekday, nth) => days.nth_weekdays[nth as usize - 1] |= bit(weekday),
            Item::LastWeekday(weekday) => days.last_weekdays |= bit(weekday),
            Item::FromLast(_) | Item::Nearest(_) | Item::NearestFromLast(_) => {}
        })
    }

    /// Splits a field at its commas and reads each item.
    fn list(
        &mut self,
        word: Word<'a>,
        field: &'static Field,
        mut each: impl FnMut(Item),
    ) -> Result<(), CronError> {
        for Word { text: item, start } in pieces(word, [',']) {
            let mut cursor = Cursor::new(self.text, start, start + item.len(), field);
            each(self.item(&mut cursor)?);
            cursor.expect_end()?;
        }
        Ok(())
    }

    fn item(&mut self, cursor: &mut Cursor<'_>) -> Result<Item, CronError> {
        let field = cursor.field;
        match cursor.peek() {
            None => Err(cursor.refuse_here("empty item: expected a value before and after every comma")),
            Some('*') => {
                cursor.bump();
                let step = cursor.step()?.unwrap_or(1);
                Ok(Item::Values { start: field.min, end: field.open_end(field.min), step })
            }
            Some('?') if field.is_weekday() || field.is_day_of_month() => {
                Err(cursor.refuse_here("`?` stands alone in its field"))
            }
            Some('?') => Err(cursor.refuse_here("`?` belongs in a day field: write `*`")),
            Some('H' | 'h') => self.spread(cursor),
            Some('L' | 'l') if field.is_day_of_month() => self.last_day(cursor),
            Some('L' | 'l') if field.is_weekday() => self.bare_last_weekday(cursor),
            Some(_) => self.value_or_range(cursor),
        }
    }

    /// `a`, `a-b`, `a/n`, `a-b/n`, and what may follow a value in a day field.
    fn value_or_range(&mut self, cursor: &mut Cursor<'_>) -> Result<Item, CronError> {
        let field = cursor.field;
        let start = cursor.value()?.number;
        match cursor.peek() {
            Some('W' | 'w') if field.is_day_of_month() => {
                cursor.bump();
                Ok(Item::Nearest(start))
            }
            Some('L' | 'l') if field.is_weekday() => {
                cursor.bump();
                Ok(Item::LastWeekday(start))
            }
            Some('#') if field.is_weekday() => {
                cursor.bump();
                Ok(Item::NthWeekday(start, cursor.nth()?))
            }
            Some('-') => {
                let end = self.range_end(cursor, start)?;
                let step = cursor.step()?.unwrap_or(1);
                Ok(Item::Values { start, end, step })
            }
            _ => match cursor.step()? {
                None => Ok(Item::Values { start, end: start, step: 1 }),
                Some(step) => {
                    self.quirks.open_step |= self.dialect == Dialect::Unix;
                    Ok(Item::Values { start, end: field.open_end(start), step })
                }
            },
        }
    }

    /// The end of a range whose start was read; in quartz it may lie before the start.
    fn range_end(&mut self, cursor: &mut Cursor<'_>, start: u32) -> Result<u32, CronError> {
        cursor.bump();
        let Value { number: end, is_name } = cursor.value()?;
        if start <= end {
            return Ok(end);
        }
        let field = cursor.field;
        if self.dialect == Dialect::Quartz && !field.is_year() {
            return Ok(end + field.size);
        }
        if field.is_weekday() && is_name && end == 0 {
            self.quirks.ends_in_sunday = true;
            return Ok(7);
        }
        let is_sunday = field.is_weekday() && end == 0;
        let advice = if is_sunday { "write 7 for Sunday at its end" } else { "the lower value comes first" };
        Err(cursor.refuse_item(format!("the range runs backwards: {advice}")))
    }

    /// `L`, `LW`, `L-n`, `L-nW` in the day of month.
    fn last_day(&mut self, cursor: &mut Cursor<'_>) -> Result<Item, CronError> {
        cursor.bump();
        let mut back = 0;
        if cursor.peek() == Some('-') {
            if self.dialect == Dialect::Unix {
                return Err(cursor.refuse_item("`L-n` belongs to the quartz dialect".into()));
            }
            cursor.bump();
            back = cursor.number_between(1, 30, "days before the last day")?;
        }
        if matches!(cursor.peek(), Some('W' | 'w')) {
            cursor.bump();
            return Ok(Item::NearestFromLast(back));
        }
        Ok(Item::FromLast(back))
    }

    /// `L` alone in the day of week: Saturday to quartz, nothing to unix.
    fn bare_last_weekday(&mut self, cursor: &mut Cursor<'_>) -> Result<Item, CronError> {
        if self.dialect == Dialect::Unix {
            return Err(cursor.refuse_here("`L` needs a weekday before it, such as 5L for the last Friday"));
        }
        cursor.bump();
        Ok(Item::Values { start: 7, end: 7, step: 1 })
    }

    /// `H`, `H/n`, `H(a-b)`, `H(a-b)/n`.
    fn spread(&mut self, cursor: &mut Cursor<'_>) -> Result<Item, CronError> {
        let field = cursor.field;
        if field.is_year() {
            return Err(cursor.refuse_here("`H` cannot choose a year"));
        }
        self.is_spread = true;
        cursor.bump();
        let (min, max) = match cursor.peek() {
            Some('(') => self.spread_range(cursor)?,
            _ => (field.min, field.spread_max),
        };
        let Some(step) = cursor.step()? else {
            let value = spread::place(self.seed, field, min, max);
            return Ok(Item::Values { start: value, end: value, step: 1 });
        };
        let start = spread::place(self.seed, field, min, max.min(min + step - 1));
        Ok(Item::Values { start, end: max, step })
    }

    fn spread_range(&mut self, cursor: &mut Cursor<'_>) -> Result<(u32, u32), CronError> {
        cursor.bump();
        let min = cursor.value()?.number;
        cursor.expect('-')?;
        let max = cursor.value()?.number;
        cursor.expect(')')?;
        if min > max {
            return Err(cursor.refuse_item("the range runs backwards: the lower value comes first".into()));
        }
        Ok((min, max))
    }
}

/// The values of an item, wrapped around the end of the field.
fn values(field: &'static Field, start: u32, end: u32, step: u32) -> impl Iterator<Item = u32> {
    let wrap = move |value| {
        if value > field.max { value - field.size } else { value }
    };
    (start..=end).step_by(step as usize).map(wrap)
}

impl Field {
    /// Where a range without a written end stops. The week has seven days: 7 is only Sunday's other name.
    fn open_end(&self, start: u32) -> u32 {
        if self.is_weekday() { self.spread_max.max(start) } else { self.max }
    }
}
