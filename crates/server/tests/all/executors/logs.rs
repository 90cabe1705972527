//! What handlers write, from the first line to the last.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Stage, each};
use crate::house::{command, eventually};

/// The lines of the handler, out of whatever the executor makes of them.
fn lines(text: &str) -> Vec<&str> {
    let said = |line: &'static str| move |text: &str| text.contains(line);
    let is_ours = |line: &&str| said(" of 12")(line) || said("params 12, shard 0/1")(line);
    text.lines()
        .filter(is_ours)
        .map(|line| &line[line.rfind("line ").or(line.rfind("params ")).unwrap_or(0)..])
        .collect()
}

fn expected() -> Vec<String> {
    let numbered = (1..=12).map(|number| format!("line {number} of 12"));
    std::iter::once("params 12, shard 0/1".to_owned()).chain(numbered).collect()
}

/// Reads a log page by page while it is written, until it has ended.
async fn followed(stage: &Rc<Stage>, id: u64) -> (String, usize) {
    let (mut text, mut next, mut pages) = (String::new(), 1, 0);
    loop {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let page = stage.server.get(&format!("/runs/{id}/log?from={next}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        let said = page["text"].as_str().expect("text");
        pages += usize::from(!said.is_empty());
        text.push_str(said);
        next = page["next"].as_u64().expect("a line").max(next);
        if page["end"] == json!(true) {
            return (text, pages);
        }
    }
}

/// What the command line shows of a log.
async fn shown(stage: &Rc<Stage>, id: u64, more: &[&str]) -> String {
    let mut command = command();
    command.args(["run", "log", &id.to_string()]).args(more);
    command.env("PUNCTUAL_URL", &stage.server.url).env("PUNCTUAL_TOKEN", &stage.server.token);
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("it starts")).await.expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test]
async fn every_line_is_read_once_and_in_order_while_it_is_written_and_afterwards() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "chatty", json!({})).await;
        let id = stage.start(job, "12").await;
        executor.called(1).await;
        let ((text, pages), followed) = tokio::join!(followed(&stage, id), shown(&stage, id, &["--follow"]));
        assert_eq!(lines(&text), expected(), "{} page by page:\n{text}", kind.name());
        assert!(pages > 1, "{}: it was read while it was written", kind.name());
        assert_eq!(lines(&followed), expected(), "{} followed:\n{followed}", kind.name());
        let after = shown(&stage, id, &[]).await;
        assert_eq!(lines(&after), expected(), "{} at once:\n{after}", kind.name());
    })
    .await;
}

#[tokio::test]
async fn a_log_that_was_read_once_outlives_its_executor() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "chatty", json!({})).await;
        let id = stage.start(job, "12").await;
        stage.server.ended(id).await;
        let whole = async || -> Value { stage.server.get(&format!("/runs/{id}/log")).await.json() };
        // What an executor wrote last may be in its file a moment after it has reported.
        eventually("the log is whole", async || {
            lines(whole().await["text"].as_str().unwrap_or_default()).len() == expected().len()
        })
        .await;
        let before = whole().await;
        assert_eq!(before["end"], json!(true), "{}: {before}", kind.name());
        executor.kill();
        assert_eq!(whole().await, before, "{}", kind.name());
    })
    .await;
}
