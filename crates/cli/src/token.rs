//! `punctual token`: make, list and revoke tokens.

use clap::{Args, Subcommand, ValueEnum};
use punctual_protocol::Span;
use serde_json::{Value, json};

use super::Outcome;
use super::client::Route;
use super::failure::Failure;
use super::job::span;
use super::reach::Reach;
use super::session::{self, ClientSession};
use super::table::{Column, TextTable, cell};
use crate::clock;

/// What a server is asked about tokens.
#[derive(Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it; it is shown only this once.
    #[command(after_help = "Examples:
  punctual token create --name deploy --role editor --app reports --expires-in 30d
  punctual token create --name dashboard --role viewer > viewer-token")]
    Create(Create),
    /// List tokens, without what they open the door with.
    #[command(after_help = "Examples:
  punctual token list
  punctual token list -o json")]
    List,
    /// Revoke tokens: after the answer they open nothing.
    #[command(after_help = "Examples:
  punctual token revoke 3
  punctual token revoke 3 4 5")]
    Revoke(Revoke),
}

/// A token that is to be made.
#[derive(Args)]
pub struct Create {
    /// For people
    #[arg(long)]
    name: String,
    /// What it may do; each role may do what those before it may
    #[arg(long)]
    role: Role,
    /// Whose jobs it may see and touch; may be repeated [default: all]
    #[arg(long = "app", value_name = "APP")]
    apps: Vec<String>,
    /// How long it lasts, such as 30d [default: until it is revoked]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires_in: Option<Span>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Viewer,
    Operator,
    Editor,
    Admin,
}

/// Tokens that are to be revoked.
#[derive(Args)]
pub struct Revoke {
    /// Their numbers
    #[arg(required = true)]
    ids: Vec<u32>,
}

/// Asks the server.
pub fn run(reach: &Reach, command: TokenCommand) -> Outcome {
    session::hold(reach, async |session| match command {
        TokenCommand::Create(create) => create.answer(session).await,
        TokenCommand::List => list(session).await,
        TokenCommand::Revoke(revoke) => revoke.answer(session).await,
    })
}

impl Create {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let mut body = json!({"name": self.name, "role": self.role.name()});
        if !self.apps.is_empty() {
            body["apps"] = json!(self.apps);
        }
        if let Some(span) = self.expires_in {
            body["expires_at"] = clock::now().saturating_add(span.0).to_string().into();
        }
        let made = session.client.post(Route::to(["tokens"]), body).await?;
        if session.wants_json() {
            session.print_json(&made);
            return Ok(());
        }
        session.say(format!("token {} made; it is shown only this once", cell(&made, "/id")));
        session.print(cell(&made, "/token"));
        Ok(())
    }
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Editor => "editor",
            Role::Admin => "admin",
        }
    }
}

async fn list(session: &mut ClientSession) -> Result<(), Failure> {
    let rows = session.client.list(Route::to(["tokens"]), None).await?;
    session.print_rows(rows, "tokens", table);
    Ok(())
}

fn table(tokens: &[Value]) -> TextTable {
    let columns = [
        Column::Whole("ID"),
        Column::Cut("NAME"),
        Column::Whole("ROLE"),
        Column::Cut("APPS"),
        Column::Whole("CREATED"),
        Column::Whole("EXPIRES"),
    ];
    let mut table = TextTable::new(&columns);
    let fields = ["/id", "/name", "/role", "/apps", "/created_at", "/expires_at"];
    tokens.iter().for_each(|token| table.row(fields.map(|field| cell(token, field))));
    table
}

impl Revoke {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        for id in self.ids {
            session.client.delete(Route::to(["tokens", &id.to_string()])).await?;
            session.say(format!("token {id} revoked"));
        }
        Ok(())
    }
}
