//! `punctual node`: the nodes of the cluster, the shards they act for, and taking a node out.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Outcome;
use super::client::Route;
use super::failure::Failure;
use super::reach::Reach;
use super::session::{self, ClientSession};
use super::table::{Column, TextTable, cell};

#[derive(Args)]
#[command(after_help = "Examples:
  punctual node list
  punctual node drain berlin-2")]
pub struct NodeArguments {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Subcommand)]
enum NodeCommand {
    /// List the nodes that live, drained ones included.
    #[command(after_help = "Examples:
  punctual node list
  punctual node list -o json")]
    List,
    /// List the shards and the nodes that hold them.
    #[command(after_help = "Examples:
  punctual node shards")]
    Shards,
    /// Let a node give its shards back and take none, for instance before its machine is worked on.
    #[command(after_help = "Examples:
  punctual node drain berlin-2
  punctual node drain self --server http://10.0.0.2:7070")]
    Drain(Named),
    /// Let a drained node take shards again.
    #[command(after_help = "Examples:
  punctual node resume berlin-2
  punctual node resume self --server http://10.0.0.2:7070")]
    Resume(Named),
}

#[derive(Args)]
struct Named {
    /// Its name, or `self` for the one that is asked
    node: String,
}

pub fn run(arguments: NodeArguments) -> Outcome {
    let NodeArguments { reach, command } = arguments;
    session::hold(&reach, async |session| match command {
        NodeCommand::List => list(session).await,
        NodeCommand::Shards => shards(session).await,
        NodeCommand::Drain(named) => tell(session, &named.node, "drain").await,
        NodeCommand::Resume(named) => tell(session, &named.node, "resume").await,
    })
}

async fn list(session: &mut ClientSession) -> Result<(), Failure> {
    let nodes = session.client.list(Route::to(["nodes"]), None).await?;
    session.print_rows(nodes, "nodes", nodes_table);
    Ok(())
}

async fn shards(session: &mut ClientSession) -> Result<(), Failure> {
    let shards = session.client.list(Route::to(["shards"]), None).await?;
    session.print_rows(shards, "shards", shards_table);
    Ok(())
}

async fn tell(session: &mut ClientSession, node: &str, wish: &str) -> Result<(), Failure> {
    let nodes = session.client.post(Route::to(["nodes", node, wish]), json!({})).await?;
    if session.wants_json() {
        session.print_json(&nodes);
        return Ok(());
    }
    session.say(match wish {
        "drain" => format!("{node} has given its shards back and takes none"),
        _ => format!("{node} takes shards again"),
    });
    Ok(())
}

fn nodes_table(rows: &[Value]) -> TextTable {
    let mut table = TextTable::new(&[
        Column::Cut("NAME"),
        Column::Cut("ADDRESS"),
        Column::Whole("STATE"),
        Column::Whole("SHARDS"),
        Column::Cut("NODE"),
    ]);
    for row in rows {
        let name = match row["is_self"].as_bool() {
            Some(true) => format!("{} *", cell(row, "/name")),
            _ => cell(row, "/name"),
        };
        table.row([
            name,
            cell(row, "/address"),
            cell(row, "/state"),
            cell(row, "/shards"),
            cell(row, "/node"),
        ]);
    }
    table
}

fn shards_table(rows: &[Value]) -> TextTable {
    let mut table = TextTable::new(&[Column::Whole("SHARD"), Column::Whole("EPOCH"), Column::Cut("NODE")]);
    for row in rows {
        table.row([cell(row, "/shard"), cell(row, "/epoch"), cell(row, "/node")]);
    }
    table
}
