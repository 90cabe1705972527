//! The final state of the cluster, when no run is open: every run with its attempts, page by page.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::clock::{now, until};
use crate::cluster::Client;
use crate::history::{Millis, RunRecord, text};

/// How long the last runs may take: those behind a limit, in doubt, or waiting for a retry.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

const INSISTS: Duration = Duration::from_secs(60);

/// Runs younger than this may be in flight in a healthy cluster.
const YOUNG_MS: Millis = 1_500;

/// Waits until no run is open. Returns after how long.
pub async fn drained(client: &Client) -> Result<Duration, String> {
    until("nothing is open", ENDS_WITHIN, async || is_nothing_open(client, "").await).await
}

/// Waits until no run is open that was due a while ago. Returns after how long.
pub async fn caught_up(client: &Client) -> Result<Duration, String> {
    until("nothing is late", ENDS_WITHIN, async || {
        let to = text(now() - YOUNG_MS);
        is_nothing_open(client, &format!("&to={to}")).await
    })
    .await
}

async fn is_nothing_open(client: &Client, filter: &str) -> bool {
    for state in ["pending", "running", "retrying"] {
        if !is_empty(client, &format!("/api/v1/runs?state={state}&limit=100{filter}")).await {
            return false;
        }
    }
    true
}

/// Whether all pages of a list are empty. An empty page need not be the last, because the server reads a bounded number of
/// rows for one page.
async fn is_empty(client: &Client, path: &str) -> bool {
    let mut cursor = String::new();
    loop {
        let Ok(answer) = client.insist("GET", &format!("{path}{cursor}"), None, INSISTS).await else {
            return false;
        };
        let page = answer.json();
        if !page["items"].as_array().is_some_and(Vec::is_empty) {
            return false;
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return true,
        }
    }
}

/// Reads every run, and writes each to a file as the API shows it.
pub async fn runs(client: &Client, file: &Path) -> Result<Vec<RunRecord>, String> {
    let mut file = File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (mut runs, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/runs?limit=1000{cursor}");
        let answer = client.insist("GET", &path, None, INSISTS).await?;
        let page = answer.json();
        let items = page["items"].as_array().ok_or_else(|| format!("GET {path}: {}", answer.text()))?;
        for item in items {
            writeln!(file, "{item}").map_err(|error| error.to_string())?;
            let run = RunRecord::deserialize(item).map_err(|error| format!("{item}: {error}"))?;
            runs.push(run);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(runs),
        }
    }
}
