//! One measured figure: a line of a table for people, a line of JSON for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::database::{DatabaseKind, ServerCounts};

/// The figures of one case of a scenario. Fields that do not apply are left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    /// The scenario.
    pub scenario: &'static str,
    /// The database, for scenarios that take one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub database: &'static str,
    /// The case of the scenario.
    pub case: String,
    /// Number of rows, runs or timers.
    pub count: u64,
    /// The rate a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The unit of the rate.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub unit: &'static str,
    /// The bare limit: the rate without Punctual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_rate: Option<f64>,
    /// The rate divided by the bare limit; above 1, Punctual is faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_bare: Option<f64>,
    /// Median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// Resident memory of the process at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// CPU time of all threads, without the bare loops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Runs missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Runs that arrived more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubled: Option<u64>,
    /// Further figures of the scenario.
    #[serde(flatten)]
    pub more: BTreeMap<&'static str, f64>,
}

impl Figure {
    pub(crate) fn new(scenario: &'static str, case: impl Into<String>, count: u64) -> Figure {
        Figure { scenario, case: case.into(), count, ..Figure::default() }
    }

    /// Sets the rate from the time that all of them took.
    pub(crate) fn took(self, unit: &'static str, took: Duration) -> Figure {
        let rate = Some(per_second(self.count, took));
        Figure { rate, unit, ..self }
    }

    /// Sets the bare limit from the time that it took for the same number.
    pub(crate) fn beside(self, bare: Duration) -> Figure {
        let rate = per_second(self.count, bare);
        let ratio = self.rate.map(|ours| ours / rate);
        Figure { bare_rate: Some(rate), ratio_to_bare: ratio, ..self }
    }

    /// Sets the percentiles from the durations of single steps.
    pub(crate) fn steps(self, mut took: Vec<Duration>) -> Figure {
        took.sort_unstable();
        let at = |permille: usize| {
            let index = (took.len() * permille).div_ceil(1_000).saturating_sub(1);
            took.get(index).map(|took| took.as_secs_f64() * 1_000.0)
        };
        Figure { p50_ms: at(500), p99_ms: at(990), max_ms: at(1_000), ..self }
    }

    /// Sets the database.
    pub(crate) fn on(self, kind: DatabaseKind) -> Figure {
        Figure { database: kind.name(), ..self }
    }

    /// Adds the server's counters for each run.
    pub(crate) fn counted(self, counts: ServerCounts) -> Figure {
        let told = [
            ("statements_per_run", counts.statements),
            ("rows_read_per_run", counts.rows_read),
            ("commits_per_run", counts.commits),
            ("log_bytes_per_run", counts.log_bytes),
        ];
        let told = told.into_iter().filter_map(|(name, count)| Some((name, count?)));
        told.fold(self, |figure, (name, count)| figure.with(name, count))
    }

    pub(crate) fn cpu(self, seconds: f64) -> Figure {
        Figure { cpu_s: Some(seconds), ..self }
    }

    pub(crate) fn resident(self, bytes: u64) -> Figure {
        Figure { rss_bytes: Some(bytes), ..self }
    }

    pub(crate) fn whole(self, lost: u64, doubled: u64) -> Figure {
        Figure { lost: Some(lost), doubled: Some(doubled), ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Figure {
        self.more.insert(name, value);
        self
    }

    /// Whether nothing was lost, doubled or out of order.
    pub fn is_right(&self) -> bool {
        let is_none = |count: &u64| *count == 0;
        let is_quiet = |name: &&str| self.more.get(*name).is_none_or(|count| *count == 0.0);
        self.lost.iter().chain(&self.doubled).all(is_none)
            && ["out_of_order", "store_failures", "shut_out", "past_bounds"].iter().all(is_quiet)
    }

    /// One object in one line.
    pub fn to_json(&self) -> String {
        let mut rounded = self.clone();
        let numbers = [
            &mut rounded.rate,
            &mut rounded.bare_rate,
            &mut rounded.ratio_to_bare,
            &mut rounded.p50_ms,
            &mut rounded.p99_ms,
            &mut rounded.max_ms,
            &mut rounded.cpu_s,
        ];
        for number in numbers.into_iter().flatten().chain(rounded.more.values_mut()) {
            *number = (*number * 1_000.0).round() / 1_000.0;
        }
        serde_json::to_string(&rounded).expect("numbers and texts")
    }

    /// The heading of the table.
    pub fn heading() -> String {
        format!(
            "{:<11} {:<10} {:<32} {:>9} {:>11} {:<13} {:>11} {:>6} {:>9} {:>9} {:>9} {:>8} {:>7}",
            "scenario",
            "on",
            "case",
            "count",
            "rate/s",
            "of",
            "bare/s",
            "ratio",
            "p50 ms",
            "p99 ms",
            "max ms",
            "RSS MB",
            "CPU s",
        )
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |number: Option<f64>, digits: usize| {
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
        };
        write!(
            f,
            "{:<11} {:<10} {:<32} {:>9} {:>11} {:<13} {:>11} {:>6} {:>9} {:>9} {:>9} {:>8} {:>7}",
            self.scenario,
            self.database,
            self.case,
            self.count,
            shown(self.rate, 0),
            self.unit,
            shown(self.bare_rate, 0),
            shown(self.ratio_to_bare, 2),
            shown(self.p50_ms, 2),
            shown(self.p99_ms, 2),
            shown(self.max_ms, 2),
            shown(self.rss_bytes.map(|bytes| bytes as f64 / 1e6), 0),
            shown(self.cpu_s, 2),
        )?;
        for (name, count) in [("lost", self.lost), ("doubled", self.doubled)] {
            if let Some(count) = count {
                write!(f, " {name}={count}")?;
            }
        }
        for (name, value) in &self.more {
            let digits = if value.fract() == 0.0 {
                0
            } else if value.abs() < 1.0 {
                4
            } else {
                2
            };
            write!(f, " {name}={value:.digits$}")?;
        }
        Ok(())
    }
}

fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(millis: impl Iterator<Item = u64>) -> [Option<f64>; 3] {
        let figure = Figure::new("test", "", 1).steps(millis.map(Duration::from_millis).collect());
        [figure.p50_ms, figure.p99_ms, figure.max_ms]
    }

    #[test]
    fn so_many_in_a_hundred_took_at_most_so_long() {
        assert_eq!(steps((1..=1_000).rev()), [Some(500.0), Some(990.0), Some(1_000.0)]);
        assert_eq!(steps(7..=7), [Some(7.0); 3]);
        assert_eq!(steps(0..0), [None; 3]);
    }

    #[test]
    fn above_1_we_are_faster_than_the_bare_limit() {
        let figure =
            Figure::new("test", "", 10).took("rows", Duration::from_secs(1)).beside(Duration::from_secs(2));
        assert_eq!((figure.rate, figure.bare_rate, figure.ratio_to_bare), (Some(10.0), Some(5.0), Some(2.0)));
    }

    #[test]
    fn a_figure_that_lost_doubled_or_disordered_something_is_not_right() {
        let figure = || Figure::new("test", "", 1);
        assert!(figure().whole(0, 0).with("out_of_order", 0.0).is_right());
        for wrong in [figure().whole(1, 0), figure().whole(0, 1), figure().with("out_of_order", 1.0)] {
            assert!(!wrong.is_right(), "{wrong}");
        }
    }
}
