//! `punctual token reset`: a new admin token, written straight into the store by the owner of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use punctual_cli::{Outcome, environment};
use serde_json::json;
use toml::Value;

use crate::config::{self, Config, Flags};
use crate::{first, keep, private};

#[derive(Args)]
pub(super) struct Reset {
    /// The data folder of the node; the new token goes into its file admin-token [default: ~/.local/share/punctual]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// The database of the cluster: postgres://… or mysql://… [default: the file in the data folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The configuration file of the node (TOML)
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
    /// Revoke all other tokens too, whatever their role
    #[arg(long)]
    revoke_others: bool,
}

impl Reset {
    pub(super) fn run(self, wants_json: bool) -> Outcome {
        let config = match self.configured() {
            Ok(config) => config,
            Err(error) => return Outcome::usage_error(error),
        };
        if config.database.is_none()
            && let Err(error) = check_owner(&config.data)
        {
            return Outcome::usage_error(error);
        }
        private::begin();
        match reset(&config, self.revoke_others) {
            Ok(made) => told(&config, &made, self.revoke_others, wants_json),
            Err(error) => Outcome { messages: format!("error: {error}\n"), code: 1, ..Outcome::default() },
        }
    }

    fn configured(&self) -> Result<Config, String> {
        let mut flags = Flags::new();
        for (section, key, said) in [("server", "data", &self.data), ("database", "url", &self.database)] {
            flags.extend(said.clone().map(|said| (section, key, Value::String(said))));
        }
        let read = config::read(self.config.as_deref(), &environment::variables(), &flags);
        let mut config = read.map_err(|error| error.to_string())?.config;
        // Nodes of an older version may be running, so the schema stays as it is.
        config.auto_migrate = false;
        Ok(config)
    }
}

/// Only the user that owns the database may make itself its admin: files left behind by another user would keep the
/// node from starting.
fn check_owner(data: &Path) -> Result<(), String> {
    let (database, shown) = (data.join("punctual.db"), data.display());
    let found = fs::metadata(&database).map_err(|error| {
        format!("there is no database in {shown} ({error}): name the folder that the node uses with --data")
    })?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        let owner = found.uid();
        return Err(format!(
            "{} belongs to user {owner}, and this is user {own}: run this as its owner, such as sudo -u '#{owner}' punctual \
             token reset --data {shown}",
            database.display()
        ));
    }
    Ok(())
}

fn reset(config: &Config, revokes_others: bool) -> Result<first::Reset, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let kept = keep::open(config).await?;
        first::reset(&*kept.door, config, revokes_others).await
    })
}

fn told(config: &Config, made: &first::Reset, revokes_others: bool, wants_json: bool) -> Outcome {
    let first::Reset { id, token, revoked } = made;
    let file = first::file(config);
    if wants_json {
        let json = json!({"id": id, "token": token, "file": file.display().to_string(), "revoked": revoked});
        return Outcome::data(format!("{json}\n"));
    }
    let others = match revokes_others {
        true => format!("other tokens revoked: {revoked}"),
        false => "all other tokens stay as they are; `punctual token list` shows them".into(),
    };
    let messages = format!("token {id} made for an admin, and kept in {}\n{others}\n", file.display());
    Outcome { messages, ..Outcome::data(format!("{token}\n")) }
}
