//! The command line: every command of the binary. Those about a node itself are carried out here; those that ask a
//! server are in `crates/cli`.

mod database;
mod demo;
mod reset;
mod serve;
mod token;

use std::process::ExitCode;

use calendar::Zones;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use punctual_cli::{Outcome, app, cron, executor, job, node, run};

/// A distributed job scheduler that fires on the dot, exactly once per fire time.
#[derive(Parser)]
#[command(name = "punctual", version = version(), max_term_width = 110)]
#[command(after_help = "Examples:
  punctual cron next '0 9 * * 1-5' --zone Europe/Berlin
  punctual cron explain '0 0 12 ? * 6L' --dialect quartz
  punctual job create --app ops --name ping --every 30s --url http://127.0.0.1:8080/ping
  punctual job run ops/ping --wait

Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 not allowed.")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API (what `punctual` alone does).
    #[command(after_help = "Examples:
  punctual serve
  punctual serve --listen 127.0.0.1:8080 --data /var/lib/punctual
  punctual serve --config punctual.toml --allow-target 10.1.0.0/16 --log-format json")]
    Serve(serve::Serve),
    /// Ask what a cron expression means and when it fires.
    #[command(subcommand)]
    Cron(cron::CronCommand),
    /// Make, change, look at, start and stop jobs.
    Job(job::JobArguments),
    /// Hand over runs, look at them, and change what becomes of them.
    Run(run::RunArguments),
    /// Look at apps and their executors, and set what belongs to them.
    App(app::AppArguments),
    /// Run commands of this machine as the handlers of an app.
    Executor(executor::ExecutorArguments),
    /// Make, list and revoke tokens, and reset a lost admin token.
    Token(token::TokenArguments),
    /// Look at the nodes of the cluster, and take one out of work.
    Node(node::NodeArguments),
    /// Bring the schema of a database up to what this program knows.
    #[command(after_help = "Examples:
  punctual migrate --database postgres://punctual@db.example.com/punctual")]
    Migrate(database::Database),
    /// Look at what a node needs: the database, its version and settings, the clocks.
    #[command(after_help = "Examples:
  punctual doctor
  punctual doctor --database mysql://punctual@db.example.com/punctual")]
    Doctor(database::Database),
    /// Serve a scratch node with jobs, executors and a day of history, to look at.
    #[command(after_help = "Examples:
  punctual demo
  punctual demo --listen 127.0.0.1:7070 --hours 48")]
    Demo(demo::DemoArguments),
    /// Measure what a node does on this machine.
    #[command(
        disable_help_flag = true,
        after_help = "Examples:
  punctual bench herd             10,000 one-shots due at one second, to a local agent
  punctual bench execute --json   how many agents it calls a second
  punctual bench all"
    )]
    Bench {
        /// The scenario and its options; `punctual bench` alone lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print what a shell needs to complete our commands.
    #[command(after_help = "Examples:
  punctual completions bash > ~/.local/share/bash-completion/completions/punctual
  punctual completions zsh > ~/.zfunc/_punctual
  punctual completions fish > ~/.config/fish/completions/punctual.fish")]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print the version of the program and of the zone data in it.
    Version,
}

pub(crate) fn run() -> ExitCode {
    let outcome = match Arguments::parse().command.unwrap_or_else(serving) {
        Command::Serve(asked) => serve::run(&asked),
        Command::Cron(command) => cron::run(command),
        Command::Job(arguments) => job::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::App(arguments) => app::run(arguments),
        Command::Executor(arguments) => executor::run(&arguments),
        Command::Token(arguments) => token::run(arguments),
        Command::Node(arguments) => node::run(arguments),
        Command::Migrate(asked) => database::migrate(&asked),
        Command::Doctor(asked) => database::doctor(&asked),
        Command::Demo(asked) => demo::run(&asked),
        Command::Bench { words } => return punctual_bench::command::run(&words, &["bench"]),
        Command::Completions { shell } => completions(shell),
        Command::Version => Outcome::data(format!("punctual {}\n", version())),
    };
    outcome.tell()
}

/// What `punctual` without a command means, its variables and defaults included.
fn serving() -> Command {
    let serve = Arguments::parse_from(["punctual", "serve"]).command;
    serve.expect("a command was named")
}

fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "punctual", &mut script);
    Outcome::data(String::from_utf8_lossy(&script).into_owned())
}

fn version() -> String {
    format!("{} (zone data {})", env!("CARGO_PKG_VERSION"), Zones::version())
}
