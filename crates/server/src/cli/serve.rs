//! `punctual serve`: reads the configuration, then serves until it is told to stop.

use std::path::PathBuf;

use clap::Args;
use punctual_cli::{Outcome, environment};
use toml::Value;

use crate::config::{self, Flags, Read};
use crate::{logs, serve};

/// What can be said when serving. Everything else is in the configuration file.
#[derive(Args)]
pub(crate) struct Serve {
    /// Where to listen [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The folder that everything is kept in [default: ~/.local/share/punctual]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// Where everything is kept, for many nodes: postgres://… or mysql://… [default: a file in the data folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// A Redis server that nodes coordinate through, beside the database
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
    /// The name of this node, in logs and lists
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Where other nodes and executors reach this one
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// An address that agents may have beyond public ones: a network, a host, or host:port (can be repeated)
    #[arg(long, value_name = "RULE")]
    allow_target: Vec<String>,
    /// Listen on a public address without TLS
    #[arg(long)]
    insecure: bool,
    /// How logs are written: text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl Serve {
    fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        let texts = [
            ("server", "listen", &self.listen),
            ("server", "data", &self.data),
            ("server", "node", &self.node),
            ("server", "advertise", &self.advertise),
            ("database", "url", &self.database),
            ("redis", "url", &self.redis),
            ("log", "format", &self.log_format),
        ];
        for (section, key, said) in texts {
            flags.extend(said.clone().map(|said| (section, key, Value::String(said))));
        }
        if self.insecure {
            flags.push(("server", "insecure", Value::Boolean(true)));
        }
        if !self.allow_target.is_empty() {
            let rules = self.allow_target.iter().cloned().map(Value::String).collect();
            flags.push(("targets", "allow", Value::Array(rules)));
        }
        flags
    }
}

pub(crate) fn run(asked: &Serve) -> Outcome {
    let variables = environment::variables();
    let Read { config, warnings } = match config::read(asked.config.as_deref(), &variables, &asked.flags()) {
        Ok(read) => read,
        Err(error) => return Outcome::usage_error(error),
    };
    let lines = match logs::start(&config.log, config.log_format) {
        Ok(lines) => lines,
        Err(error) => return Outcome::usage_error(error),
    };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match serve::run(config, lines) {
        Ok(()) => Outcome::default(),
        Err(error) => Outcome { messages: format!("error: {error}\n"), code: 1, ..Outcome::default() },
    }
}
