//! One-shots that bring their own timeout and retry, on the real binary with a real agent.

use std::time::Duration;

use crate::house::{Agent, Answer, Folder, Server, ask, eventually, from_now, job};
use serde_json::{Value, json};

/// An agent that fails what is bad, and takes its time for what is slow.
async fn agent() -> Agent {
    Agent::scripted(|_, seen| match seen.body.as_str() {
        "bad" => Answer::status(500),
        "slow" => Answer { after: Duration::from_secs(25), ..Answer::status(200) },
        _ => Answer::status(200),
    })
    .await
}

/// A job that tries six times at once, and gives an attempt half a minute.
async fn patient(server: &Server, agent: &Agent) -> u64 {
    let mut patient = job("patient", json!({"kind": "manual"}), &agent.url("/"));
    patient["retry"] = json!({"max_attempts": 6, "initial_delay": "10ms"});
    server.create(patient).await
}

async fn submit(server: &Server, run: Value) -> u64 {
    let accepted = server.post("/runs", run).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    accepted.json()["ids"][0].as_u64().expect("an id")
}

fn outcomes(run: &Value) -> Vec<&str> {
    let attempts = run["attempts"].as_array().expect("a list");
    attempts.iter().map(|attempt| attempt["outcome"].as_str().expect("an outcome")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_one_shot_is_held_to_its_own_timeout_and_retry_and_says_so() {
    let (folder, agent) = (Folder::new(), agent().await);
    let server = Server::start(&folder).await;
    let id = patient(&server, &agent).await;
    let usual = submit(&server, json!({"job": id, "payload": "bad"})).await;
    let once = submit(&server, json!({"job": id, "payload": "bad", "retry": {"max_attempts": 1}})).await;
    let often = json!({"max_attempts": 8, "initial_delay": "10ms", "multiplier": 1.5, "max_delay": "1m"});
    let often = submit(&server, json!({"job": id, "payload": "bad", "retry": often})).await;
    let brief = json!({"job": id, "payload": "slow", "timeout": "300ms", "retry": {"max_attempts": 1}});
    let brief = submit(&server, brief).await;
    for (run, tries) in [(usual, 6), (once, 1), (often, 8)] {
        let run = server.ended(run).await;
        assert_eq!((run["state"].as_str(), outcomes(&run)), (Some("failed"), vec!["failed"; tries]));
        assert_eq!(run["payload"], "bad");
    }
    let run = server.ended(brief).await;
    assert_eq!((run["state"].as_str(), outcomes(&run)), (Some("failed"), vec!["timed_out"]), "{run}");
    let said = run["attempts"][0]["message"].as_str().expect("text");
    assert!(said.contains("within the timeout of 300ms"), "{said}");
    let full = json!({"max_attempts": 1, "initial_delay": "1s", "multiplier": 2.0, "max_delay": "30s"});
    assert_eq!((&run["timeout"], &run["retry"]), (&json!("300ms"), &full));
    let plain = server.run(usual).await;
    assert!(plain.get("timeout").is_none() && plain.get("retry").is_none(), "{plain}");
    let listed = server.runs(id).await;
    let listed = listed.iter().find(|run| run["id"] == brief).expect("it is listed");
    assert_eq!((&listed["timeout"], &listed["payload"]), (&json!("300ms"), &json!("slow")));
    let again = server.post(&format!("/runs/{brief}/retry"), json!({})).await;
    let again = server.ended(again.json()["run"].as_u64().expect("an id")).await;
    assert_eq!((again["retry_of"].as_u64(), outcomes(&again)), (Some(brief), vec!["timed_out"]));
    assert_eq!((&again["timeout"], &again["retry"]), (&json!("300ms"), &full));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_it_is_said_and_nothing_of_the_batch_is_kept() {
    let (folder, agent) = (Folder::new(), agent().await);
    let server = Server::start(&folder).await;
    let id = patient(&server, &agent).await;
    for (own, pointer) in [
        (json!({"timeout": "0s"}), "/runs/1/timeout"),
        (json!({"timeout": 30}), "/runs/1/timeout"),
        (json!({"retry": {"max_attempts": 0}}), "/runs/1/retry/max_attempts"),
        (json!({"retry": {"multiplier": 0.5}}), "/runs/1/retry/multiplier"),
        (json!({"retry": {"max_delay": "soon"}}), "/runs/1/retry/max_delay"),
    ] {
        let mut wrong = own;
        wrong["job"] = json!(id);
        let refused = server.post("/runs", json!({"runs": [{"job": id}, wrong]})).await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{}", refused.text());
    }
    assert!(server.runs(id).await.is_empty());
    let lines = format!(
        "{}\n{}\n",
        json!({"job": id, "payload": "bad", "retry": {"max_attempts": 2, "initial_delay": "10ms"}}),
        json!({"job": id, "timeout": "never"})
    );
    let authorization = format!("Bearer {}", server.token);
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/x-ndjson")];
    let said = ask(&server.url, "POST", "/api/v1/runs", &headers, &lines).await.expect("an answer").text();
    let said: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((said[0]["accepted"].as_u64(), said[1]["line"].as_u64()), (Some(1), Some(2)), "{said:?}");
    assert_eq!(said[1]["error"]["errors"][0]["pointer"], "/timeout");
    let run = server.ended(said[0]["ids"][0].as_u64().expect("an id")).await;
    assert_eq!(outcomes(&run), ["failed"; 2], "the lines before the wrong one stay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_does_not_make_it_forget_what_it_brought() {
    let (folder, agent) = (Folder::new(), agent().await);
    let server = Server::start(&folder).await;
    let id = patient(&server, &agent).await;
    // One waits for its second attempt when the plug is pulled, two for their time.
    let between = json!({"max_attempts": 2, "initial_delay": "3s"});
    let between = submit(&server, json!({"job": id, "payload": "bad", "retry": between})).await;
    let at = from_now(2_500);
    let once = json!({"job": id, "at": at, "payload": "bad", "retry": {"max_attempts": 1}});
    let once = submit(&server, once).await;
    let brief =
        json!({"job": id, "at": at, "payload": "slow", "timeout": "300ms", "retry": {"max_attempts": 1}});
    let brief = submit(&server, brief).await;
    let is_waiting = async || server.run(between).await["state"] == "retrying";
    eventually("the first has failed once", is_waiting).await;
    server.kill();
    let server = Server::start(&folder).await;
    for (run, expected) in [(between, vec!["failed"; 2]), (once, vec!["failed"]), (brief, vec!["timed_out"])]
    {
        let run = server.ended(run).await;
        // What may have been sent by the node that is gone is repeated, and counts for nobody.
        let heard: Vec<&str> = outcomes(&run).into_iter().filter(|outcome| *outcome != "lost").collect();
        assert_eq!((run["state"].as_str(), heard), (Some("failed"), expected), "{run}");
    }
}
