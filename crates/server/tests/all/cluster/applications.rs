//! Applications on the same database hand over one-shots in transactions of their own.

use serde_json::{Value, json};

use super::Cluster;
use super::database::Engine;
use crate::house::{Agent, eventually, job};

pub(super) async fn what_an_application_commits_runs_once_and_what_it_takes_back_never(engine: Engine) {
    let cluster = Cluster::of(engine, 2).await;
    let agent = Agent::content().await;
    cluster.node(0).create(job("remind", json!({"kind": "manual"}), &agent.url("/"))).await;
    let database = &cluster.database;
    database.tell("create table orders (id integer)");
    let (columns, more) = match engine {
        Engine::Postgres => ("app, job, at, payload, key, priority", "usage on sequence arrival_numbers"),
        Engine::MariaDb => ("app, job, at, payload, key_text, priority", "insert on orders"),
    };
    let insert = format!("insert into arrivals ({columns}) values");
    database.tell_as_guest(
        &["insert on orders", &format!("insert ({columns}) on arrivals"), more],
        &format!(
            r#"begin;
               insert into orders values (1);
               {insert} ('test', 'remind', 0, '{{"order": 1}}', null, 7),
                        ('test', 'remind', 0, '{{"order": 2}}', 'two', null);
               commit;
               begin;
               insert into orders values (3);
               {insert} ('test', 'remind', 0, '{{"order": 3}}', null, null);
               rollback;
               {insert} ('test', 'remind', 0, '{{"order": 2}}', 'two', null);
               {insert} ('test', 'nobody', 0, null, null, null), ('test', 'remind', 0, null, null, 12);
               {insert} ('test', 'remind', 4102444800000, null, 'far', null);"#
        ),
    );
    eventually("all are seen to", async || {
        database.ask("select count(*) from arrivals where refused is null") == "0" && agent.count() >= 2
    })
    .await;
    let orders = || {
        let order = |body: &str| serde_json::from_str::<Value>(body).expect("JSON")["order"].as_i64();
        let mut orders: Vec<Option<i64>> = agent.seen().iter().map(|seen| order(&seen.body)).collect();
        orders.sort_unstable();
        orders
    };
    assert_eq!(orders(), [Some(1), Some(2)], "what was taken back does not run, and a key runs once");
    let reasons = database.ask("select refused from arrivals order by id");
    let reasons: Vec<&str> = reasons.lines().collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons[0].contains("no job of that name") && reasons[1].contains("expected 0 to 9"),
        "{reasons:?}"
    );
    let far = cluster.node(1).post("/runs", json!({"job": "test/remind", "key": "far"})).await;
    assert_eq!(far.json()["duplicates"], 1, "{}", far.json());
}
