//! The instants at which a job will run next, with its windows applied.

use std::time::Duration;

use calendar::{ExclusionVerdict as Verdict, Exclusions, Rule, Timestamp};

/// How many steps a search takes at most without a hit. Windows that exclude all of a schedule would otherwise be
/// searched for ever.
const STEPS_MAX: usize = 5_000;

/// The next `count` instants after `after`: fire times that the windows allow, and the openings to which other fire
/// times are deferred.
pub(crate) fn upcoming(
    rule: &Rule,
    exclusions: &Exclusions,
    after: Timestamp,
    count: usize,
) -> Vec<Timestamp> {
    let mut found: Vec<Timestamp> = Vec::new();
    if count > 0 {
        walk(rule, exclusions, after, |at| {
            found.push(at);
            found.len() < count
        });
    }
    found
}

/// Passes these instants to a callback one by one, each once, until the callback has had enough.
pub(crate) fn walk(
    rule: &Rule,
    exclusions: &Exclusions,
    after: Timestamp,
    mut tell: impl FnMut(Timestamp) -> bool,
) {
    let (mut next, mut last, mut steps) = (rule.next_after(after), None, 0);
    while let Some(at) = next.filter(|_| steps < STEPS_MAX) {
        let (runs_at, go_on) = match exclusions.judge(at) {
            Verdict::Allowed => (Some(at), Some(at)),
            // Every fire time before the opening is deferred to it.
            Verdict::Deferred(opening) => (Some(opening), Some(just_before(opening).max(at))),
            Verdict::OutsideWindows | Verdict::OutsideCalendar => {
                let opening = exclusions.first_allowed_from(at);
                (None, opening.map(|opening| just_before(opening).max(at)))
            }
        };
        steps += 1;
        if let Some(runs_at) = runs_at.filter(|_| runs_at != last) {
            (last, steps) = (Some(runs_at), 0);
            if !tell(runs_at) {
                return;
            }
        }
        next = go_on.and_then(|go_on| rule.next_after(go_on));
    }
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - Duration::from_millis(1).as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use calendar::{Cron, Dialect, Outside, Window, Zones};

    fn check(expression: &str, outside: Option<Outside>, count: usize, expected: &[&str]) {
        let utc = Zones::bundled().get("UTC").unwrap();
        let rule = Rule::cron(Cron::parse(expression, Dialect::Unix, "").unwrap(), utc.clone());
        let window = |outside| Window::parse("mon-fri", "09:00-17:00", utc.clone(), outside).unwrap();
        let exclusions =
            Exclusions { windows: outside.map(window).into_iter().collect(), ..Exclusions::default() };
        let after = "2026-03-06T16:30:00Z".parse().unwrap(); // a Friday
        let found: Vec<String> =
            upcoming(&rule, &exclusions, after, count).iter().map(|at| at.to_string()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn without_windows_the_rule_speaks() {
        check("0 * * * *", None, 2, &["2026-03-06T17:00:00Z", "2026-03-06T18:00:00Z"]);
    }

    #[test]
    fn what_lies_outside_is_left_out_or_put_off_once() {
        let monday = "2026-03-09T09:00:00Z";
        check("45 * * * *", Some(Outside::Skip), 2, &["2026-03-06T16:45:00Z", "2026-03-09T09:45:00Z"]);
        check(
            "45 * * * *",
            Some(Outside::Defer),
            3,
            &["2026-03-06T16:45:00Z", monday, "2026-03-09T09:45:00Z"],
        );
        check("0 * * * *", Some(Outside::Defer), 2, &[monday, "2026-03-09T10:00:00Z"]);
    }

    #[test]
    fn windows_that_leave_nothing_end_the_search() {
        check("0 20 * * *", Some(Outside::Skip), 3, &[]);
    }
}
