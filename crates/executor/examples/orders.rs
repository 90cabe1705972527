//! Orders that are sent: typed payloads, a log, progress, hooks, and a failure that no retry can mend.
//!
//! Try it with `punctual job create --app shop --name send --manual --handler send`, and
//! `punctual job run shop/send --payload '{"number": 7, "items": ["tea", "milk"]}'`.

#![expect(clippy::disallowed_methods, reason = "handlers take real time")]

use std::io::{self, Write};
use std::time::Duration;

use punctual_executor::{AttemptEnd, Context, Executor, Failure, Invalid};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    number: u64,
    items: Vec<String>,
}

/// Sends an order, one item after the other.
async fn send(context: Context, order: Order) -> Result<String, Failure> {
    let Order { number, items } = order;
    if items.is_empty() {
        return Err(Failure::new(format!("order {number} has no items")).no_retry());
    }
    if context.possible_duplicate() {
        // The token tells the warehouse which attempt may change something: the one with the greatest.
        context.log(format!("an earlier attempt may have begun; this is token {}", context.token()));
    }
    for (done, item) in items.iter().enumerate() {
        context.progress(u8::try_from(done * 100 / items.len())?, format!("{done} of {}", items.len()));
        tokio::select! {
            () = pack(item) => context.log(format!("packed {item}")),
            () = context.cancelled() => return Err(Failure::cancelled()),
        }
    }
    Ok(format!("order {number}: {} items", items.len()))
}

async fn pack(item: &str) {
    tokio::time::sleep(Duration::from_millis(100 * item.len() as u64)).await;
}

async fn tell(context: Context, end: AttemptEnd) {
    let (run, outcome, message) = (context.run(), end.outcome, end.message);
    // A closed stdout must not fail the run.
    let _ = writeln!(io::stdout(), "run {run}: {outcome:?} {message}");
}

#[tokio::main]
async fn main() -> Result<(), Invalid> {
    Executor::new("shop")
        .environment()
        .capacity(20)
        .before(|context: Context| async move {
            context.log(format!("for {}", context.fire_time()));
            Ok(())
        })
        .after(tell)
        .typed("send", send)
        .run_until(async { drop(tokio::signal::ctrl_c().await) })
        .await
}
