//! Breadth-first search: every reachable state once, the shortest way to a broken invariant, and liveness.

use std::fmt::Write as _;
use std::hash::BuildHasher as _;

use rustc_hash::FxBuildHasher;

use super::action::Action;
use super::rules::{Broken, Model};
use super::state::State;

/// More steps than a healthy cluster ever needs to finish.
const STEPS_MAX: usize = 200;

const EMPTY: u32 = u32::MAX;

pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) depth: usize,
    pub(crate) violation: Option<Violation>,
}

pub(crate) struct Violation {
    pub(crate) broken: Broken,
    pub(crate) trace: Vec<Action>,
}

/// Looks at every state that can be reached, until one step breaks an invariant.
pub(crate) fn explore(model: &Model) -> Found {
    let mut seen = Seen::default();
    seen.insert(State::new(model.faults).canonical(), EMPTY);
    let mut possible = Vec::new();
    let mut trace = Vec::new();
    let (mut at, mut steps) = (0, 0);
    while at < seen.states.len() {
        let state = seen.states[at];
        model.possible(&state, &mut possible);
        for action in possible.iter().copied() {
            trace.clear();
            let next = run_on(model, &state, action, &mut trace);
            steps += trace.len();
            match next {
                Ok(next) => seen.insert(next.canonical(), at as u32),
                Err(broken) => return seen.found(steps, model, Some((at, broken))),
            }
        }
        at += 1;
    }
    let stuck = find_stuck(model, &seen);
    let broken = "a healthy cluster closes every due fire time and answers every change";
    seen.found(steps, model, stuck.map(|at| (at, broken)))
}

/// Takes the step, and the ones after it to which there is no alternative; those it does not remember, which
/// makes the search small. With a planted bug it counts every step, because the trace is to be the shortest.
fn run_on(model: &Model, state: &State, action: Action, trace: &mut Vec<Action>) -> Result<State, Broken> {
    trace.push(action);
    let mut state = model.step(state, action)?;
    while model.mutation.is_none()
        && state.faults_left == 0
        && let Some(only) = model.only_step(&state)
    {
        trace.push(only);
        state = model.step(&state, only)?;
    }
    Ok(state)
}

/// A state from which the healthy steps do not come to the end.
fn find_stuck(model: &Model, seen: &Seen) -> Option<usize> {
    let unbounded = Model { epochs: u8::MAX, sights: Default::default(), ..*model };
    let mut finishes = vec![false; seen.states.len()];
    let mut possible = Vec::new();
    let mut path = Vec::new();
    for start in 0..seen.states.len() {
        path.clear();
        let mut state = seen.states[start];
        for _ in 0..STEPS_MAX {
            let known = seen.find(&state).map(|at| at as usize);
            if state.is_finished() || known.is_some_and(|at| finishes[at]) {
                path.extend(known);
                path.iter().for_each(|at| finishes[*at] = true);
                break;
            }
            path.extend(known);
            unbounded.possible(&state, &mut possible);
            let step = unbounded.healthy_step(&state, &possible).expect("time can always pass");
            state = unbounded.step(&state, step).expect("healthy steps break nothing").canonical();
        }
        if !finishes[start] {
            return Some(start);
        }
    }
    None
}

/// The states in the order of their discovery, each with the one it was found from.
#[derive(Default)]
struct Seen {
    states: Vec<State>,
    parents: Vec<u32>,
    /// Open addressing over positions in `states`, each with some bits of its hash, so that a state is looked at
    /// only when it is probably the same.
    table: Vec<(u32, u32)>,
}

impl Seen {
    fn insert(&mut self, state: State, parent: u32) {
        if self.states.len() * 2 >= self.table.len() {
            self.grow();
        }
        let (slot, tag) = self.slot(&state);
        if self.table[slot].1 == EMPTY {
            self.table[slot] = (tag, self.states.len() as u32);
            self.states.push(state);
            self.parents.push(parent);
        }
    }

    fn find(&self, state: &State) -> Option<u32> {
        let (slot, _) = self.slot(state);
        Some(self.table[slot].1).filter(|at| *at != EMPTY)
    }

    /// Where the state is, or where it belongs.
    fn slot(&self, state: &State) -> (usize, u32) {
        let mask = self.table.len() - 1;
        let hash = FxBuildHasher.hash_one(state);
        let tag = (hash >> 32) as u32;
        let is_other =
            |(other, at): (u32, u32)| at != EMPTY && (other != tag || self.states[at as usize] != *state);
        let mut slot = hash as usize & mask;
        while is_other(self.table[slot]) {
            slot = (slot + 1) & mask;
        }
        (slot, tag)
    }

    fn grow(&mut self) {
        self.table = vec![(0, EMPTY); (self.table.len() * 2).max(1 << 12)];
        for at in 0..self.states.len() {
            let (slot, tag) = self.slot(&self.states[at]);
            self.table[slot] = (tag, at as u32);
        }
    }

    fn found(&self, steps: usize, model: &Model, end: Option<(usize, Broken)>) -> Found {
        let way = |at: usize| {
            let parents = std::iter::successors(Some(at), |at| {
                Some(self.parents[*at] as usize).filter(|at| *at != EMPTY as usize)
            });
            let mut way: Vec<usize> = parents.collect();
            way.reverse();
            way
        };
        let depth = way(self.states.len() - 1).len() - 1;
        let mut possible = Vec::new();
        let violation = end.map(|(at, broken)| {
            let (mut trace, state) = self.replay(model, &way(at));
            model.possible(&state, &mut possible);
            let last = possible.iter().find_map(|action| {
                let mut steps = Vec::new();
                (run_on(model, &state, *action, &mut steps) == Err(broken)).then_some(steps)
            });
            trace.extend(last.into_iter().flatten());
            Violation { broken, trace }
        });
        Found { states: self.states.len(), steps, depth, violation }
    }

    /// The steps along the way, with nodes that keep their names.
    fn replay(&self, model: &Model, way: &[usize]) -> (Vec<Action>, State) {
        let mut state = self.states[way[0]];
        let mut possible = Vec::new();
        let mut trace = Vec::new();
        for to in &way[1..] {
            model.possible(&state, &mut possible);
            let taken = possible.iter().find_map(|action| {
                let mut steps = Vec::new();
                let next = run_on(model, &state, *action, &mut steps).ok()?;
                (next.canonical() == self.states[*to]).then_some((next, steps))
            });
            let (next, steps) = taken.expect("the state was found by a step");
            state = next;
            trace.extend(steps);
        }
        (trace, state)
    }
}

impl Violation {
    pub(crate) fn story(&self) -> String {
        let mut story = format!("broken: {}\n", self.broken);
        for (number, action) in self.trace.iter().enumerate() {
            let _ = writeln!(story, "  {:2}. {action:?}", number + 1);
        }
        story
    }
}
