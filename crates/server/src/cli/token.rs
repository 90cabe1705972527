//! `punctual token`: what a server is asked about tokens, and what makes one for an admin who has none.

use clap::{Args, Subcommand};
use punctual_cli::Outcome;
use punctual_cli::reach::Reach;
use punctual_cli::token;

use super::reset::Reset;

#[derive(Args)]
#[command(after_help = "Examples:
  punctual token create --name deploy --role editor --app reports --expires-in 30d
  punctual token list
  punctual token reset --data /var/lib/punctual")]
pub(super) struct TokenArguments {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    #[command(flatten)]
    Asked(token::TokenCommand),
    /// Make a new admin token without a server, for the owner of the machine whose admin token is lost.
    #[command(after_help = "Examples:
  punctual token reset --data /var/lib/punctual
  sudo -u punctual punctual token reset --data /var/lib/punctual --revoke-others
  punctual token reset --database postgres://punctual@db.example.com/punctual

A node that runs on the data folder has to be stopped first. Beside a database server nodes may run: they
know the new token within seconds.")]
    Reset(Reset),
}

pub(super) fn run(arguments: TokenArguments) -> Outcome {
    let TokenArguments { reach, command } = arguments;
    match command {
        TokenCommand::Asked(command) => token::run(&reach, command),
        TokenCommand::Reset(reset) => reset.run(reach.wants_json()),
    }
}
