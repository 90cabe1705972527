//! The reports in hand, which settling takes in turn: one of each app, and within an app one of each executor. So a flood of
//! reports over one session delays neither other apps nor other executors of its own.

use std::collections::{BTreeMap, VecDeque};

use punctual_core::model::Text;

use crate::inbox::Received;
use crate::jobs::Known;
use crate::memory::Memory;

/// The app of reports whose run is not in memory.
const UNKNOWN: Text = Text::Borrowed("");

/// All reports in hand.
#[derive(Debug, Default)]
pub(crate) struct ReportQueue {
    /// By app, then by executor.
    apps: Rotation<Rotation<VecDeque<Received>>>,
    count: usize,
}

impl ReportQueue {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a report, in line with those of the same executor of this app.
    pub(crate) fn push(&mut self, app: Text, received: Received) {
        self.count += 1;
        let executor = received.report.executor.clone();
        self.apps.line(app).line(executor).push_back(received);
    }

    /// Gives back a report that was taken first of its line.
    pub(crate) fn put_back(&mut self, app: Text, received: Received) {
        self.count += 1;
        let executor = received.report.executor.clone();
        self.apps.line(app).line(executor).push_front(received);
    }

    /// Takes the next report.
    pub(crate) fn pop(&mut self) -> Option<Received> {
        let received = self.apps.pop()?;
        self.count -= 1;
        Some(received)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Received> {
        let executors = self.apps.lines.values().flat_map(|app| app.lines.values());
        executors.flatten()
    }
}

/// Something from which reports are taken.
trait ReportLine: Default {
    fn pop(&mut self) -> Option<Received>;
    fn is_empty(&self) -> bool;
}

impl ReportLine for VecDeque<Received> {
    fn pop(&mut self) -> Option<Received> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        VecDeque::is_empty(self)
    }
}

/// Lines that take turns. Empty lines are dropped.
#[derive(Debug, Default)]
struct Rotation<L> {
    lines: BTreeMap<Text, L>,
    turns: VecDeque<Text>,
}

impl<L: ReportLine> Rotation<L> {
    fn line(&mut self, name: Text) -> &mut L {
        if !self.lines.contains_key(&name) {
            self.turns.push_back(name.clone());
        }
        self.lines.entry(name).or_default()
    }
}

impl<L: ReportLine> ReportLine for Rotation<L> {
    fn pop(&mut self) -> Option<Received> {
        let name = self.turns.pop_front()?;
        let line = self.lines.get_mut(&name)?;
        let received = line.pop();
        if line.is_empty() {
            self.lines.remove(&name);
        } else {
            self.turns.push_back(name);
        }
        received
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl Memory {
    /// The app that a report is in line with: that of its session. A sender without a session was compared with the run's app
    /// when it reported.
    fn app_of_report(&self, received: &Received) -> Text {
        if let Some(app) = &received.report.app {
            return app.clone();
        }
        let run = self.loaded.runs.get(&received.report.run);
        match run.and_then(|run| self.jobs.get(run.job)) {
            Some(Known::Job(job)) => Text::Owned(job.definition.app.clone()),
            _ => UNKNOWN,
        }
    }

    /// Has a report settled after those of the same executor that came before.
    pub(crate) fn queue_report(&mut self, received: Received) {
        let app = self.app_of_report(&received);
        self.inbox.reports.push(app, received);
    }

    /// Has a report settled before the others of the same executor: it came first and could not be settled.
    pub(crate) fn put_report_back(&mut self, received: Received) {
        let app = self.app_of_report(&received);
        self.inbox.reports.put_back(app, received);
    }
}
