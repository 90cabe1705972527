//! Which steps have become due by what happened elsewhere: their loops are told, and run them at once.

/// Steps that have become due by what happened elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one flag per step, each set and read on its own")]
pub struct Wakes {
    /// [`crate::Node::renew`].
    pub renew: bool,
    /// [`crate::Node::plan`].
    pub plan: bool,
    /// [`crate::Node::load`].
    pub load: bool,
    /// [`crate::Node::fire`].
    pub fire: bool,
    /// [`crate::Node::settle`].
    pub settle: bool,
    /// [`crate::Node::reap`].
    pub reap: bool,
    /// [`crate::Node::tend`].
    pub tend: bool,
    /// [`crate::Node::watch`].
    pub watch: bool,
}

impl Wakes {
    /// Every step.
    pub(crate) fn all() -> Wakes {
        Wakes {
            renew: true,
            plan: true,
            load: true,
            fire: true,
            settle: true,
            reap: true,
            tend: true,
            watch: true,
        }
    }
}
