//! Logs: on stderr, as text for people or as JSON for programs. And the message when a thread panics.

mod budget;

use std::io::IsTerminal;

use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

pub(crate) use budget::{LineBudget, WINDOW};

use crate::config::LogFormat;

/// Starts logging; the level is a filter such as `info` or `punctual_node=debug,info`. The result knows which lines
/// were dropped.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<LineBudget, String> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("`{level}` says not what to log ({error}); try info, debug or punctual_api=debug")
    })?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
        LogFormat::Text => lines.with_target(false).with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    let budget = LineBudget::default();
    let lines = lines.with_filter(filter.and(budget.clone()));
    registry().with(lines).try_init().map_err(|error| format!("cannot start logging: {error}"))?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let said = panic.payload_as_str().unwrap_or("no reason given");
        tracing::error!(place, said, "a bug: a thread panicked");
    }));
    Ok(budget)
}
