//! Handlers for the end-to-end suite, one for each thing that can happen. Every event is a line of JSON on stdout.

#![expect(clippy::disallowed_methods, reason = "handlers take real time")]

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use punctual_executor::{AttemptEnd, Context, Done, Executor, Failure, Notice};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

struct Asked {
    urls: Vec<String>,
    app: String,
    capacity: u32,
    name: Option<String>,
    more_handlers: u32,
}

#[derive(Deserialize)]
struct Wait {
    ms: u64,
}

#[derive(Deserialize)]
struct Chat {
    lines: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match asked(std::env::args().skip(1)) {
        Ok(asked) => run(asked).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked =
        Asked { urls: Vec::new(), app: "scenarios".into(), capacity: 100, name: None, more_handlers: 0 };
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} has no value"))?;
        let number = || value.parse::<u32>().map_err(|error| format!("{option}: {error}"));
        match option.as_str() {
            "--url" => asked.urls.push(value),
            "--app" => asked.app = value,
            "--capacity" => asked.capacity = number()?,
            "--name" => asked.name = Some(value),
            "--more-handlers" => asked.more_handlers = number()?,
            _ => return Err(format!("{option} is not known")),
        }
    }
    Ok(asked)
}

async fn run(asked: Asked) -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let stopped = async move {
        terminate.recv().await;
    };
    executor(asked).run_until(stopped).await.map_err(|error| error.to_string())?;
    tell(&json!({"event": "drained"}));
    Ok(())
}

fn executor(asked: Asked) -> Executor {
    let mut executor = Executor::new(asked.app).capacity(asked.capacity);
    for url in asked.urls {
        executor = executor.url(url);
    }
    if let Some(name) = asked.name {
        executor = executor.name(name);
    }
    for index in 0..asked.more_handlers {
        executor = executor.handler(format!("h{index}"), |_| async { Ok(()) });
    }
    let told = executor.environment().notice(notice).before(start).after(end);
    told.handler("ok", |_| async { Ok("done") })
        .handler("echo", |context: Context| async move { Ok(compact(context.payload_text())) })
        .handler(
            "size",
            |context: Context| async move { Ok(compact(context.payload_text()).len().to_string()) },
        )
        .handler("fail", |_| async { Err::<Done, _>(Failure::new("it failed")) })
        .handler("useless", |_| async { Err::<Done, _>(Failure::new("it is of no use").no_retry()) })
        .handler("panic", broken)
        .typed("sleep", |context: Context, wait: Wait| async move {
            tokio::select! {
                () = sleep(Duration::from_millis(wait.ms)) => Ok("slept"),
                () = context.cancelled() => Err(Failure::cancelled()),
            }
        })
        .typed("stubborn", |_: Context, wait: Wait| async move {
            sleep(Duration::from_millis(wait.ms)).await;
            Ok("stubborn")
        })
        .typed("chatty", |context: Context, chat: Chat| async move {
            (1..=chat.lines).for_each(|line| context.log(format!("line {line}")));
            context.progress(50, "half");
            Ok("done")
        })
        .handler("part", |context: Context| async move {
            let shown = context.part().map(|part| format!("{}/{}", part.index, part.total));
            Ok(shown.unwrap_or_else(|| "no part".into()))
        })
}

async fn broken(_: Context) -> Result<Done, Failure> {
    panic!("it broke")
}

/// Without the blanks between words. Reading and writing it again would not keep every number as it is.
fn compact(json: &str) -> String {
    let (mut is_in_text, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        match c {
            '"' if !is_escaped => is_in_text = !is_in_text,
            c if !is_in_text && c.is_ascii_whitespace() => return false,
            _ => {}
        }
        is_escaped = *c == '\\' && !is_escaped;
        true
    };
    json.chars().filter(is_kept).collect()
}

fn notice(notice: Notice) {
    match notice {
        Notice::Connected { .. } => tell(&json!({"event": "connected"})),
        Notice::Disconnected { .. } => tell(&json!({"event": "disconnected"})),
        Notice::Unreachable { url, reason } => drop(writeln!(io::stderr(), "{url}: {reason}")),
        _ => {}
    }
}

async fn start(context: Context) -> Result<(), Failure> {
    let part = context.part().map(|part| json!({"index": part.index, "total": part.total}));
    tell(&json!({
        "event": "start", "handler": context.handler(), "run": context.run(), "attempt": context.attempt(),
        "token": context.token(), "possible_duplicate": context.possible_duplicate(), "part": part,
    }));
    Ok(())
}

async fn end(context: Context, end: AttemptEnd) {
    tell(&json!({
        "event": "end", "handler": context.handler(), "run": context.run(), "attempt": context.attempt(),
        "outcome": end.outcome,
    }));
}

/// A line, all at once: others write too.
fn tell(event: &Value) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{event}").and_then(|()| stdout.flush());
}
