//! The logs of running attempts. Each log has a size limit, and so have all of them together. Where all of them are too long,
//! the app that holds most loses its oldest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::model::{Attempt, RunId, Text};
use punctual_node::ports::KeptLog;

/// How much of one log is kept.
const LOG_MAX: usize = 4 << 20;

/// How much of all logs together.
const ALL_MAX: usize = 64 << 20;

/// How long a line may be.
const LINE_MAX: usize = 16 << 10;

const CUT: &str = "[the log is longer than what is kept]\n";

/// What an empty log costs, in bytes.
const EMPTY: usize = 256;

/// What one attempt wrote.
struct Scroll {
    app: Text,
    text: String,
    /// Where each line ends, in bytes.
    ends: Vec<u32>,
    is_cut: bool,
    /// Whether its attempt has ended and the log was handed over to be kept.
    is_whole: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Scrolls {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    scrolls: BTreeMap<(RunId, Attempt), Scroll>,
    apps: BTreeMap<Text, AppLogs>,
    /// How long they are together.
    bytes: usize,
}

/// The logs of one app.
#[derive(Default)]
struct AppLogs {
    attempts: BTreeSet<(RunId, Attempt)>,
    bytes: usize,
}

impl Scrolls {
    /// Takes lines, and skips those that are there already.
    pub(super) fn write(&self, app: &Text, run: RunId, attempt: Attempt, from: u64, lines: &[String]) {
        let mut open = self.locked();
        let open = &mut *open;
        let scroll = open.scrolls.entry((run, attempt)).or_insert_with(|| {
            let logs = open.apps.entry(app.clone()).or_default();
            logs.attempts.insert((run, attempt));
            (logs.bytes, open.bytes) = (logs.bytes + EMPTY, open.bytes + EMPTY);
            Scroll::of(app.clone())
        });
        let before = scroll.size();
        let known = (scroll.ends.len() as u64 + 1).saturating_sub(from);
        for line in lines.iter().skip(usize::try_from(known).unwrap_or(usize::MAX)) {
            scroll.push(line);
        }
        let more = scroll.size() - before;
        open.bytes += more;
        if let Some(logs) = open.apps.get_mut(&scroll.app) {
            logs.bytes += more;
        }
        while open.bytes > ALL_MAX && open.evict() {}
    }

    /// The lines from a number on, and the number of the next.
    pub(super) fn read(&self, run: RunId, attempt: Attempt, from: u64) -> Option<(String, u64)> {
        let open = self.locked();
        let scroll = open.scrolls.get(&(run, attempt))?;
        let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX).min(scroll.ends.len());
        let start = skipped.checked_sub(1).map_or(0, |last| scroll.ends[last] as usize);
        Some((scroll.text[start..].to_owned(), scroll.ends.len() as u64 + 1))
    }

    /// The log of an attempt that has ended; handed out once. It stays readable until it is kept elsewhere.
    pub(super) fn whole(&self, run: RunId, attempt: Attempt) -> Option<KeptLog> {
        let mut open = self.locked();
        let scroll = open.scrolls.get_mut(&(run, attempt)).filter(|scroll| !scroll.is_whole)?;
        scroll.is_whole = true;
        let next_line = scroll.ends.len() as u64 + 1;
        Some(KeptLog { text: scroll.text.clone(), next_line, is_complete: true })
    }

    pub(super) fn forget(&self, run: RunId, attempt: Attempt) {
        self.locked().remove((run, attempt));
    }

    fn locked(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn remove(&mut self, attempt: (RunId, Attempt)) {
        let Some(scroll) = self.scrolls.remove(&attempt) else { return };
        self.bytes -= scroll.size();
        let Some(logs) = self.apps.get_mut(&scroll.app) else { return };
        logs.bytes -= scroll.size();
        logs.attempts.remove(&attempt);
        if logs.attempts.is_empty() {
            self.apps.remove(&scroll.app);
        }
    }

    /// Removes the oldest log of the app that holds most: most likely the end of its attempt was never reported. Returns
    /// whether there was one.
    fn evict(&mut self) -> bool {
        let greatest = self.apps.values().max_by_key(|logs| logs.bytes);
        let Some(oldest) = greatest.and_then(|logs| logs.attempts.first().copied()) else { return false };
        self.remove(oldest);
        true
    }
}

impl Scroll {
    fn of(app: Text) -> Scroll {
        Scroll { app, text: String::new(), ends: Vec::new(), is_cut: false, is_whole: false }
    }

    fn size(&self) -> usize {
        EMPTY + self.text.len() + self.ends.len() * size_of::<u32>()
    }

    fn push(&mut self, line: &str) {
        if self.is_cut || self.is_whole {
            return;
        }
        let line = &line[..line.floor_char_boundary(LINE_MAX)];
        if self.size() + line.len() > LOG_MAX {
            self.is_cut = true;
            self.text.push_str(CUT);
        } else {
            // A line is one line, whatever is in it.
            self.text.extend(line.chars().map(|c| if c == '\n' { ' ' } else { c }));
            self.text.push('\n');
        }
        self.ends.push(self.text.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: (RunId, Attempt) = (RunId(7), Attempt(1));
    const APP: Text = Text::Borrowed("app");

    fn lines(from: u64, to: u64) -> Vec<String> {
        (from..=to).map(|number| format!("line {number}")).collect()
    }

    #[test]
    fn lines_that_come_again_are_known() {
        let scrolls = Scrolls::default();
        scrolls.write(&APP, RUN.0, RUN.1, 1, &lines(1, 3));
        scrolls.write(&APP, RUN.0, RUN.1, 2, &lines(2, 5));
        assert_eq!(scrolls.read(RUN.0, RUN.1, 4), Some(("line 4\nline 5\n".into(), 6)));
        assert_eq!(scrolls.read(RUN.0, RUN.1, 9), Some((String::new(), 6)));
        let kept = scrolls.whole(RUN.0, RUN.1).unwrap();
        scrolls.forget(RUN.0, RUN.1);
        assert_eq!((kept.text.lines().count(), kept.next_line, kept.is_complete), (5, 6, true));
        assert_eq!(scrolls.read(RUN.0, RUN.1, 1), None);
    }

    #[test]
    fn a_log_without_end_is_cut_and_says_so() {
        let scrolls = Scrolls::default();
        let long = vec!["x".repeat(LINE_MAX + 9); 1_000];
        for round in 0..3 {
            scrolls.write(&APP, RUN.0, RUN.1, 1 + round * 1_000, &long);
        }
        let kept = scrolls.whole(RUN.0, RUN.1).unwrap();
        scrolls.forget(RUN.0, RUN.1);
        assert!(kept.text.len() <= LOG_MAX + CUT.len() && kept.text.ends_with(CUT));
        assert_eq!(scrolls.locked().bytes, 0);
    }

    #[test]
    fn logs_without_end_of_one_app_push_out_its_own_and_no_others() {
        let (scrolls, loud) = (Scrolls::default(), Text::Borrowed("loud"));
        scrolls.write(&APP, RUN.0, RUN.1, 1, &lines(1, 3));
        let long = vec!["x".repeat(LINE_MAX); 200];
        for run in 100..140 {
            scrolls.write(&loud, RunId(run), Attempt(1), 1, &long);
        }
        assert!(scrolls.read(RUN.0, RUN.1, 1).is_some(), "the calm app's log is the oldest, and stays");
        assert!(scrolls.read(RunId(100), Attempt(1), 1).is_none());
        assert!(scrolls.read(RunId(139), Attempt(1), 1).is_some());
        assert!(scrolls.locked().bytes <= ALL_MAX);
        for run in 0..140 {
            scrolls.forget(RunId(run), Attempt(1));
        }
        let open = scrolls.locked();
        assert_eq!((open.bytes, open.apps.len()), (0, 0));
    }
}
