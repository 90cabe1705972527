//! Native executors against the real binary: the same scenarios with the Rust SDK and with the Python client, both by a
//! program that offers the same handlers (`examples/scenarios` of each), and with somebody who speaks the protocol wrongly.
#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

mod breaking;
mod commands;
mod program;
mod proxy;
mod working;
mod wrong;

/// Each scenario once with each program.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        mod rust {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::super::program::Language::Rust).await;
            })*
        }
        mod python {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::super::program::Language::Python).await;
            })*
        }
    };
}
use scenarios;
