//! Logs: on stderr, as text for people or as JSON for programs. And what is said when a thread panics.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::LogFormat;

/// Starts logging; the level is a filter such as `info` or `punctual_node=debug,info`.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        format!("`{level}` says not what to log ({error}); try info, debug or punctual_api=debug")
    })?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
        LogFormat::Text => builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init(),
    };
    started.map_err(|error| format!("cannot start logging: {error}"))?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let said = panic.payload_as_str().unwrap_or("no reason given");
        tracing::error!(place, said, "a bug: a thread panicked");
    }));
    Ok(())
}
