//! Somebody is away for a while, or for ever.

use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::kind::{KINDS, Kind, Release};
use super::stage::{Executor, How, Stage, TOKEN, all, assert_run, attempt, each, port, state};
use crate::cluster::database::{Database, Engine};
use crate::house::{eventually, millis};

/// A stage where the silence of executors is noticed soon.
async fn watchful() -> Rc<Stage> {
    Stage::with(&format!(
        "[executors]\naccess_token = {TOKEN:?}\n[registry]\nbeat = \"5s\"\ndead = \"15s\"\nsweep = \"5s\"\n"
    ))
    .await
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

/// Starts a run that sleeps on one executor of each of these kinds, and waits until all of them have it.
async fn sleepers(stage: &Rc<Stage>, kinds: &[Kind], seconds: &str) -> Vec<(Executor, u64)> {
    let mut hired = Vec::new();
    for kind in kinds {
        hired.push(stage.start_executor(*kind, kind.name(), TOKEN).await);
    }
    let mut sleepers = Vec::new();
    for executor in hired {
        stage.listed(&executor).await;
        let job = stage.job(&executor.app, "sleep", json!({})).await;
        let id = stage.start(job, seconds).await;
        sleepers.push((executor, id));
    }
    for (executor, _) in &sleepers {
        executor.called(1).await;
    }
    sleepers
}

async fn survives(how: How) {
    let stage = Stage::new().await;
    // Longer than a restart on a busy machine: those for Node say only once that they are done.
    let sleepers = sleepers(&stage, &KINDS, "8").await;
    let stage = stage.restart(how, async {}).await;
    for (executor, id) in &sleepers {
        let run = stage.server.ended(*id).await;
        assert_run(executor.kind, &run, ("succeeded", "succeeded", "slept 8"));
        assert_eq!(executor.calls().len(), 1, "{}: it ran once", executor.kind.name());
        executor.assert_alive();
        // It needs not to register again to be sent more.
        let job = stage.job(&executor.app, "ok", json!({})).await;
        assert_run(executor.kind, &stage.run(job, "7").await, ("succeeded", "succeeded", "did 7"));
    }
}

#[tokio::test]
async fn a_run_survives_that_its_node_is_stopped_and_started() {
    survives(How::Asked).await;
}

#[tokio::test]
async fn a_run_survives_that_its_node_is_killed_and_started() {
    survives(How::Killed).await;
}

/// A run ends while nobody is there to hear of it.
async fn is_brought_again(kinds: &[Kind]) {
    let stage = Stage::new().await;
    let sleepers = sleepers(&stage, kinds, "1").await;
    let begun =
        sleepers.iter().map(|(executor, _)| executor.calls()[0]["at"].as_i64().expect("a time")).max();
    let ended = begun.expect("some") + 1_500;
    let stage = stage
        .restart(How::Killed, async {
            let left = ended.saturating_sub(now_ms()).max(0);
            tokio::time::sleep(Duration::from_millis(left as u64)).await;
        })
        .await;
    for (executor, id) in &sleepers {
        let run = stage.server.ended(*id).await;
        assert_run(executor.kind, &run, ("succeeded", "succeeded", "slept 1"));
        assert_eq!(executor.calls().len(), 1, "{}", executor.kind.name());
    }
}

#[tokio::test]
async fn a_result_that_found_nobody_is_brought_again_after_five_seconds_by_those_for_python() {
    // The two for Node never try a second time.
    is_brought_again(&[Kind::Pyxxl, Kind::PyxxlOld]).await;
}

#[tokio::test]
async fn a_result_that_found_nobody_is_brought_again_after_half_a_minute_by_xxl_jobs_own() {
    is_brought_again(&[Kind::Java]).await;
}

#[tokio::test]
async fn who_says_goodbye_gets_nothing_more_at_once() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let leaving = stage.hire(kind).await;
        leaving.stop().await;
        let left = stage.executors(kind.name()).await;
        assert!(left.is_empty(), "{}: {left:?}", kind.name());
        // What comes now waits for the next one.
        let job = stage.job(kind.name(), "ok", json!({})).await;
        let waiting = stage.start(job, "7").await;
        let why = stage.server.get(&format!("/runs/{waiting}/why")).await.json();
        assert!(why["sentence"].as_str().expect("a sentence").contains("no executor"), "{why}");
        assert_eq!(state(&stage.server.run(waiting).await), "pending");
        let next = stage.hire(kind).await;
        let run = stage.server.ended(waiting).await;
        assert_run(kind, &run, ("succeeded", "succeeded", "did 7"));
        assert_eq!(run["attempts"][0]["executor"], json!(next.url));
    })
    .await;
}

#[tokio::test]
async fn after_the_sudden_death_of_an_executor_runs_go_elsewhere() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let (dead, living) = tokio::join!(stage.hire(kind), stage.hire(kind));
        dead.kill();
        // Whoever asks first finds out at once, and the others with the first refusal or two.
        let asking = stage.job(kind.name(), "ok", json!({"target": {"route": "failover"}})).await;
        let run = stage.run(asking, "7").await;
        assert_run(kind, &run, ("succeeded", "succeeded", "did 7"));
        assert_eq!(run["attempts"][0]["executor"], json!(living.url), "{run:#}");
        let retry = json!({"max_attempts": 20, "initial_delay": "1s", "multiplier": 1.0});
        for route in ["first", "last"] {
            let job = stage.job(kind.name(), "ok", json!({"target": {"route": route}, "retry": retry})).await;
            let run = stage.run(job, "7").await;
            let last = run["attempts"].as_array().expect("attempts").last().expect("one");
            assert_eq!((state(&run), &last["executor"]), ("succeeded", &json!(living.url)), "{run:#}");
        }
    })
    .await;
}

/// How what an executor has comes to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Goodbye,
    Death,
    DeathAndReturn,
    /// Nobody has the time to notice that it was away.
    DeathAndReturnAtOnce,
}

/// All of them at once, for it takes more than a minute.
#[tokio::test]
async fn what_an_executor_had_is_lost_when_it_is_gone_and_said_nothing() {
    let stage = watchful().await;
    let fates = [Fate::Goodbye, Fate::Death, Fate::DeathAndReturn, Fate::DeathAndReturnAtOnce];
    let all_of = |kind: Kind| fates.map(|fate| (kind.name(), loses(Rc::clone(&stage), kind, fate)));
    all(KINDS.into_iter().flat_map(all_of)).await;
}

async fn loses(stage: Rc<Stage>, kind: Kind, fate: Fate) {
    let app = format!("{}-{fate:?}", kind.name());
    let executor = stage.hire_for(kind, &app).await;
    let twice = json!({"timeout": "10m", "retry": {"max_attempts": 2, "initial_delay": "100ms"}});
    let returns = matches!(fate, Fate::DeathAndReturn | Fate::DeathAndReturnAtOnce);
    let more = if returns { twice } else { json!({"timeout": "10m"}) };
    let job = stage.job(&app, "sleep", more).await;
    let id = stage.start(job, "5").await;
    executor.called(1).await;
    match fate {
        Fate::Goodbye => drop(executor.stop().await),
        Fate::Death | Fate::DeathAndReturn | Fate::DeathAndReturnAtOnce => executor.kill(),
    }
    if fate != Fate::DeathAndReturnAtOnce {
        eventually("nothing is sent to it", async || {
            stage.executors(&app).await.iter().all(|one| one["routable"] == json!(false))
        })
        .await;
    }
    let again = match returns {
        true => Some(stage.start_at(executor.port, kind, &app, TOKEN).await),
        false => None,
    };
    let run = ended_within_two_minutes(&stage, id).await;
    let (outcome, message) = attempt(&run, 0);
    match (fate, kind) {
        // It says what it ends before it goes.
        (Fate::Goodbye, Kind::Java) => {
            assert_run(kind, &run, ("failed", "failed", "web container destroy and kill the job"));
        }
        (Fate::Goodbye | Fate::Death, _) => {
            assert_eq!((state(&run), outcome), ("lost", "lost"), "{app}: {run:#}");
            assert!(message.contains("is gone"), "{app}: {message}");
        }
        (Fate::DeathAndReturn | Fate::DeathAndReturnAtOnce, _) => {
            // It was asked, said that it is idle, and was believed, for it was away or is another process.
            assert_eq!((state(&run), outcome), ("succeeded", "lost"), "{app}: {run:#}");
            assert!(message.contains("no such run"), "{app}: {message}");
            assert_eq!(again.expect("it is back").calls().len(), 2, "{app}: once before and once after");
        }
    }
}

async fn ended_within_two_minutes(stage: &Stage, id: u64) -> Value {
    let started = Instant::now();
    while !stage.server.run(id).await["closed_at"].is_string() {
        assert!(started.elapsed() < Duration::from_secs(120), "still open: {:#}", stage.server.run(id).await);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    stage.server.run(id).await
}

#[tokio::test]
async fn a_run_that_finds_no_executor_waits_for_one_and_then_says_so() {
    let stage = Stage::with("[registry]\nwait = \"2s\"\n").await;
    let job = stage.job("nobody", "ok", json!({})).await;
    let id = stage.start(job, "7").await;
    assert_eq!(state(&stage.server.run(id).await), "pending");
    let run = stage.server.ended(id).await;
    assert_eq!((state(&run), &run["attempts"]), ("failed", &json!([])), "{run:#}");
    assert!(run["reason"].as_str().expect("a reason").contains("no executor"), "{run:#}");
    let waited = millis(&run["closed_at"]) - millis(&run["fire_time"]);
    assert!((2_000..10_000).contains(&waited), "{waited} ms");
}

#[tokio::test]
async fn who_knows_two_addresses_of_ours_needs_only_one() {
    let stage = Stage::new().await;
    let nobody = format!("http://127.0.0.1:{}/xxl-job-admin", port());
    // Of those here only XXL-JOB's own knows more than one.
    let admins = format!("{nobody},{}", stage.admin());
    let executor = stage.start_for(&admins, port(), Kind::Java, "java", TOKEN).await;
    stage.listed(&executor).await;
    let job = stage.job("java", "ok", json!({})).await;
    assert_run(Kind::Java, &stage.run(job, "7").await, ("succeeded", "succeeded", "did 7"));
}

/// How long runs last that outlive a node: longer than it takes to give up an executor that is not heard of.
const LONG: &str = "100";

/// One that would be tried again if it were taken for lost.
fn patient() -> Value {
    json!({"timeout": "10m", "retry": {"max_attempts": 3, "initial_delay": "100ms"}})
}

/// All of them at once, for it takes more than a minute and a half.
#[tokio::test]
async fn xxl_jobs_own_executor_starts_each_run_once_whatever_becomes_of_nodes() {
    type Played = Pin<Box<dyn Future<Output = ()>>>;
    let scenarios: [(&str, Played); 6] = [
        ("2.4 over a restart", Box::pin(over_a_restart(Release::Old))),
        ("3.3 over a restart", Box::pin(over_a_restart(Release::New))),
        ("2.4 over a takeover", Box::pin(over_a_takeover(Release::Old))),
        ("3.3 over a takeover", Box::pin(over_a_takeover(Release::New))),
        ("2.4 over an absence", Box::pin(over_an_absence(Release::Old))),
        ("3.3 over an absence", Box::pin(over_an_absence(Release::New))),
    ];
    all(scenarios).await;
}

/// The node is killed and started while two runs last. One of them goes on to its end; the other is killed afterwards.
async fn over_a_restart(release: Release) {
    let stage = Stage::new().await;
    let executor = stage.hire_release(release, &stage.admin(), "java").await;
    let (lasting, ending) =
        (stage.job("java", "sleep", patient()).await, stage.job("java", "sleep", patient()).await);
    let (lasts, ends) = (stage.start(lasting, LONG).await, stage.start(ending, "300").await);
    executor.called(2).await;
    let stage = stage.restart(How::Killed, async {}).await;
    let answer = stage.server.post(&format!("/runs/{ends}/cancel"), json!({})).await;
    assert!((200..=202).contains(&answer.status), "{}", answer.text());
    let kill = stage.kill_of(ends).await;
    assert_eq!(kill["state"], "confirmed", "{release:?}: {kill}");
    executor.idle(ending).await;
    let run = ended_within_two_minutes(&stage, lasts).await;
    assert_run(Kind::Java, &run, ("succeeded", "succeeded", &format!("slept {LONG}")));
    assert_eq!(executor.calls().len(), 2, "{release:?}: each was started once: {:?}", executor.calls());
}

/// A node sends runs, another joins it, and the first is killed: some of its runs are handed over, the others taken over.
async fn over_a_takeover(release: Release) {
    if !Engine::Postgres.is_wanted() {
        return;
    }
    let database = Database::new(Engine::Postgres);
    let (mine, others) = (port(), port());
    let first = Stage::over(database.url(), mine).await;
    let admins = [mine, others].map(|port| format!("http://127.0.0.1:{port}/xxl-job-admin")).join(",");
    let executor = first.hire_release(release, &admins, "java").await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        let job = first.job("java", "sleep", patient()).await;
        runs.push(first.start(job, LONG).await);
    }
    executor.called(4).await;
    let second = Stage::over(database.url(), others).await;
    eventually("both have shards", async || owners(&second).await == 2).await;
    // The folder stays: the executor works there.
    let Stage { server, folder: _folder, .. } = first;
    server.kill();
    for id in runs {
        let run = ended_within_two_minutes(&second, id).await;
        assert_run(Kind::Java, &run, ("succeeded", "succeeded", &format!("slept {LONG}")));
    }
    assert_eq!(executor.calls().len(), 4, "{release:?}: each was started once: {:?}", executor.calls());
}

/// How many nodes act for shards.
async fn owners(stage: &Stage) -> usize {
    let shards = stage.server.get("/shards").await.json();
    let owners =
        shards["items"].as_array().expect("a list").iter().filter_map(|shard| shard["node"].as_str());
    owners.collect::<std::collections::BTreeSet<_>>().len()
}

/// Runs end while nobody is there to hear of it for 20 s, and they may take 30 s.
async fn over_an_absence(release: Release) {
    const AWAY: Duration = Duration::from_secs(20);
    let stage = Stage::new().await;
    let executor = stage.hire_release(release, &stage.admin(), "java").await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let tried_again = json!({"retry": {"max_attempts": 3, "initial_delay": "100ms"}});
        let job = stage.job("java", "sleep", tried_again).await;
        runs.push(stage.start(job, "5").await);
    }
    executor.called(3).await;
    let stage = stage.restart(How::Killed, tokio::time::sleep(AWAY)).await;
    for id in runs {
        let run = ended_within_two_minutes(&stage, id).await;
        assert_run(Kind::Java, &run, ("succeeded", "succeeded", "slept 5"));
    }
    assert_eq!(executor.calls().len(), 3, "{release:?}: each was started once: {:?}", executor.calls());
}

#[tokio::test]
async fn a_restarted_node_knows_its_executors_before_it_says_that_it_is_ready() {
    let mut stage = Stage::new().await;
    let address = format!("http://127.0.0.1:{}/", port());
    let beat = json!({"registryGroup": "EXECUTOR", "registryKey": "app", "registryValue": address});
    for how in [How::Killed, How::Asked, How::Killed] {
        let answer = stage.door("registry", TOKEN, beat.clone()).await;
        assert_eq!(answer.json()["code"], json!(200), "{}", answer.text());
        stage = stage.restart(how, async {}).await;
        // No `eventually`: the first answer after the first 200 of /readyz counts.
        let known = stage.executors("app").await;
        assert!(known.iter().any(|one| one["address"] == json!(address)), "{how:?}: {known:?}");
    }
}
