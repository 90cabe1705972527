//! `/log`: one page of an attempt's log.

use serde_json::Value;

use super::{Reply, value};

/// Some lines of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The first of them, from 1.
    pub from_line: u64,
    /// The last of them; the one before the first if there are none.
    pub to_line: u64,
    /// The lines.
    pub content: String,
    /// Whether the executor says that no more will come. Most never do.
    pub is_end: bool,
}

impl LogPage {
    /// The page in the answer to a request for the lines from `asked` on.
    pub fn of(reply: &Reply, asked: u64) -> Result<LogPage, String> {
        if !reply.is_ok() {
            return Err(format!("code {}: {}", reply.code, reply.message));
        }
        let page = &reply.payload;
        let content = match page {
            Value::String(content) => content.as_str().into(),
            page => value::text(value::first(page, &["logContent"])),
        };
        let content = value::bounded(&content, usize::MAX);
        let number = |name| u64::try_from(page.get(name).and_then(value::integer)?).ok();
        let from_line = number("fromLineNum").unwrap_or(asked);
        let to_line = number("toLineNum").unwrap_or_else(|| last_line(from_line, &content));
        let is_end = value::first(page, &["isEnd", "end"]).as_bool().unwrap_or(false);
        Ok(LogPage { from_line, to_line, content, is_end })
    }

    /// The complete lines at the beginning of an answer that is too long to be read to its end. Executors send the whole log
    /// at once, so a long one can only be read like this, page by page.
    pub fn of_beginning(body: &[u8], asked: u64) -> Option<LogPage> {
        const NAME: &[u8] = br#""logContent""#;
        let start = body.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
        let rest = body[start..].trim_ascii_start().strip_prefix(b":")?;
        let content = beginning_of_text(rest.trim_ascii_start().strip_prefix(b"\"")?);
        let content = &content[..=content.rfind('\n')?];
        let content = value::bounded(content, usize::MAX);
        Some(LogPage { from_line: asked, to_line: last_line(asked, &content), content, is_end: false })
    }
}

fn last_line(from_line: u64, content: &str) -> u64 {
    from_line.saturating_add(content.lines().count() as u64).saturating_sub(1)
}

/// The readable beginning of a JSON text.
fn beginning_of_text(json: &[u8]) -> String {
    let mut end = 0;
    while end < json.len() && json[end] != b'"' {
        let step = if json[end] == b'\\' { escape_length(&json[end..]) } else { 1 };
        if end + step > json.len() {
            break;
        }
        end += step;
    }
    let whole = String::from_utf8_lossy(&json[..end]);
    // A character or pair of escapes that the cut split is behind the last complete line.
    let line = whole.rfind("\\n").map_or("", |newline| &whole[..newline + 2]);
    serde_json::from_str(&format!("\"{line}\"")).unwrap_or_default()
}

fn escape_length(json: &[u8]) -> usize {
    if json.get(1) == Some(&b'u') { 6 } else { 2 }
}
