//! One bell for each step. The program that runs the loops decides what a bell is; this module knows which are to be
//! rung.

use crate::Wakes;

/// Something that wakes each step.
#[derive(Debug, Default)]
pub struct Bells<B> {
    /// Of [`crate::Node::renew`].
    pub renew: B,
    /// Of [`crate::Node::plan`].
    pub plan: B,
    /// Of [`crate::Node::load`].
    pub load: B,
    /// Of [`crate::Node::fire`].
    pub fire: B,
    /// Of [`crate::Node::settle`].
    pub settle: B,
    /// Of [`crate::Node::reap`].
    pub reap: B,
    /// Of [`crate::Node::tend`].
    pub tend: B,
    /// Of [`crate::Node::watch`].
    pub watch: B,
}

impl<B> Bells<B> {
    /// Those of the steps that have become due.
    pub fn due(&self, wakes: Wakes) -> impl Iterator<Item = &B> {
        let bells = [
            (wakes.renew, &self.renew),
            (wakes.plan, &self.plan),
            (wakes.load, &self.load),
            (wakes.fire, &self.fire),
            (wakes.settle, &self.settle),
            (wakes.reap, &self.reap),
            (wakes.tend, &self.tend),
            (wakes.watch, &self.watch),
        ];
        bells.into_iter().filter_map(|(is_due, bell)| is_due.then_some(bell))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_are_due_are_rung() {
        let bells = Bells {
            renew: "renew",
            plan: "plan",
            load: "load",
            fire: "fire",
            settle: "settle",
            reap: "reap",
            tend: "tend",
            watch: "watch",
        };
        let wakes = Wakes { plan: true, settle: true, tend: true, ..Wakes::default() };
        assert_eq!(bells.due(wakes).copied().collect::<Vec<_>>(), ["plan", "settle", "tend"]);
        assert_eq!(bells.due(Wakes::default()).count(), 0);
    }
}
