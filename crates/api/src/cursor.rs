//! Cursors: where the next page begins, in an opaque form that clients do not build themselves.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_protocol::FieldError;

use crate::problem::Problem;
use crate::query::Query;

/// The cursor of a list, named by a letter, that goes on at a number.
pub(crate) fn write(list: char, place: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}{place}"))
}

/// The cursor of a list that goes on at two numbers.
pub(crate) fn write_pair(list: char, first: i64, second: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}{first},{second}"))
}

/// Where to go on, if the request has a cursor.
pub(crate) fn read(list: char, query: &Query) -> Result<Option<u64>, Problem> {
    read_as(list, query, |text| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?)
}

/// Where to go on in a list that goes on at two numbers.
pub(crate) fn read_pair(list: char, query: &Query) -> Result<Option<(i64, u64)>, Problem> {
    read_as(list, query, |text| {
        let (first, second) = text.split_once(',')?;
        let is_plain = !text.contains('+');
        Some((first.parse().ok()?, second.parse().ok()?)).filter(|_| is_plain)
    })
}

fn read_as<T>(list: char, query: &Query, place: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
    let Some(text) = query.text("cursor") else { return Ok(None) };
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let found = decoded.as_deref().and_then(|text| text.strip_prefix(list)).and_then(place);
    let detail = "is none of this list; take next_cursor of the page before, or begin without one".into();
    let wrong = || Problem::parameters(vec![FieldError { pointer: "?cursor".into(), detail }]);
    found.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::CURSOR;

    fn query(text: &str) -> Query {
        Query::read(&format!("/x?cursor={text}").parse().unwrap(), &[CURSOR]).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read('j', &query(&write('j', 17))).unwrap(), Some(17));
        assert_eq!(read('r', &query(&write('r', u64::MAX))).unwrap(), Some(u64::MAX));
        assert_eq!(read_pair('n', &query(&write_pair('n', -5, 7))).unwrap(), Some((-5, 7)));
        assert!(read_pair('n', &query(&write('n', 5))).is_err());
    }

    #[test]
    fn a_cursor_of_another_list_or_of_nobody_is_refused() {
        for text in [write('j', 17), "17".into(), "!!".into(), URL_SAFE_NO_PAD.encode("r-1"), String::new()] {
            assert_eq!(read('r', &query(&text)).unwrap_err().status.as_u16(), 400, "{text}");
        }
    }
}
