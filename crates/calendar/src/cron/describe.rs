//! An expression in plain English, from its sets: what was spelt differently but means the same reads the same.

use super::days::{DayFields, bits};
use super::fields::{self, Field};
use super::{Cron, Years};

/// Up to this many times of day are listed one by one.
const MOST_TIMES: usize = 6;

/// Up to this many values are listed before the rest is only counted.
const MOST_VALUES: usize = 12;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) fn describe(cron: &Cron) -> String {
    let times = times_of_day(cron);
    let is_times = times.is_some();
    let mut parts = vec![times.unwrap_or_else(|| rhythm(cron))];
    match days(&cron.days) {
        Some(days) => parts.push(days),
        None if is_times => parts.push("every day".into()),
        None => {}
    }
    parts.extend(months(cron.months));
    parts.extend(years(cron.years));
    parts.join(" ")
}

/// `at 09:00 and 17:30`, where the times of day are few.
fn times_of_day(cron: &Cron) -> Option<String> {
    let (hours, minutes, seconds) = (values(cron.hours), values(cron.minutes), values(cron.seconds));
    if seconds.len() > 1 || hours.len() * minutes.len() > MOST_TIMES {
        return None;
    }
    let with_second = |hour: u32, minute: u32| match seconds[0] {
        0 => format!("{hour:02}:{minute:02}"),
        second => format!("{hour:02}:{minute:02}:{second:02}"),
    };
    let times = hours.iter().flat_map(|hour| minutes.iter().map(|minute| with_second(*hour, *minute)));
    Some(format!("at {}", list(times.collect())))
}

/// `every 15 minutes from 09:00 to 17:59`.
fn rhythm(cron: &Cron) -> String {
    let units =
        [(cron.seconds, &fields::SECOND), (cron.minutes, &fields::MINUTE), (cron.hours, &fields::HOUR)];
    // Second 0 goes without saying.
    let units = if cron.seconds == 1 { &units[1..] } else { &units[..] };
    let (leading, rest) = units.split_first().expect("minutes and hours are always there");
    let mut words = vec![lead(leading.0, leading.1)];
    let mut is_steady = matches!(shape(leading.0, leading.1), Shape::All | Shape::Every(_));
    for (set, field) in rest {
        words.extend(follow(*set, field, is_steady));
        is_steady = is_steady && shape(*set, field) == Shape::All;
    }
    words.join(" ")
}

/// How the finest unit reads.
fn lead(set: u64, field: &Field) -> String {
    let unit = field.name;
    match shape(set, field) {
        Shape::All => format!("every {unit}"),
        Shape::Every(step) if field.size.is_multiple_of(step) => format!("every {step} {unit}s"),
        Shape::Every(step) => format!("every {step} {unit}s counted from {unit} {}", field.min),
        Shape::Run(first, last) => format!("at every {unit} from {first} to {last}"),
        Shape::Some(values) => format!("at {unit}{} {}", plural(&values), list(numbers(&values))),
    }
}

/// How a coarser unit reads after a finer one.
fn follow(set: u64, field: &Field, is_steady: bool) -> Option<String> {
    let unit = field.name;
    Some(match shape(set, field) {
        Shape::All if is_steady => return None,
        Shape::All => format!("of every {unit}"),
        Shape::Every(step) => format!("of every {} {unit}", ordinal(step)),
        Shape::Run(first, last) if unit == "hour" => format!("from {first:02}:00 to {last:02}:59"),
        Shape::Run(first, last) => format!("of {unit}s {first} to {last}"),
        Shape::Some(values) => format!("of {unit}{} {}", plural(&values), list(numbers(&values))),
    })
}

/// The shape of a set of values.
#[derive(PartialEq, Eq)]
enum Shape {
    All,
    /// Every nth, counted from the field's first value.
    Every(u32),
    /// Three or more in a row.
    Run(u32, u32),
    Some(Vec<u32>),
}

fn shape(set: u64, field: &Field) -> Shape {
    if set == field.all() {
        return Shape::All;
    }
    let values = values(set);
    let (first, last) = (values[0], values[values.len() - 1]);
    let step = if values.len() > 1 { values[1] - first } else { 0 };
    let is_even = step > 0 && values.windows(2).all(|pair| pair[1] - pair[0] == step);
    if is_even && step > 1 && first == field.min && last + step > field.max {
        return Shape::Every(step);
    }
    if is_even && step == 1 && values.len() > 2 {
        return Shape::Run(first, last);
    }
    Shape::Some(values)
}

/// Both day fields; nothing if every day matches.
fn days(days: &DayFields) -> Option<String> {
    if !days.both && (days.is_every_day_of_month() || days.is_every_weekday()) {
        return None;
    }
    let by_day = (!days.is_every_day_of_month()).then(|| by_day_of_month(days));
    let by_weekday = (!days.is_every_weekday()).then(|| by_weekday(days));
    match (by_day, by_weekday) {
        (Some(day), Some(weekday)) if days.both => {
            Some(format!("on {day} of the month if that is {weekday}"))
        }
        (Some(day), Some(weekday)) => Some(format!("on {day} of the month or on {weekday}")),
        (Some(day), None) => Some(format!("on {day} of the month")),
        (None, Some(weekday)) => Some(format!("on {weekday}")),
        (None, None) => None,
    }
}

fn by_day_of_month(days: &DayFields) -> String {
    let mut words = Vec::new();
    if days.plain != 0 {
        words.push(match shape(u64::from(days.plain), &fields::DAY) {
            Shape::All => "every day".into(),
            Shape::Every(step) => format!("every {} day from day 1", ordinal(step)),
            Shape::Run(first, last) => format!("days {first} to {last}"),
            Shape::Some(values) => format!("day{} {}", plural(&values), list(numbers(&values))),
        });
    }
    words.extend(bits(days.from_last).map(|back| format!("the {}", counted_from_last(back))));
    words.extend(bits(days.nearest).map(|day| format!("the working day nearest to day {day}")));
    words.extend(bits(days.nearest_from_last).map(|back| match back {
        0 => "the last working day".into(),
        _ => format!("the working day nearest to the {}", counted_from_last(back)),
    }));
    list(words)
}

fn counted_from_last(back: u32) -> String {
    match back {
        0 => "last day".into(),
        1 => "day before the last".into(),
        _ => format!("{} day before the last", ordinal(back)),
    }
}

fn by_weekday(days: &DayFields) -> String {
    let name = |weekday: u32| WEEKDAYS[weekday as usize].to_string();
    let mut words: Vec<String> = plain_weekdays(days.weekdays);
    for (index, weekdays) in days.nth_weekdays.iter().enumerate() {
        let nth = ordinal(index as u32 + 1);
        words.extend(bits(u32::from(*weekdays)).map(|day| format!("the {nth} {} of the month", name(day))));
    }
    let last = bits(u32::from(days.last_weekdays));
    words.extend(last.map(|day| format!("the last {} of the month", name(day))));
    list(words)
}

/// `Monday to Friday`, or one by one.
fn plain_weekdays(set: u8) -> Vec<String> {
    let values: Vec<u32> = bits(u32::from(set)).collect();
    // The week is read from Monday, so that the weekend is a run too.
    let mut from_monday: Vec<u32> = values.iter().map(|day| (day + 6) % 7).collect();
    from_monday.sort_unstable();
    let name = |day: &u32| WEEKDAYS[((day + 1) % 7) as usize].to_string();
    let is_run = from_monday.len() > 2 && from_monday.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match (from_monday.first(), from_monday.last()) {
        (Some(first), Some(last)) if is_run => vec![format!("{} to {}", name(first), name(last))],
        _ => from_monday.iter().map(name).collect(),
    }
}

fn months(set: u64) -> Option<String> {
    let name = |month: u32| MONTHS[month as usize - 1].to_string();
    match shape(set, &fields::MONTH) {
        Shape::All => None,
        Shape::Run(first, last) => Some(format!("in {} to {}", name(first), name(last))),
        Shape::Every(_) | Shape::Some(_) => {
            Some(format!("in {}", list(values(set).into_iter().map(name).collect())))
        }
    }
}

fn years(years: Years) -> Option<String> {
    if years == Years::ALL {
        return None;
    }
    let mut from = 0;
    let values: Vec<u32> = std::iter::from_fn(|| {
        let year = years.first_from(from)?;
        from = year + 1;
        Some(year as u32)
    })
    .collect();
    let is_run = values.len() > 2 && values.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match values.as_slice() {
        [first, .., last] if is_run => Some(format!("in {first} to {last}")),
        _ => Some(format!("in {}", list(numbers(&values)))),
    }
}

fn values(set: u64) -> Vec<u32> {
    (0..64).filter(|bit| set >> bit & 1 == 1).collect()
}

fn numbers(values: &[u32]) -> Vec<String> {
    values.iter().map(u32::to_string).collect()
}

fn plural(values: &[u32]) -> &'static str {
    if values.len() == 1 { "" } else { "s" }
}

/// `a`, `a and b`, `a, b and c`; long lists are cut.
fn list(mut words: Vec<String>) -> String {
    if words.len() > MOST_VALUES {
        let more = words.len() - MOST_VALUES + 1;
        words.truncate(MOST_VALUES - 1);
        words.push(format!("{more} more"));
    }
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::*;

    fn check(text: &str, dialect: Dialect, expected: &str) {
        assert_eq!(describe(&Cron::parse(text, dialect, "").unwrap()), expected, "{text}");
    }

    #[test]
    fn unix_expressions_read_as_a_person_would_say_them() {
        for (text, expected) in [
            ("0 9 * * *", "at 09:00 every day"),
            ("0 9 * * 1-5", "at 09:00 on Monday to Friday"),
            ("30 8,17 * * SAT,SUN", "at 08:30 and 17:30 on Saturday and Sunday"),
            ("* * * * *", "every minute"),
            ("*/15 * * * *", "every 15 minutes"),
            ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:59 on Monday to Friday"),
            ("*/7 * * * *", "every 7 minutes counted from minute 0"),
            ("5 * * * *", "at minute 5 of every hour"),
            ("0,20,40 * * * *", "every 20 minutes"),
            ("0 */2 * * *", "at minute 0 of every 2nd hour"),
            ("* 3 * * *", "every minute of hour 3"),
            ("0 0 1 1 *", "at 00:00 on day 1 of the month in January"),
            ("0 0 1,15 * 5", "at 00:00 on days 1 and 15 of the month or on Friday"),
            ("0 0 */2 * 1", "at 00:00 on every 2nd day from day 1 of the month if that is Monday"),
            ("0 0 1-31 * 1", "at 00:00 every day"),
            ("0 0 15 * 0-6", "at 00:00 every day"),
            ("0 0 15 * *", "at 00:00 on day 15 of the month"),
            ("0 12 L * *", "at 12:00 on the last day of the month"),
            ("0 12 LW 6-8 *", "at 12:00 on the last working day of the month in June to August"),
            ("0 12 15W * *", "at 12:00 on the working day nearest to day 15 of the month"),
            ("0 12 * * 5#2", "at 12:00 on the 2nd Friday of the month"),
            ("0 12 * * 5L,1", "at 12:00 on Monday and the last Friday of the month"),
            ("@hourly", "at minute 0 of every hour"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("*/10 0-4 * * * *", "every 10 seconds of minutes 0 to 4 of every hour"),
            ("* * * * * *", "every second"),
            ("15 30 6 * * *", "at 06:30:15 every day"),
            ("0 0 9 1 1 * 2026", "at 09:00 on day 1 of the month in January in 2026"),
            ("0 0 9 * * * 2026-2030", "at 09:00 every day in 2026 to 2030"),
            ("0-29 * * * *", "at every minute from 0 to 29 of every hour"),
        ] {
            check(text, Dialect::Unix, expected);
        }
    }

    #[test]
    fn quartz_expressions_read_the_same() {
        for (text, expected) in [
            ("0 0 12 ? * MON-FRI", "at 12:00 on Monday to Friday"),
            ("0 0 12 L-3 * ?", "at 12:00 on the 3rd day before the last of the month"),
            ("0 0 12 ? * L", "at 12:00 on Saturday"),
            ("0 0 22-2 * * ?", "at 00:00, 01:00, 02:00, 22:00 and 23:00 every day"),
            ("0 0 12 ? * FRI-MON", "at 12:00 on Monday, Friday, Saturday and Sunday"),
        ] {
            check(text, Dialect::Quartz, expected);
        }
    }
}
