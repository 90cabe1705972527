//! Classes: which kind of work goes first.
//!
//! Classes are ordered, and inside a class runs go by priority and due time. Waiting makes up for both: each
//! [`AGEING`] that a run has waited longer than another counts as one step of priority, and [`STEPS`] steps are a
//! class. So a flood of urgent work delays the rest, and never keeps it from running. The order of two waiting runs does
//! not change while they wait, so it can be kept in ordered sets.

use std::time::Duration;

use crate::model::Text;

/// How long a run has to wait to make up for one step of priority.
pub const AGEING: Duration = Duration::from_secs(30);

/// How many steps of priority a class is worth: as many as there are priorities.
pub const STEPS: i64 = 10;

/// How many classes a node may have.
pub const CLASSES_MAX: usize = 32;

/// How the unnamed class is written where classes are listed.
pub const UNNAMED: &str = "unnamed";

/// The place of a class in the order: 0 goes first.
pub type ClassOrdinal = u8;

/// The classes in their order, and how many runs of each may be under way on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    names: Vec<Text>,
    limits: Vec<Option<u32>>,
}

impl Default for Classes {
    fn default() -> Classes {
        let names: Vec<Text> = ["output", "source", UNNAMED, "query"].map(Text::Borrowed).to_vec();
        let limits = vec![None; names.len()];
        Classes { names, limits }
    }
}

impl Classes {
    /// The classes, first to last, or what is wrong with them. The unnamed class has to be among them.
    pub fn new(names: Vec<Text>) -> Result<Classes, String> {
        if names.len() > CLASSES_MAX {
            return Err(format!("{} classes: at most {CLASSES_MAX}", names.len()));
        }
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(format!("{:?} is listed twice", twice.1));
        }
        if let Some(wrong) = names.iter().find(|name| name.is_empty() || name.trim() != &***name) {
            return Err(format!("{wrong:?}: expected a name without blanks at its ends"));
        }
        if !names.iter().any(|name| name == UNNAMED) {
            return Err(format!("{UNNAMED:?} is missing: it stands for jobs without a class"));
        }
        let limits = vec![None; names.len()];
        Ok(Classes { names, limits })
    }

    /// Bounds how many runs of a class may be under way; whether there is such a class.
    pub fn limit(&mut self, class: &str, runs: u32) -> bool {
        let Some(at) = self.names.iter().position(|name| name == class) else { return false };
        self.limits[at] = Some(runs);
        true
    }

    /// Whether a job may have this class.
    pub fn has(&self, class: &str) -> bool {
        class != UNNAMED && self.names.iter().any(|name| name == class)
    }

    /// The names, first to last, for people.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.names.iter()
    }

    /// The place of a job's class. A class that the node does not know (any more) goes with the unnamed one.
    pub fn ordinal(&self, class: Option<&str>) -> ClassOrdinal {
        let at = |wanted: &str| self.names.iter().position(|name| name == wanted);
        let named = class.filter(|class| *class != UNNAMED).and_then(at);
        named.or_else(|| at(UNNAMED)).unwrap_or(0) as ClassOrdinal
    }

    /// How many runs of a class may be under way; none without a bound.
    pub fn limit_of(&self, class: ClassOrdinal) -> Option<u32> {
        self.limits.get(usize::from(class)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(names: &[&'static str]) -> Result<Classes, String> {
        Classes::new(names.iter().map(|name| Text::Borrowed(name)).collect())
    }

    #[test]
    fn outputs_go_first_then_sources_then_the_unnamed_and_queries_last() {
        let classes = Classes::default();
        let order = [Some("output"), Some("source"), None, Some("query")].map(|class| classes.ordinal(class));
        assert_eq!(order, [0, 1, 2, 3]);
        assert_eq!(classes.ordinal(Some("gone")), 2, "an unknown class goes with the unnamed one");
        assert!(classes.has("query") && !classes.has("gone") && !classes.has(UNNAMED));
    }

    #[test]
    fn an_order_that_leaves_out_or_repeats_a_class_is_refused() {
        for wrong in [&["a"][..], &["a", "unnamed", "a"], &["", "unnamed"], &[" a", "unnamed"]] {
            assert!(classes(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(classes(&["unnamed", "bulk"]).unwrap().ordinal(Some("bulk")), 1);
    }

    #[test]
    fn a_limit_is_set_for_a_class_that_exists() {
        let mut classes = Classes::default();
        assert!(classes.limit("query", 3) && classes.limit(UNNAMED, 9) && !classes.limit("gone", 1));
        assert_eq!((classes.limit_of(3), classes.limit_of(2), classes.limit_of(0)), (Some(3), Some(9), None));
    }
}
