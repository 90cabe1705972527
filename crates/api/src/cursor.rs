//! Cursors: where the next page begins, in a form that invites nobody to build one.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use punctual_protocol::FieldError;

use crate::problem::Problem;
use crate::query::Query;

/// The cursor of a list, named by a letter, that goes on at a number.
pub(crate) fn write(list: char, place: u64) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}{place}"))
}

/// Where to go on, if the request says.
pub(crate) fn read(list: char, query: &Query) -> Result<Option<u64>, Problem> {
    let Some(text) = query.text("cursor") else { return Ok(None) };
    let place = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| {
        let text = String::from_utf8(bytes).ok()?;
        let digits = text.strip_prefix(list)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    });
    let detail = "is none of this list; take next_cursor of the page before, or begin without one".into();
    let wrong = || Problem::parameters(vec![FieldError { pointer: "?cursor".into(), detail }]);
    place.map(Some).ok_or_else(wrong)
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
    }

    #[test]
    fn a_cursor_of_another_list_or_of_nobody_is_refused() {
        for text in [write('j', 17), "17".into(), "!!".into(), URL_SAFE_NO_PAD.encode("r-1"), String::new()] {
            assert_eq!(read('r', &query(&text)).unwrap_err().status.as_u16(), 400, "{text}");
        }
    }
}
