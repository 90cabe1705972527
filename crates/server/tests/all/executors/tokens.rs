//! Tokens: who is let in, and whom we are let in by.

use serde_json::{Value, json};

use super::kind::Kind;
use super::stage::{Executor, Stage, TOKEN, all, assert_run, each};
use crate::house::{Folder, command, eventually};

/// Waits until an executor was heard and refused.
async fn refused(stage: &Stage, executor: &Executor) {
    // It is told by an event; who was refused is in none of the lists.
    eventually(&format!("{} was refused", executor.url), async || {
        executor.assert_alive();
        stage.log().contains(&executor.url)
    })
    .await;
    assert!(stage.executors(&executor.app).await.is_empty(), "{}", executor.app);
}

#[tokio::test]
async fn with_the_wrong_token_or_none_nobody_is_let_in() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let wrong = stage.start_executor(kind, &format!("{}-wrong", kind.name()), "wrong").await;
        refused(&stage, &wrong).await;
        // The last one does not start without.
        if kind != Kind::XxlJobExecutor {
            let without = stage.start_executor(kind, &format!("{}-without", kind.name()), "").await;
            refused(&stage, &without).await;
        }
        let right = stage.hire(kind).await;
        let job = stage.job(kind.name(), "ok", json!({})).await;
        assert_run(kind, &stage.run(job, "7").await, ("succeeded", "succeeded", "did 7"));
        right.assert_alive();
    })
    .await;
}

#[tokio::test]
async fn an_app_has_a_token_of_its_own() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let own = format!("only-for-{}", kind.name());
        let path = format!("/apps/{}", kind.name());
        let made = stage.server.ask("PUT", &path, Some(json!({"access_token": own}))).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let others = stage.start_executor(kind, kind.name(), TOKEN).await;
        refused(&stage, &others).await;
        let right = stage.start_executor(kind, kind.name(), &own).await;
        stage.listed(&right).await;
        let job = stage.job(kind.name(), "ok", json!({})).await;
        // Three of them would refuse to be called with another.
        assert_run(kind, &stage.run(job, "7").await, ("succeeded", "succeeded", "did 7"));
    })
    .await;
}

#[tokio::test]
async fn a_server_without_a_token_takes_neighbours_and_shows_them_none() {
    let stage = Stage::with("").await;
    let taken = |kind: Kind, token: &'static str, expected: (&'static str, &'static str, &'static str)| {
        let (stage, app) = (stage.clone(), format!("{}-{}", kind.name(), token.len()));
        let scenario = async move {
            let executor = stage.start_executor(kind, &app, token).await;
            stage.listed(&executor).await;
            let job = stage.job(&app, "ok", json!({})).await;
            assert_run(kind, &stage.run(job, "7").await, expected);
        };
        (kind.name(), scenario)
    };
    let good = ("succeeded", "succeeded", "did 7");
    all([
        taken(Kind::Pyxxl, "", good),
        taken(Kind::Pyxxl, "any", good),
        taken(Kind::PyxxlOld, "default_token", good),
        taken(Kind::XxlJob, "", good),
        taken(Kind::XxlJob, "any", ("failed", "refused", "Access token incorrect.")),
        taken(Kind::XxlJobExecutor, "any", ("failed", "refused", "access token incorrect")),
        taken(Kind::Java, "", good),
        taken(Kind::Java, "any", ("failed", "refused", "The access token is wrong.")),
    ])
    .await;
}

#[tokio::test]
async fn the_token_that_everybody_knows_is_for_those_who_say_so() {
    let known = "[executors]\naccess_token = \"default_token\"\n";
    let folder = Folder::new();
    let config = folder.path().join("punctual.toml");
    std::fs::write(&config, known).expect("a file");
    let output = command()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .arg("--config")
        .arg(&config)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("allow_default_token"), "{said}");
    let stage = Stage::with(&format!("{known}allow_default_token = true\n")).await;
    each(&stage, async |stage, kind| {
        let executor = stage.start_executor(kind, kind.name(), "default_token").await;
        stage.listed(&executor).await;
        let job = stage.job(kind.name(), "ok", json!({})).await;
        assert_run(kind, &stage.run(job, "7").await, ("succeeded", "succeeded", "did 7"));
    })
    .await;
    let put = stage.server.ask("PUT", "/apps/pyxxl", Some(json!({"access_token": "default_token"}))).await;
    assert_eq!(put.status, 200, "{}", put.text());
    let shown: Value = stage.server.get("/apps/pyxxl").await.json();
    assert!(!shown.to_string().contains("default_token"), "{shown}");
}
