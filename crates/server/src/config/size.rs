//! Sizes as people write them: `64KiB`, `1MiB`, `1000000`.

use toml::Value;

const UNITS: [(&str, i64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// A number of bytes.
pub(super) fn parse(value: &Value, least: usize, most: usize) -> Result<usize, String> {
    let bytes = match value {
        Value::Integer(bytes) => Some(*bytes),
        Value::String(text) => UNITS.iter().find_map(|(unit, bytes)| {
            text.strip_suffix(unit)?.trim().parse::<i64>().ok()?.checked_mul(*bytes)
        }),
        _ => None,
    };
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| format!("{value} is no size; write it like 64KiB or 1MiB"))?;
    if (least..=most).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("{value}: at least {least} and at most {most} bytes"))
    }
}
