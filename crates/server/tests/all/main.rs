//! The binary as its users meet it, in one program because linking is dear. One part of it:
//! `cargo test -p punctual --test server serve::`.

mod abuse;
mod borrowed;
mod change;
mod cli_apps;
mod cli_client;
mod cli_runs;
mod cluster;
#[cfg(feature = "console")]
mod console;
mod cron;
mod e2e;
mod executors;
mod far;
mod house;
mod keys;
mod many;
mod native;
mod own;
mod packages;
mod schemathesis;
mod scripted;
mod serve;
mod tls;
