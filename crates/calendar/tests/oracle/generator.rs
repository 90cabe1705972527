//! Random valid expressions with every construct of both dialects, drawn so that they fire near a given wall
//! time: a rule that stays silent around a transition says nothing about it.

use jiff::civil::DateTime;
use punctual_calendar::Dialect;

use super::dice::Dice;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const NICKNAMES: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    Second,
    /// The second is left out or 0.
    Minute,
}

pub(crate) fn dialect(dice: &mut Dice) -> Dialect {
    dice.pick(&[Dialect::Unix, Dialect::Quartz])
}

pub(crate) fn expression(
    dice: &mut Dice,
    dialect: Dialect,
    near: DateTime,
    resolution: Resolution,
) -> String {
    // As many fixed rules as interval rules; left to chance, nearly every text would hold a `*` or a `/`.
    let is_fixed = dice.percent(50);
    let mut writer = Writer { dice, dialect, near, is_fixed };
    let text = match dialect {
        Dialect::Unix if writer.dice.percent(3) => writer.dice.pick(&NICKNAMES).to_owned(),
        Dialect::Unix | Dialect::Quartz => writer.fields(resolution),
    };
    any_case(dice, &text)
}

fn any_case(dice: &mut Dice, text: &str) -> String {
    match dice.weighted(&[7, 1, 1, 1]) {
        0 => text.to_owned(),
        1 => text.to_ascii_lowercase(),
        2 => text.to_ascii_uppercase(),
        _ => text
            .chars()
            .map(|c| if dice.percent(50) { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() })
            .collect(),
    }
}

/// The numbers that one field may hold, those that fall near the wanted wall time, and its names.
#[derive(Clone, Copy)]
struct Field {
    low: i64,
    high: i64,
    near: i64,
    names: &'static [&'static str],
    goes_round: bool,
    /// Neither `*` nor `/`.
    is_fixed: bool,
    /// Unix: 7 is a Sunday as well, and so is a range's end in SUN.
    is_unix_weekday: bool,
}

impl Field {
    fn size(&self) -> i64 {
        self.high - self.low + 1
    }
}

struct Writer<'a> {
    dice: &'a mut Dice,
    dialect: Dialect,
    near: DateTime,
    /// Keeps `*` and `/` out of second, minute and hour.
    is_fixed: bool,
}

impl Writer<'_> {
    fn fields(&mut self, resolution: Resolution) -> String {
        let has_year = self.dice.percent(20);
        let has_second = match (self.dialect, resolution) {
            (Dialect::Unix, Resolution::Minute) => false,
            (Dialect::Unix, Resolution::Second) => has_year || self.dice.percent(50),
            (Dialect::Quartz, _) => true,
        };
        let mut fields = Vec::new();
        if has_second {
            fields.push(if resolution == Resolution::Minute { "0".to_owned() } else { self.second() });
        }
        fields.push(self.minute());
        fields.push(self.hour());
        let (day, weekday) = self.day_fields();
        fields.extend([day, self.month(), weekday]);
        if has_second && has_year {
            fields.push(self.year());
        }
        self.spaced(&fields)
    }

    fn spaced(&mut self, fields: &[String]) -> String {
        if self.dice.percent(90) {
            return fields.join(" ");
        }
        let mut text = self.dice.pick(&["", " ", "\t"]).to_owned();
        for field in fields {
            text += field;
            text += self.dice.pick(&[" ", "  ", "\t", " \t "]);
        }
        text.trim_end().to_owned() + self.dice.pick(&["", " ", "\t"])
    }

    fn field(&self, low: i64, high: i64, near: i64) -> Field {
        let goes_round = self.dialect == Dialect::Quartz;
        // The wanted wall time may lie just outside the years of the grammar.
        let near = near.clamp(low, high);
        Field { low, high, near, names: &[], goes_round, is_fixed: false, is_unix_weekday: false }
    }

    fn time_field(&self, high: i64, near: i64) -> Field {
        Field { is_fixed: self.is_fixed, ..self.field(0, high, near) }
    }

    fn weekday_field(&self) -> Field {
        let sunday_zero = i64::from(self.near.weekday().to_sunday_zero_offset());
        let is_unix_weekday = self.dialect == Dialect::Unix;
        let low = if is_unix_weekday { 0 } else { 1 };
        let field = self.field(low, low + 6, low + sunday_zero);
        Field { names: &WEEKDAYS, is_unix_weekday, ..field }
    }

    fn second(&mut self) -> String {
        let field = self.time_field(59, 0);
        match self.dice.weighted(&[60, 15, 23, if self.is_fixed { 0 } else { 2 }]) {
            0 => "0".to_owned(),
            1 => self.dice.between(0, 59).to_string(),
            2 => self.list(field),
            _ => "*".to_owned(),
        }
    }

    fn minute(&mut self) -> String {
        let near = self.dice.pick(&[i64::from(self.near.minute()), 0, 15, 29, 30, 45, 59]);
        let field = self.time_field(59, near);
        if !self.is_fixed && self.dice.percent(20) { "*".to_owned() } else { self.list(field) }
    }

    fn hour(&mut self) -> String {
        let here = i64::from(self.near.hour());
        let near = self.dice.pick(&[here, here, here, (here + 1) % 24, (here + 23) % 24, 0, 1, 2, 3, 4]);
        let field = self.time_field(23, near);
        if !self.is_fixed && self.dice.percent(40) { "*".to_owned() } else { self.list(field) }
    }

    fn month(&mut self) -> String {
        let field = Field { names: &MONTHS, ..self.field(1, 12, i64::from(self.near.month())) };
        if self.dice.percent(70) { "*".to_owned() } else { self.list(field) }
    }

    fn year(&mut self) -> String {
        let field = Field { goes_round: false, ..self.field(1970, 2199, i64::from(self.near.year())) };
        if self.dice.percent(25) { "*".to_owned() } else { self.list(field) }
    }

    fn day_fields(&mut self) -> (String, String) {
        match self.dialect {
            Dialect::Unix => {
                let any = self.dice.pick(&["*", "*", "*", "?"]).to_owned();
                match self.dice.weighted(&[55, 15, 15, 15]) {
                    0 => (any, self.dice.pick(&["*", "*", "*", "?"]).to_owned()),
                    1 => (self.day(), any),
                    2 => (any, self.weekday()),
                    _ => (self.day(), self.weekday()),
                }
            }
            Dialect::Quartz => match self.dice.weighted(&[50, 23, 4, 23]) {
                0 => ("*".to_owned(), "?".to_owned()),
                1 => (self.day(), "?".to_owned()),
                2 => ("?".to_owned(), "*".to_owned()),
                _ => ("?".to_owned(), self.weekday()),
            },
        }
    }

    fn day(&mut self) -> String {
        self.joined(|writer| {
            let field = writer.field(1, 31, i64::from(writer.near.day()));
            match writer.dice.weighted(&[60, 8, 8, 14, 10]) {
                0 => writer.item(field),
                1 => "L".to_owned(),
                2 => "LW".to_owned(),
                3 => writer.value(field).to_string() + "W",
                _ => writer.day_from_the_end(),
            }
        })
    }

    /// `L-n` and `L-nW` are Quartz's; unix has to be content with `L`.
    fn day_from_the_end(&mut self) -> String {
        if self.dialect == Dialect::Unix {
            return "L".to_owned();
        }
        let near = i64::from(self.near.days_in_month()) - i64::from(self.near.day());
        let field = Field { goes_round: false, ..self.field(1, 30, near.max(1)) };
        let value = self.value(field);
        format!("L-{value}{}", self.dice.pick(&["", "", "W"]))
    }

    fn weekday(&mut self) -> String {
        self.joined(|writer| {
            let field = writer.weekday_field();
            match writer.dice.weighted(&[60, 18, 14, 8]) {
                0 => writer.item(field),
                1 => {
                    let near = (i64::from(writer.near.day()) - 1) / 7 + 1;
                    let nth = writer.value(Field { goes_round: false, ..writer.field(1, 5, near) });
                    format!("{}#{nth}", writer.one(field))
                }
                2 => writer.one(field) + "L",
                _ if writer.dialect == Dialect::Quartz => "L".to_owned(),
                _ => writer.one(field),
            }
        })
    }

    fn list(&mut self, field: Field) -> String {
        self.joined(|writer| writer.item(field))
    }

    fn joined(&mut self, mut item: impl FnMut(&mut Self) -> String) -> String {
        let count = self.dice.pick(&[1, 1, 1, 1, 1, 1, 2, 2, 3]);
        let items: Vec<String> = (0..count).map(|_| item(self)).collect();
        items.join(",")
    }

    fn item(&mut self, field: Field) -> String {
        let weights = if field.is_fixed { [70, 30, 0, 0, 0, 0] } else { [50, 18, 10, 10, 10, 2] };
        match self.dice.weighted(&weights) {
            0 => self.one(field),
            1 => self.range(field),
            2 => format!("{}/{}", self.range(field), self.step(field)),
            3 => {
                let first = self.value(field);
                format!("{}/{}", self.written(first, field), self.step(field))
            }
            4 => format!("*/{}", self.step(field)),
            _ => "*".to_owned(),
        }
    }

    /// One value on its own, where a unix Sunday may be a 7.
    fn one(&mut self, field: Field) -> String {
        let value = self.value(field);
        if field.is_unix_weekday && value == 0 && self.dice.percent(40) {
            return "7".to_owned();
        }
        self.written(value, field)
    }

    fn range(&mut self, field: Field) -> String {
        let first = self.value(field);
        let last = match self.dice.weighted(&[5, 3, 1]) {
            0 => first + self.dice.between(0, 3),
            1 => first + self.dice.between(0, field.size() - 1),
            _ => field.high,
        };
        if field.is_unix_weekday {
            return self.unix_weekday_range(first, last.min(7), field);
        }
        let last = match last > field.high {
            true if field.goes_round => last - field.size(),
            true => field.high,
            false => last,
        };
        format!("{}-{}", self.written(first, field), self.written(last, field))
    }

    /// Only here does a Sunday at the end mean 7, by number or by name, and so only 0 means `0`.
    /// SUN-SUN is left out: whether it is one day or eight is nobody's decision.
    fn unix_weekday_range(&mut self, first: i64, last: i64, field: Field) -> String {
        let first = self.written(first, field);
        let last = match last {
            0 => "0".to_owned(),
            7 if first != "Sun" && self.dice.percent(70) => "Sun".to_owned(),
            7 => "7".to_owned(),
            other => self.written(other, field),
        };
        format!("{first}-{last}")
    }

    fn value(&mut self, field: Field) -> i64 {
        match self.dice.weighted(&[50, 20, 30]) {
            0 => field.near,
            1 => (field.near + self.dice.between(-2, 2)).clamp(field.low, field.high),
            _ => self.dice.between(field.low, field.high),
        }
    }

    fn step(&mut self, field: Field) -> i64 {
        let small = field.size().min(6);
        if self.dice.percent(70) { self.dice.between(1, small) } else { self.dice.between(1, field.size()) }
    }

    fn written(&mut self, value: i64, field: Field) -> String {
        if !field.names.is_empty() && self.dice.percent(50) {
            return field.names[(value - field.low) as usize].to_owned();
        }
        match self.dice.weighted(&[94, 4, 2]) {
            0 => value.to_string(),
            1 => format!("{value:02}"),
            _ => format!("{value:04}"),
        }
    }
}
