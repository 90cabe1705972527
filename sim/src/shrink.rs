//! Shrinking: finds a smaller world with the same failure.
//!
//! Kinds of faults are switched off one after the other, then the world gets shorter, with fewer nodes and jobs, then
//! single faults and commands are left out by halves, quarters and so on (ddmin). A cut that still breaks the same promise
//! is kept. Because latencies and executors are addressed by name and not drawn, leaving something out changes little else.

use crate::check::Violation;
use crate::faults::FaultKind;
use crate::link::Micros;
use crate::setup::{Cut, WorldSetup};
use crate::sweep::run;

/// The most worlds that are tried.
const TRIES_MAX: u32 = 400;

/// A shrunk world.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The parts that are left out.
    pub cut: Cut,
    /// The failure that remains.
    pub violation: Violation,
    /// Number of worlds that were tried.
    pub tries: u32,
    /// Number of faults and commands that are left.
    pub left: (usize, usize),
}

struct Shrinker<'a> {
    make: &'a dyn Fn() -> WorldSetup,
    rule: &'static str,
    cut: Cut,
    violation: Violation,
    failed_at: Micros,
    tries: u32,
}

/// Makes a world small that breaks a promise; nothing if it does not.
pub fn shrink(make: &dyn Fn() -> WorldSetup) -> Option<Shrunk> {
    let (failed_at, violation) = run(make()).violation?;
    let rule = violation.rule;
    let mut shrinker = Shrinker { make, rule, cut: Cut::default(), violation, failed_at, tries: 1 };
    shrinker.shorten();
    shrinker.switch_off();
    shrinker.fewer();
    shrinker.shorten();
    shrinker.leave_out_faults();
    shrinker.leave_out_commands();
    shrinker.shorten();
    shrinker.fewer();
    let small = make().cut(&shrinker.cut);
    let creations =
        small.commands.iter().filter(|command| command.ask == crate::workload::ClientRequest::Create).count();
    let left = (small.faults.len(), small.commands.len() - creations);
    Some(Shrunk { cut: shrinker.cut, violation: shrinker.violation, tries: shrinker.tries, left })
}

impl Shrinker<'_> {
    /// Keeps a cut if the world still fails in the same way.
    fn keep(&mut self, cut: Cut) -> bool {
        if self.tries >= TRIES_MAX || cut == self.cut {
            return false;
        }
        self.tries += 1;
        match run((self.make)().cut(&cut)).violation {
            Some((at, violation)) if violation.rule == self.rule => {
                self.cut = cut;
                self.violation = violation;
                self.failed_at = at;
                true
            }
            _ => false,
        }
    }

    fn shorten(&mut self) {
        let whole = (self.make)().cut(&self.cut).length;
        // A failure before the end does not need what comes after it.
        if 0 < self.failed_at && self.failed_at < whole {
            self.keep(Cut { length: Some(self.failed_at + 1), ..self.cut.clone() });
            return;
        }
        let (mut good, mut bad) = (0, whole);
        while bad - good > 30_000_000 && self.tries < TRIES_MAX {
            let middle = good + (bad - good) / 2;
            if self.keep(Cut { length: Some(middle), ..self.cut.clone() }) {
                bad = middle;
            } else {
                good = middle;
            }
        }
    }

    fn switch_off(&mut self) {
        for kind in FaultKind::ALL {
            if (self.make)().cut(&self.cut).faults.iter().any(|fault| fault.kind == kind) {
                let mut cut = self.cut.clone();
                cut.without.push(kind);
                self.keep(cut);
            }
        }
    }

    fn fewer(&mut self) {
        let nodes = (self.make)().cut(&self.cut).nodes;
        for nodes in 1..nodes {
            if self.keep(Cut { nodes: Some(nodes), ..self.cut.clone() }) {
                break;
            }
        }
        let all = (self.make)().jobs.len();
        let (mut good, mut bad) = (0, self.cut.jobs.unwrap_or(all));
        while bad - good > 1 && self.tries < TRIES_MAX {
            let middle = good + (bad - good) / 2;
            if self.keep(Cut { jobs: Some(middle), ..self.cut.clone() }) {
                bad = middle;
            } else {
                good = middle;
            }
        }
    }

    fn leave_out_faults(&mut self) {
        let setup = (self.make)();
        let is_left = |index: &usize| {
            let fault = &setup.faults[*index];
            !self.cut.without.contains(&fault.kind) && self.cut.length.is_none_or(|length| fault.at < length)
        };
        let all = (0..setup.faults.len()).filter(is_left).collect();
        self.ddmin(all, &|cut, kept| cut.faults = Some(kept));
    }

    fn leave_out_commands(&mut self) {
        let setup = (self.make)();
        let is_left = |index: &usize| {
            let command = &setup.commands[*index];
            self.cut.jobs.is_none_or(|jobs| command.job < jobs)
                && self.cut.length.is_none_or(|length| command.at < length)
                && command.ask != crate::workload::ClientRequest::Create
        };
        let all = (0..setup.commands.len()).filter(is_left).collect();
        self.ddmin(all, &|cut, kept| cut.commands = Some(kept));
    }

    /// Leaves out parts of a list, finer and finer.
    fn ddmin(&mut self, mut kept: Vec<usize>, put: &dyn Fn(&mut Cut, Vec<usize>)) {
        let with = |cut: &Cut, kept: Vec<usize>| {
            let mut cut = cut.clone();
            put(&mut cut, kept);
            cut
        };
        if self.keep(with(&self.cut, Vec::new())) {
            return;
        }
        let mut parts = 2;
        while kept.len() > 1 && self.tries < TRIES_MAX {
            let size = kept.len().div_ceil(parts);
            let smaller = (0..kept.len()).step_by(size).find_map(|start| {
                let rest: Vec<usize> = kept
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| !(start..start + size).contains(at))
                    .map(|(_, one)| *one)
                    .collect();
                self.keep(with(&self.cut, rest.clone())).then_some(rest)
            });
            match smaller {
                Some(rest) => {
                    kept = rest;
                    parts = 2.max(parts - 1);
                }
                None if size == 1 => break,
                None => parts = (parts * 2).min(kept.len()),
            }
        }
    }
}

/// The options that replay a cut.
pub fn options(cut: &Cut) -> String {
    let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut words = Vec::new();
    if let Some(length) = cut.length {
        words.push(format!("--length-us {length}"));
    }
    if let Some(nodes) = cut.nodes {
        words.push(format!("--nodes {nodes}"));
    }
    if let Some(jobs) = cut.jobs {
        words.push(format!("--jobs {jobs}"));
    }
    if !cut.without.is_empty() {
        let names: Vec<String> = cut.without.iter().map(|kind| kind.name()).collect();
        words.push(format!("--without {}", names.join(",")));
    }
    if let Some(faults) = &cut.faults {
        words.push(format!("--faults {}", if faults.is_empty() { "none".to_owned() } else { list(faults) }));
    }
    if let Some(commands) = &cut.commands {
        words.push(format!(
            "--commands {}",
            if commands.is_empty() { "none".to_owned() } else { list(commands) }
        ));
    }
    words.join(" ")
}
