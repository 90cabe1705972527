//! Apps beside each other: what hangs in one of them holds up nobody else.

mod fake;
mod house;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::model::{AttemptOutcome, Http, Job};
use punctual_core::registry::Dialect;
use punctual_dispatch::{Guard, Options, xxl};
use punctual_node::ports::{Address, Dispatch as _, Dispatched, Further};
use tokio::sync::watch;

use fake::{Fake, Out, SOON, executor_job, run_at};
use house::{Agent, House, Reply, job, ok, run_of};

fn loopback() -> Guard {
    Guard::new::<&str>(&[], true).unwrap()
}

fn job_in(app: &str, url: String) -> Arc<Job> {
    let app = app.to_owned();
    job(Http::post(url), move |definition| definition.app = app)
}

fn hang_or_answer(seen: &house::Seen) -> Reply {
    if seen.line.contains("/hang") { Reply::Nothing } else { ok() }
}

#[tokio::test]
async fn jobs_that_hang_on_a_host_do_not_keep_another_app_from_it() {
    let agent = Agent::start(hang_or_answer).await;
    let mut house = House::with(Options { connections_per_host: 8, ..Options::default() }, loopback());
    let hanging: Vec<_> = (0..4).map(|_| job_in("hanging", agent.url("/hang"))).collect();
    house.agents.send(hanging.iter().flat_map(|job| (0..8).map(|_| run_of(job))).collect());
    agent.diary.until(|diary| diary.count() == 8).await;
    for _ in 0..20 {
        let report = house.ask(run_of(&job_in("other", agent.url("/")))).await;
        assert_eq!(report.outcome, AttemptOutcome::Succeeded);
    }
}

#[tokio::test]
async fn apps_do_not_use_each_others_connections() {
    let agent = Agent::start(|_| ok()).await;
    let mut house = House::new();
    for app in ["one", "two", "one", "two"] {
        house.ask(run_of(&job_in(app, agent.url("/")))).await;
    }
    let connections: Vec<usize> =
        agent.diary.seen.lock().unwrap().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 2, 1, 2]);
}

#[tokio::test]
async fn where_connections_are_scarce_the_app_that_holds_fewest_has_the_next() {
    let (open, gate) = watch::channel(false);
    let behave = move |seen: &house::Seen| match seen.line.contains("/held") {
        true => Reply::Hold(gate.clone(), b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        false if seen.line.contains("/hang") => Reply::Nothing,
        false => ok(),
    };
    let agents = [Agent::start(behave.clone()).await, Agent::start(behave).await];
    let options = Options { connections: 4, connections_per_host: 20, ..Options::default() };
    let mut house = House::with(options, loopback());
    let hanging: Vec<Dispatched> =
        (0..3).map(|_| run_of(&job_in("hanging", agents[0].url("/hang")))).collect();
    house.agents.send(hanging);
    house.send(run_of(&job_in("hanging", agents[0].url("/held"))));
    agents[0].diary.until(|diary| diary.count() == 4).await;
    // Ten more of the same app wait, and then one of another.
    house.agents.send((0..10).map(|_| run_of(&job_in("hanging", agents[1].url("/hang")))).collect());
    let other = run_of(&job_in("other", agents[1].url("/")));
    house.send(other.clone());
    tokio::task::yield_now().await;
    open.send_replace(true);
    let told = [house.report().await.run, house.report().await.run];
    assert!(told.contains(&other.run), "{told:?}");
}

fn at(fake: &Fake, app: &str) -> Address {
    Address { app: app.to_owned().into(), ..fake::address(&fake.url(), Dialect::Classic) }
}

#[tokio::test]
async fn an_app_with_many_executors_that_hang_leaves_connections_to_others() {
    let hanging = [Fake::start(|_| fake::Reply::Nothing).await, Fake::start(|_| fake::Reply::Nothing).await];
    let free = Fake::start(|_| fake::ok()).await;
    let minute = Duration::from_secs(60);
    let options = xxl::Options {
        connections_per_host: 8,
        connections: 8,
        answer_timeout: minute,
        queue_timeout: minute,
        ..xxl::Options::default()
    };
    let out = Out::with(options, None);
    let job = executor_job(|definition| definition.timeout = minute);
    for fake in &hanging {
        out.executors.send((0..8).map(|_| run_at(&job, at(fake, "hanging"))).collect());
    }
    let total = || hanging[0].diary.count() + hanging[1].diary.count();
    hanging[0].diary.until(|_| total() >= 4).await;
    for count in 1..=5 {
        out.send(run_at(&job, at(&free, "other")));
        free.diary.until_count(count).await;
    }
    assert_eq!(total(), 4);
}

#[tokio::test]
async fn an_executor_that_cannot_keep_up_delays_its_runs_and_costs_none_an_attempt() {
    let fake = Fake::start(|_| fake::Reply::Nothing).await;
    let options = xxl::Options { connections_per_host: 1, queue_timeout: SOON, ..xxl::Options::default() };
    let mut out = Out::with(options, None);
    let job = executor_job(|_| {});
    out.send(run_at(&job, fake.address()));
    fake.diary.until_count(1).await;
    out.send(run_at(&job, fake.address()));
    let report = out.report().await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Unsent));
    assert!(report.retry_after.is_some_and(|pause| pause >= Duration::from_secs(1)), "{report:?}");
    // An executor that is not there is no executor that is busy.
    let (nobody, _socket) = fake::nowhere();
    out.send(run_at(&job, nobody));
    assert_eq!(out.report().await.further, Further::Welcome);
}
