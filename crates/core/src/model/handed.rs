//! What a run gets from the run whose end brought it about, as JSON.

use std::fmt::Write as _;

use super::{Job, Payload, RunId};

/// More of a result is not handed on.
const RESULT_MAX: usize = 64 << 10;

/// What a child brings: which run of which job ended, and what it said.
pub fn handed_on(run: RunId, job: &Job, result: &str) -> Payload {
    let name = format!("{}/{}", job.definition.app, job.definition.name);
    let end = result.floor_char_boundary(RESULT_MAX);
    let (name, result) = (quoted(&name), quoted(&result[..end]));
    format!("{{\"parent\":{{\"run\":{run},\"job\":{name},\"result\":{result}}}}}").into()
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter < ' ' => drop(write!(quoted, "\\u{:04x}", letter as u32)),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_end_a_string_is_escaped() {
        assert_eq!(quoted("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\u000a\\u0001é\"");
    }
}
