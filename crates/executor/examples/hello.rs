//! The smallest executor: one handler, for the node of this machine.
//!
//! Try it with `punctual job create --app hello --name greet --every 10s --handler greet`.

use punctual_executor::{Context, Executor, Invalid};

#[tokio::main]
async fn main() -> Result<(), Invalid> {
    Executor::new("hello")
        .environment()
        .handler("greet", |context: Context| async move { Ok(format!("hello, {}", context.job_name())) })
        .run()
        .await
}
