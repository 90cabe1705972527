//! What a person was promised, tried on the real binary with a real agent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::house::{Agent, Answer, Folder, Server, eventually, from_now, job, millis};
use serde_json::{Value, json};

/// How late a run may arrive on a machine that does other things too.
const SOON_MS: i64 = 1_500;

fn state(run: &Value) -> &str {
    run["state"].as_str().expect("a state")
}

async fn submit(server: &Server, run: Value) -> u64 {
    let accepted = server.post("/runs", run).await;
    assert!((200..=202).contains(&accepted.status), "{}", accepted.text());
    accepted.json()["ids"][0].as_u64().expect("an id")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_fires_at_the_named_second_and_its_history_says_so() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let schedule = json!({"kind": "cron", "expression": "*/2 * * * * *"});
    let id = server.create(job("tick", schedule, &agent.url("/tick?x=1"))).await;
    eventually("it fired three times", async || agent.count() >= 3).await;
    for seen in agent.seen() {
        let named = millis(&json!(seen.header("punctual-fire-time")));
        assert_eq!(named % 2_000, 0, "{seen:?}");
        assert!((0..SOON_MS).contains(&(seen.at - named)), "{} ms late", seen.at - named);
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/tick?x=1"));
        assert_eq!((seen.header("punctual-job"), seen.header("punctual-attempt")), (&*id.to_string(), "1"));
        assert!(seen.header("traceparent").starts_with("00-"), "{seen:?}");
        assert!(seen.header("punctual-fencing-token").parse::<u64>().is_ok(), "{seen:?}");
    }
    let run = server.ended(agent.seen()[0].run()).await;
    assert_eq!((state(&run), run["origin"].as_str()), ("succeeded", Some("schedule")));
    assert!((0..SOON_MS).contains(&run["lag_ms"].as_i64().expect("a lag")), "{run}");
    assert_eq!(run["attempts"][0]["outcome"], "succeeded");
    assert!(run["attempts"][0]["message"].as_str().expect("text").starts_with("200"), "{run}");
    let why = server.get(&format!("/runs/{}/why", run["id"])).await.json();
    assert!(!why["sentence"].as_str().expect("a sentence").is_empty());
    let shown = server.get(&format!("/jobs/{id}")).await.json();
    assert_eq!(shown["last_status"], "succeeded");
    assert!(millis(&shown["next_fire_time"]) > millis(&run["fire_time"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_is_tried_again_after_one_two_and_four_seconds_but_no_longer_than_the_cap() {
    let folder = Folder::new();
    let agent = Agent::scripted(|_, _| Answer::status(500)).await;
    let server = Server::start(&folder).await;
    let mut failing = job("failing", json!({"kind": "manual"}), &agent.url("/"));
    failing["retry"] =
        json!({"max_attempts": 5, "initial_delay": "1s", "multiplier": 2.0, "max_delay": "3s"});
    let id = server.create(failing).await;
    let run = server.post(&format!("/jobs/{id}/run"), json!({})).await;
    assert_eq!(run.status, 202, "{}", run.text());
    let run = server.ended(run.json()["run"].as_u64().expect("an id")).await;
    assert_eq!(state(&run), "failed");
    let seen = agent.seen();
    assert_eq!(
        seen.iter().map(|seen| seen.header("punctual-attempt")).collect::<Vec<_>>(),
        ["1", "2", "3", "4", "5"]
    );
    let waits: Vec<i64> = seen.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    for (wait, least) in waits.iter().zip([1_000, 2_000, 3_000, 3_000]) {
        // Jitter adds up to a fifth, and the machine a little.
        assert!((least..least * 6 / 5 + SOON_MS).contains(wait), "{waits:?}");
    }
    let outcomes: Vec<&Value> =
        run["attempts"].as_array().expect("a list").iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["failed"; 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_agent_says_when_to_come_back_and_a_refusal_is_final() {
    let folder = Folder::new();
    let busy = Answer { headers: vec![("retry-after", "2".into())], ..Answer::status(429) };
    let agent = Agent::scripted(move |number, seen| match (seen.path.as_str(), number) {
        ("/busy", 0) => busy.clone(),
        ("/busy", _) => Answer::status(204),
        _ => Answer::status(404),
    })
    .await;
    let server = Server::start(&folder).await;
    let busy = server.create(job("busy", json!({"kind": "manual"}), &agent.url("/busy"))).await;
    let run =
        server.post(&format!("/jobs/{busy}/run"), json!({})).await.json()["run"].as_u64().expect("an id");
    assert_eq!(state(&server.ended(run).await), "succeeded");
    let seen = agent.seen();
    assert!(seen[1].at - seen[0].at >= 2_000, "{} ms", seen[1].at - seen[0].at);
    let refused = server.create(job("refused", json!({"kind": "manual"}), &agent.url("/refused"))).await;
    let run =
        server.post(&format!("/jobs/{refused}/run"), json!({})).await.json()["run"].as_u64().expect("an id");
    let run = server.ended(run).await;
    assert_eq!((state(&run), run["attempts"].as_array().expect("a list").len()), ("failed", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_gone_disables_its_job() {
    let folder = Folder::new();
    let agent = Agent::scripted(|_, _| Answer::status(410)).await;
    let server = Server::start(&folder).await;
    let id = server.create(job("gone", json!({"kind": "every", "interval": "1s"}), &agent.url("/"))).await;
    eventually("the job is stopped", async || {
        server.get(&format!("/jobs/{id}")).await.json()["enabled"] == json!(false)
    })
    .await;
    let shown = server.get(&format!("/jobs/{id}")).await.json();
    assert!(shown["stopped_reason"].as_str().expect("a reason").contains("410"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_answer_to_stop_nothing_fires_and_an_edit_is_in_the_next_fire() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let every = json!({"kind": "every", "interval": "100ms"});
    let id = server.create(job("often", every, &agent.url("/old"))).await;
    eventually("it fires", async || agent.count() >= 5).await;
    let edited = json!({"target": {"kind": "http", "url": agent.url("/new")}});
    let answer = server.ask("PATCH", &format!("/jobs/{id}"), Some(edited)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let at_edit = agent.count();
    eventually("it fires on", async || agent.count() >= at_edit + 5).await;
    // What was on its way when the answer came may still arrive.
    let late: Vec<_> =
        agent.seen().split_off(at_edit + 1).into_iter().filter(|seen| seen.path == "/old").collect();
    assert!(late.is_empty(), "{late:?}");
    let stopped = server.post(&format!("/jobs/{id}/stop"), json!({})).await;
    assert_eq!(stopped.status, 200, "{}", stopped.text());
    let asked_at = millis(&json!(from_now(0)));
    eventually("a second has passed", async || millis(&json!(from_now(0))) > asked_at + 1_000).await;
    let after: Vec<_> = agent.seen().into_iter().filter(|seen| seen.at > asked_at + 50).collect();
    assert!(after.is_empty(), "{after:?}");
    let shown = server.get(&format!("/jobs/{id}")).await;
    assert_eq!((shown.status, &shown.json()["stopped_reason"]), (200, &json!("asked")), "{}", shown.text());
    let refused = server.post("/runs", json!({"job": id})).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_of_the_past_is_shown_first_and_then_run_once() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let mut hourly = job("hourly", json!({"kind": "cron", "expression": "0 * * * *"}), &agent.url("/"));
    hourly["enabled"] = json!(false);
    let id = server.create(hourly).await;
    let range =
        |dry_run: bool| json!({"from": from_now(-6 * 3_600_000), "to": from_now(0), "dry_run": dry_run});
    let preview = server.post(&format!("/jobs/{id}/backfill"), range(true)).await.json();
    let count = preview["count"].as_u64().expect("a count");
    assert!((5..=6).contains(&count) && preview["created"] == 0, "{preview}");
    assert_eq!(agent.count(), 0);
    let done = server.post(&format!("/jobs/{id}/backfill"), range(false)).await.json();
    assert_eq!(done["created"].as_u64(), Some(count), "{done}");
    eventually("all have run", async || agent.count() as u64 >= count).await;
    let again = server.post(&format!("/jobs/{id}/backfill"), range(false)).await.json();
    assert_eq!(again["created"], 0, "{again}");
    let mut named: Vec<String> =
        agent.seen().iter().map(|seen| seen.header("punctual-fire-time").to_owned()).collect();
    named.sort();
    named.dedup();
    assert_eq!(named.len() as u64, count, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_one_shot_can_be_cancelled_or_put_off_and_a_key_makes_it_one() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let id = server.create(job("shots", json!({"kind": "manual"}), &agent.url("/"))).await;
    let far = json!({"job": id, "at": from_now(3_600_000), "payload": {"n": 1}, "key": "k"});
    let (first, again) = (submit(&server, far.clone()).await, submit(&server, far).await);
    assert_eq!(first, again, "the key makes it a duplicate");
    let sooner = server.post(&format!("/runs/{first}/reschedule"), json!({"at": from_now(300)})).await;
    assert!(sooner.status < 300, "{}", sooner.text());
    assert_eq!(state(&server.ended(first).await), "succeeded");
    assert_eq!(agent.seen()[0].body, "{\"n\":1}");
    let unwanted = submit(&server, json!({"job": "test/shots", "at": from_now(1_000)})).await;
    let cancelled = server.post(&format!("/runs/{unwanted}/cancel"), json!({})).await;
    assert_eq!((cancelled.status, &cancelled.json()["result"]), (202, &json!("done")));
    assert_eq!(state(&server.ended(unwanted).await), "cancelled");
    let late = server.post(&format!("/runs/{unwanted}/cancel"), json!({})).await;
    assert_eq!((late.status, &late.json()["result"]), (202, &json!("too_late")));
    assert_eq!(server.post("/runs/4711/cancel", json!({})).await.status, 404);
    let due = millis(&json!(from_now(1_300)));
    eventually("its time has passed", async || millis(&json!(from_now(0))) > due).await;
    assert_eq!(agent.count(), 1, "a cancelled run is not sent");
    let repeated = server.post(&format!("/runs/{first}/retry"), json!({})).await;
    assert_eq!(repeated.status, 202, "{}", repeated.text());
    let repeated = server.ended(repeated.json()["run"].as_u64().expect("an id")).await;
    assert_eq!((state(&repeated), repeated["retry_of"].as_u64()), ("succeeded", Some(first)));
}

/// Hands over many one-shots around now, ends the server in the middle, starts it again, and asks whether each ran.
async fn survives(end: impl AsyncFn(Server)) {
    const COUNT: usize = 600;
    let folder = Folder::new();
    let agent =
        Agent::scripted(|_, _| Answer { after: Duration::from_millis(5), ..Answer::status(200) }).await;
    let server = Server::start(&folder).await;
    let id = server.create(job("many", json!({"kind": "manual"}), &agent.url("/"))).await;
    let tick =
        server.create(job("tick", json!({"kind": "every", "interval": "50ms"}), &agent.url("/tick"))).await;
    let one = |number: usize| json!({"job": id, "at": from_now(number as i64 * 10), "payload": number});
    let runs: Vec<Value> = (0..COUNT).map(one).collect();
    let accepted = server.post("/runs", json!({"runs": runs})).await;
    assert_eq!(accepted.json()["accepted"].as_u64(), Some(COUNT as u64), "{}", accepted.text());
    let ids: Vec<u64> =
        accepted.json()["ids"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    eventually("a third has run", async || agent.count() > COUNT / 3).await;
    end(server).await;
    let server = Server::start(&folder).await;
    for run in &ids {
        assert_eq!(state(&server.ended(*run).await), "succeeded", "run {run}");
    }
    let mut arrived: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
    for seen in agent.seen() {
        let may_repeat = seen.header("punctual-possible-duplicate") == "true";
        arrived.entry(seen.run()).or_default().push(may_repeat);
    }
    for run in ids {
        let marks = &arrived[&run];
        assert!(
            marks[1..].iter().all(|may_repeat| *may_repeat),
            "run {run} came again and did not say so: {marks:?}"
        );
    }
    // Every instant of the interval has one record, those of the time in between too.
    server.post(&format!("/jobs/{tick}/stop"), json!({})).await;
    let mut expected = None;
    for run in server.runs(tick).await {
        let (from, count) = (millis(&run["fire_time"]), run["count"].as_u64().unwrap_or(1) as i64);
        if let Some(expected) = expected {
            assert_eq!(from, expected, "an instant is missing before {run}");
        }
        expected = Some(from + 50 * count);
    }
    assert!(expected.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_in_the_middle_of_everything_loses_nothing() {
    survives(async |server| assert!(server.stop().success())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_of_everything_loses_nothing() {
    survives(async |server| server.kill()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_arrive_at_most_once_does_even_when_the_node_is_killed() {
    let folder = Folder::new();
    let agent = Agent::scripted(|_, _| Answer { after: Duration::from_secs(2), ..Answer::status(200) }).await;
    let server = Server::start(&folder).await;
    let mut once = job("once", json!({"kind": "manual"}), &agent.url("/"));
    once["delivery"] = json!("at_most_once");
    once["timeout"] = json!("3s");
    let id = server.create(once).await;
    let run = submit(&server, json!({"job": id})).await;
    eventually("it is on its way", async || agent.count() == 1).await;
    server.kill();
    let server = Server::start(&folder).await;
    assert_eq!(state(&server.ended(run).await), "lost");
    assert_eq!(agent.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_open_doors_are_sent_and_shown_to_nobody() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let mut wanted = job("guarded", json!({"kind": "manual"}), &agent.url("/"));
    wanted["target"]["headers"] = json!({"Authorization": "Bearer sesame", "X-Tenant": "north"});
    let id = server.create(wanted).await;
    let masked = json!({"Authorization": "…", "X-Tenant": "north"});
    let path = format!("/jobs/{id}");
    let shown = server.get(&path).await.json();
    assert_eq!(shown["target"]["headers"], masked);
    // A part is changed, then the whole is written as it was shown.
    let patch = json!({"target": {"headers": {"X-Tenant": "south"}}});
    assert_eq!(server.ask("PATCH", &path, Some(patch)).await.status, 200);
    let (app, name) = ("test", "guarded");
    let mut whole = json!({"app": app, "name": name, "description": "twice"});
    whole["schedule"] = shown["schedule"].clone();
    whole["target"] = shown["target"].clone();
    let put = server.ask("PUT", &format!("/jobs/by-name/{app}/{name}"), Some(whole.clone())).await;
    assert_eq!((put.status, &put.json()["target"]["headers"]), (200, &masked), "{}", put.text());
    let run = server.post(&format!("{path}/run"), json!({})).await.json()["run"].as_u64().expect("an id");
    assert_eq!(server.ended(run).await["state"], "succeeded");
    assert_eq!(agent.seen()[0].header("authorization"), "Bearer sesame");
    let elsewhere = Agent::content().await;
    whole["target"]["url"] = json!(elsewhere.url("/"));
    let moved = server.ask("PUT", &format!("/jobs/by-name/{app}/{name}"), Some(whole)).await;
    assert_eq!(moved.status, 422, "{}", moved.text());
    let revisions = server.get(&format!("{path}/revisions")).await.text();
    assert!(revisions.contains('…') && !revisions.contains("sesame"), "{revisions}");
}
