//! Aligned plain text: tables, and lists of names with their values.

use std::borrow::Cow;

use serde_json::Value;

/// No cell is cut shorter than this.
const NARROWEST: usize = 8;

/// Whether a column may be cut where the terminal is too narrow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Whole(&'static str),
    Cut(&'static str),
}

/// Rows under headings.
pub(crate) struct TextTable {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(crate) fn new(columns: &[Column]) -> TextTable {
        TextTable { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(N, self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells.iter().map(|cell| printable(cell).into_owned()).collect());
    }

    /// The table, no wider than `width` if that is possible without cutting what must stay whole.
    pub(crate) fn show(&self, width: Option<usize>) -> String {
        let widths = self.widths(width.unwrap_or(usize::MAX));
        let headings: Vec<String> = self.columns.iter().map(|column| column.heading().to_owned()).collect();
        let is_number: Vec<bool> = (0..widths.len()).map(|index| self.is_of_numbers(index)).collect();
        let lines = std::iter::once(&headings).chain(&self.rows);
        lines.map(|cells| line(cells, &widths, &is_number)).collect()
    }

    fn widths(&self, available: usize) -> Vec<usize> {
        let of_column = |index: usize| {
            let cells = self.rows.iter().map(move |row| length(&row[index]));
            cells.max().unwrap_or(0).max(length(self.columns[index].heading()))
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(of_column).collect();
        let gaps = 2 * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > available {
            let may_be_cut =
                |index: &usize| matches!(self.columns[*index], Column::Cut(_)) && widths[*index] > NARROWEST;
            let Some(widest) = (0..widths.len()).filter(may_be_cut).max_by_key(|index| widths[*index]) else {
                break;
            };
            widths[widest] -= 1;
        }
        widths
    }

    fn is_of_numbers(&self, index: usize) -> bool {
        let is_number = |cell: &str| cell.chars().all(|c| c.is_ascii_digit() || c == '-');
        self.rows.iter().all(|row| is_number(&row[index]))
    }
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Column::Whole(heading) | Column::Cut(heading) => heading,
        }
    }
}

fn line(cells: &[String], widths: &[usize], is_number: &[bool]) -> String {
    let mut line = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let cell = cut(cell, widths[index]);
        let blanks = " ".repeat(widths[index] - length(&cell));
        let gap = if index == 0 { "" } else { "  " };
        match is_number[index] {
            true => line.extend([gap, &blanks, &cell]),
            false => line.extend([gap, &cell, &blanks]),
        }
    }
    format!("{}\n", line.trim_end())
}

fn cut(cell: &str, width: usize) -> Cow<'_, str> {
    if length(cell) <= width {
        return Cow::Borrowed(cell);
    }
    Cow::Owned(cell.chars().take(width.saturating_sub(1)).chain(['…']).collect())
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Names and values below each other; names without a value are left out.
pub(crate) fn details(pairs: &[(&str, String)]) -> String {
    let told = pairs.iter().filter(|(_, value)| !value.is_empty());
    let width = told.clone().map(|(name, _)| length(name)).max().unwrap_or(0) + 2;
    told.map(|(name, value)| format!("{name:<width$}{}\n", printable(value))).collect()
}

/// Text that moves no cursor and changes no colour, wherever it comes from.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}

/// The value at a JSON pointer, for a cell: text as it is, nothing for null.
pub(crate) fn cell(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(values)) => {
            let one = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
            values.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Column::{Cut, Whole};

    fn table(rows: &[[&str; 3]]) -> TextTable {
        let mut table = TextTable::new(&[Whole("ID"), Cut("JOB"), Cut("REASON")]);
        rows.iter().for_each(|row| table.row(row.map(String::from)));
        table
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let shown = table(&[["7", "reports/nightly", ""], ["1234", "a/ü", "late"]]).show(None);
        let expected = "  ID  JOB              REASON\n   7  reports/nightly\n1234  a/ü              late\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_narrow_terminal_cuts_what_may_be_cut_widest_first() {
        let shown = table(&[["7", "reports/nightly-report", "the agent answered 500"]]).show(Some(30));
        assert!(shown.lines().all(|line| length(line) <= 30), "{shown}");
        assert!(shown.contains(" 7  reports/nig…  the agent a…"), "{shown}");
        let shown = table(&[["123456789", "reports/nightly", "late"]]).show(Some(5));
        assert!(shown.contains("123456789  reports…  late"), "{shown}");
    }

    #[test]
    fn texts_of_others_move_no_cursor() {
        let shown = table(&[["1", "a\u{1b}[31mb", "x\ny"]]).show(None);
        assert_eq!(shown.lines().count(), 2);
        assert!(!shown.contains('\u{1b}'));
    }

    #[test]
    fn details_leave_out_what_is_not_there() {
        let shown = details(&[("state", "failed".into()), ("key", String::new()), ("fire time", "x".into())]);
        assert_eq!(shown, "state      failed\nfire time  x\n");
    }

    #[test]
    fn a_cell_is_text_without_quotes() {
        let value = serde_json::json!({"a": "x", "b": null, "c": 5, "d": ["x", 1], "e": {"f": true}});
        let cells = ["/a", "/b", "/c", "/d", "/e/f", "/g"].map(|pointer| cell(&value, pointer));
        assert_eq!(cells, ["x", "", "5", "x, 1", "true", ""]);
    }
}
