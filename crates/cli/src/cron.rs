//! `punctual cron next | explain | check`: when an expression fires, what it means, whether it is valid.

use calendar::{Cron, CronError, Dialect, Gap, Overlap, Rule, Timestamp, Zone, Zones};
use clap::{Args, Subcommand};
use serde_json::json;

use super::Outcome;
use crate::clock;

/// How much of an expression is repeated in messages.
const SHOWN: usize = 72;

#[derive(Subcommand)]
pub enum CronCommand {
    /// The next instants at which it fires.
    #[command(after_help = "Examples:
  punctual cron next '0 9 * * 1-5'
  punctual cron next '30 2 * * *' --zone America/New_York --after 2026-03-07T12:00:00Z --count 3
  punctual cron next '0 0 12 ? * 6L' --dialect quartz --json")]
    Next(Next),
    /// What it means in plain English, its next instants, and what to look out for.
    #[command(after_help = "Examples:
  punctual cron explain '0 0 */2 * 1'
  punctual cron explain '0 0 2 L-3 * ?' --dialect quartz --zone Europe/Berlin")]
    Explain(Explain),
    /// Whether it is a valid expression; if not, where and why.
    #[command(after_help = "Examples:
  punctual cron check '0 9 * * mon-fri'
  punctual cron check '0 9 31 2 *' --json")]
    Check(Check),
}

#[derive(Args)]
pub struct Next {
    #[command(flatten)]
    question: Question,
    /// Fires strictly later than this: RFC 3339, or a date and time on the wall of the zone [default: now]
    #[arg(long, value_name = "T")]
    after: Option<String>,
    /// How many instants
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
}

#[derive(Args)]
pub struct Explain {
    #[command(flatten)]
    question: Question,
}

#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    question: Question,
}

/// An expression and all that decides what it means.
#[derive(Args)]
struct Question {
    /// The expression, in quotes
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    expression: String,
    /// What an expression without quotes leaves over
    #[arg(hide = true)]
    left_over: Vec<String>,
    /// How to read it: unix or quartz
    #[arg(long, default_value_t = Dialect::Unix)]
    dialect: Dialect,
    /// The IANA zone whose wall clock counts
    #[arg(long, value_name = "Z", default_value = "UTC")]
    zone: String,
    /// Decides where H falls; a job's is app/name
    #[arg(long)]
    seed: Option<String>,
    /// What becomes of a wall time that the clocks jump over: default, skip or shift
    #[arg(long, default_value_t = Gap::Default)]
    gap: Gap,
    /// What becomes of a wall time that the clocks show twice: default, first, last or both
    #[arg(long, default_value_t = Overlap::Default)]
    overlap: Overlap,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(command: CronCommand) -> Outcome {
    let now = clock::now();
    let answer = match command {
        CronCommand::Next(next) => next.answer(now),
        CronCommand::Explain(explain) => explain.answer(now),
        CronCommand::Check(check) => check.answer(now),
    };
    answer.unwrap_or_else(|refusal| refusal)
}

impl Next {
    fn answer(&self, now: Timestamp) -> Result<Outcome, Outcome> {
        let zone = self.question.zone()?;
        let cron = self.question.cron()?;
        let after = self.after.as_deref().map_or(Ok(now), |text| instant(text, &zone))?;
        let missing_seed = self.question.missing_seed(&cron);
        let rule = self.question.placed(cron, &zone);
        let times = first_after(&rule, after, self.count);
        let mut outcome = Outcome::data(if self.question.json {
            format!("{}\n", json!(texts(&times)))
        } else {
            times.iter().map(|at| format!("{}\n", line(*at, &zone))).collect()
        });
        if times.is_empty() {
            outcome.warn(format!("never fires after {after}"));
        }
        missing_seed.into_iter().for_each(|warning| outcome.warn(warning));
        Ok(outcome)
    }
}

impl Explain {
    fn answer(&self, now: Timestamp) -> Result<Outcome, Outcome> {
        let zone = self.question.zone()?;
        let cron = self.question.cron()?;
        let rule = self.question.placed(cron.clone(), &zone);
        let times = first_after(&rule, now, 5);
        let warnings = self.question.warnings(&cron, &rule, now);
        Ok(Outcome::data(if self.question.json {
            let explained = json!({
                "expression": cron.text(),
                "dialect": cron.dialect().name(),
                "zone": zone.name(),
                "in_words": rule.describe(),
                "kind": cron.kind().name(),
                "clock_changes": rule.describe_clock_changes(),
                "fire_times": texts(&times),
                "warnings": warnings,
                "zone_data": Zones::version(),
            });
            format!("{explained}\n")
        } else {
            explanation(&cron, &rule, &zone, &times, &warnings)
        }))
    }
}

impl Check {
    /// The question is whether it is valid, so with --json a refusal is an answer too.
    fn answer(&self, now: Timestamp) -> Result<Outcome, Outcome> {
        let zone = self.question.zone()?;
        let expression = self.question.expression()?;
        let cron = match self.question.parse(expression) {
            Err(error) if self.question.json => return Err(refusal_as_json(&error)),
            parsed => parsed.map_err(|error| refusal(expression, &error))?,
        };
        let rule = self.question.placed(cron.clone(), &zone);
        let warnings = self.question.warnings(&cron, &rule, now);
        if self.question.json {
            let answer = json!({"valid": true, "in_words": rule.describe(), "warnings": warnings});
            return Ok(Outcome::data(format!("{answer}\n")));
        }
        let mut outcome = Outcome::data(format!("ok: {}\n", rule.describe()));
        warnings.iter().for_each(|warning| outcome.warn(warning));
        Ok(outcome)
    }
}

impl Question {
    fn zone(&self) -> Result<Zone, Outcome> {
        Zones::bundled().get(&self.zone).map_err(Outcome::usage_error)
    }

    /// The expression, if the argument can be one: an unknown option, or an expression without quotes, gets advice.
    fn expression(&self) -> Result<&str, Outcome> {
        if self.expression.starts_with("--") && !self.expression.contains(' ') {
            let option = &self.expression;
            return Err(Outcome::usage_error(format!("there is no option {option:?}: see --help")));
        }
        if !self.left_over.is_empty() {
            let words = 1 + self.left_over.len();
            return Err(Outcome::usage_error(format!(
                "{words} words where one expression was expected: put it in quotes, such as '0 9 * * *'"
            )));
        }
        Ok(&self.expression)
    }

    fn parse(&self, expression: &str) -> Result<Cron, CronError> {
        Cron::parse(expression, self.dialect, self.seed.as_deref().unwrap_or_default())
    }

    fn cron(&self) -> Result<Cron, Outcome> {
        let expression = self.expression()?;
        self.parse(expression).map_err(|error| refusal(expression, &error))
    }

    fn placed(&self, cron: Cron, zone: &Zone) -> Rule {
        Rule::cron(cron, zone.clone()).with_gap(self.gap).with_overlap(self.overlap)
    }

    fn warnings(&self, cron: &Cron, rule: &Rule, now: Timestamp) -> Vec<String> {
        let of_rule = rule.warnings(now).into_iter().map(|warning| warning.to_string());
        of_rule.chain(self.missing_seed(cron).map(String::from)).collect()
    }

    /// Without a seed every `H` falls on the same value, which is what `H` is there to avoid.
    fn missing_seed(&self, cron: &Cron) -> Option<&'static str> {
        let warning = "H falls where the empty seed puts it: pass --seed app/name to see a job's place";
        (cron.is_spread() && self.seed.is_none()).then_some(warning)
    }
}

fn first_after(rule: &Rule, after: Timestamp, count: u32) -> Vec<Timestamp> {
    let following = std::iter::successors(rule.next_after(after), |at| rule.next_after(*at));
    following.take(count as usize).collect()
}

fn texts(times: &[Timestamp]) -> Vec<String> {
    times.iter().map(ToString::to_string).collect()
}

/// An instant in UTC and, in other zones, as wall time.
fn line(at: Timestamp, zone: &Zone) -> String {
    match zone.name() {
        "UTC" => at.to_string(),
        _ => format!("{at}  {}", zone.show(at)),
    }
}

fn explanation(cron: &Cron, rule: &Rule, zone: &Zone, times: &[Timestamp], warnings: &[String]) -> String {
    let mut rows = vec![
        ("expression", cron.text().chars().take(SHOWN).collect()),
        ("means", rule.describe()),
        ("dialect", cron.dialect().to_string()),
        ("kind", format!("{}: {}", cron.kind(), rule.describe_clock_changes().unwrap_or_default())),
    ];
    let label = |index| if index == 0 { "next" } else { "" };
    rows.extend(times.iter().enumerate().map(|(index, at)| (label(index), line(*at, zone))));
    rows.extend(warnings.iter().map(|warning| ("warning", warning.clone())));
    rows.push(("zone data", Zones::version().to_string()));
    rows.iter().map(|(name, value)| format!("{name:<12}{value}\n")).collect()
}

/// RFC 3339, or, without an offset, a wall time in the zone.
fn instant(text: &str, zone: &Zone) -> Result<Timestamp, Outcome> {
    let refuse = |error| {
        Outcome::usage_error(format!("--after: {error}, or 2026-03-08T07:00 on the wall of the zone"))
    };
    text.parse().or_else(|error| zone.parse_wall(text).ok_or_else(|| refuse(error)))
}

/// The refusal, and the expression with the faulty part underlined.
fn refusal(expression: &str, error: &CronError) -> Outcome {
    let skipped = error.column().saturating_sub(SHOWN / 2);
    let is_plain = |c: &char| !c.is_control();
    let shown: String =
        expression.chars().skip(skipped).take(SHOWN).map(|c| if is_plain(&c) { c } else { ' ' }).collect();
    let indent = " ".repeat(error.column() - 1 - skipped);
    let underline = "^".repeat(error.length().min(SHOWN / 2));
    Outcome::usage_error(format!("{error}\n\n  {shown}\n  {indent}{underline}"))
}

fn refusal_as_json(error: &CronError) -> Outcome {
    let answer = json!({
        "valid": false,
        "position": error.column(),
        "length": error.length(),
        "field": error.field(),
        "reason": error.reason(),
    });
    Outcome { data: format!("{answer}\n"), messages: String::new(), code: 2 }
}
