//! Looking at a server before it is used, and for `punctual doctor`.

use punctual_core::model::Text;
use punctual_node::ports::StoreError;

use super::address::TAKES_NO_WRITES;
use super::ask::{Ask, Columns};
use super::line::Line;
use super::migrate::{refused, schema, shards};
use super::trouble::Trouble;
use crate::sql::{Inspection, Setting};

/// The oldest server that works.
const OLDEST: i64 = 130_000;

/// Refuses a server that cannot be used; its version otherwise.
pub(super) async fn check_server(line: &Line<'_>) -> Result<i64, Trouble> {
    let rows = line
        .ask(Ask::new(
            "select current_setting('server_version_num')::bigint, current_setting('server_version'),
                    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean,
                    coalesce(has_schema_privilege(current_schema(), 'create'), false),
                    current_user::text, current_schema()::text, current_setting('server_encoding')",
        ))
        .await?;
    let row = &rows[0];
    let (number, version) = (row.number(0)?, row.string(1)?);
    if number < OLDEST {
        return Err(refused(format!("PostgreSQL {version} is too old: Punctual needs 13 or newer")));
    }
    if row.flag(2)? {
        return Err(refused(TAKES_NO_WRITES));
    }
    if !row.flag(3)? {
        let (user, place) = (row.string(4)?, row.maybe_string(5)?.unwrap_or_else(|| "public".to_owned()));
        return Err(refused(format!(
            "the user {user} may not create tables: `grant create, usage on schema {place} to {user}`"
        )));
    }
    if row.string(6)? != "UTF8" {
        return Err(refused("the database is not encoded in UTF-8: create it with `encoding 'UTF8'`"));
    }
    Ok(number)
}

pub(super) async fn inspect(line: &Line<'_>) -> Result<Inspection, Trouble> {
    let rows = line
        .ask(Ask::new(
            "select 'PostgreSQL ' || current_setting('server_version'),
                    floor(extract(epoch from clock_timestamp()) * 1000)::bigint,
                    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean",
        ))
        .await?;
    let refusal = match check_server(line).await {
        Ok(_) => None,
        Err(Trouble::Refused(StoreError::Conflict(said))) => Some(said),
        Err(trouble) => return Err(trouble),
    };
    let schema = schema(line).await?.version;
    let shards = if schema > 0 { shards(line).await? } else { None };
    let names = [
        "max_connections",
        "synchronous_commit",
        "fsync",
        "full_page_writes",
        "jit",
        "autovacuum",
        "TimeZone",
    ];
    let ask = Ask::new("select name, setting from pg_settings where name = any($1) order by name");
    let mut settings = Vec::new();
    for row in &line.ask(ask.with(names.map(str::to_owned).to_vec())).await? {
        let (name, value) = (row.text(0)?, row.text(1)?);
        settings.push(Setting { advice: advice(&name, &value), name, value });
    }
    Ok(Inspection {
        server: rows[0].text(0)?,
        now: rows[0].number(1)?,
        schema_version: (schema > 0).then_some(schema),
        shards,
        is_read_only: rows[0].flag(2)?,
        refusal,
        settings,
    })
}

fn advice(name: &str, value: &str) -> Option<Text> {
    match (name, value) {
        ("fsync" | "full_page_writes", "off") => {
            Some("turn it on: a crash of the server would lose what was acknowledged".into())
        }
        ("synchronous_commit", "off") => {
            Some("turn it on: what was acknowledged in the last moments before a crash would be lost".into())
        }
        ("autovacuum", "off") => {
            Some("turn it on: small tables that change all the time would grow without end".into())
        }
        ("max_connections", value) if value.parse::<u32>().is_ok_and(|max| max < 50) => {
            Some("a node uses about ten connections; raise it, or use a pooler".into())
        }
        _ => None,
    }
}
