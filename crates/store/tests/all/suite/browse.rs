//! Reading, for people: pages of jobs and runs, counters, and the days that are stored.

use std::time::Duration;

use punctual_core::model::{
    Close, Definition, JobId, JobState, NewRun, Outcome, RunId, RunState, Settlement, Skip, StoppedReason,
    Then,
};
use punctual_node::ports::{Bucket, Change, Counts, JobFilter, JobName, RunFilter};

use super::subject::{A, JOB, Subject, close, definition, park, second, sent, unsent, wait};

pub(super) async fn a_job_is_found_by_its_id_and_by_its_name(t: &mut Subject) {
    let job = t.job("job", Some(second(60))).await;
    let by_id = t.store().job(job).await.unwrap().unwrap();
    assert_eq!((by_id.id, by_id.version, by_id.next_fire), (job, 1, Some(second(60))));
    assert_eq!((by_id.state.clone(), by_id.definition.clone()), (JobState::Enabled, definition("job")));
    assert_eq!((by_id.shard, by_id.counts.clone()), (t.row(job).await.shard, Counts::default()));
    assert_eq!(t.store().job_named("shop", "job").await.unwrap(), Some(by_id));
    assert_eq!(t.store().job_named("shop", "JOB").await.unwrap(), None);
    assert_eq!(t.store().job_named("other", "job").await.unwrap(), None);
    assert_eq!(t.store().job(JobId(99)).await.unwrap(), None);
}

pub(super) async fn a_deleted_job_is_not_found(t: &mut Subject) {
    let job = t.job("job", None).await;
    t.stop(job, JobState::Deleted).await;
    assert_eq!(t.store().job(job).await.unwrap(), None);
    assert_eq!(t.store().job_named("shop", "job").await.unwrap(), None);
    assert_eq!(jobs(t, &JobFilter::default()).await, []);
}

pub(super) async fn jobs_are_listed_by_id_page_by_page(t: &mut Subject) {
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(t.job(&format!("job {}", 9 - number), None).await);
    }
    t.stop(ids[3], JobState::Deleted).await;
    ids.remove(3);
    for limit in [1, 2, 3, 5, 6, 7] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = t.store().job_list(&JobFilter::default(), after, limit).await.unwrap();
            assert!(page.items.len() <= limit);
            found.extend(page.items.iter().map(|job| job.id));
            let Some(next) = page.next else { break };
            assert_eq!(page.items.len(), limit, "only a full page has a next");
            after = Some(next);
        }
        assert_eq!(found, ids, "{limit} at a time");
    }
}

pub(super) async fn jobs_are_filtered_by_app_tag_text_and_whether_they_are_enabled(t: &mut Subject) {
    let tagged = |name: &str, tags: &[&str]| Definition {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..definition(name)
    };
    let one = t.create(tagged("Nightly report", &["a", "b"]), JobState::Enabled, None).await.job;
    let stopped = JobState::Stopped(StoppedReason::Asked);
    let two = t.create(tagged("100%_sure", &["ab"]), stopped, None).await.job;
    let described = Definition {
        app: "billing".into(),
        description: "sends the REPORT to ÄRZTE".into(),
        ..tagged("mail", &["b"])
    };
    let three = t.create(described, JobState::Enabled, None).await.job;
    let none = JobFilter::default;
    let text = |text: &str| JobFilter { text: Some(text.into()), ..none() };
    assert_eq!(jobs(t, &JobFilter { apps: apps(&["shop"]), ..none() }).await, [one, two]);
    assert_eq!(jobs(t, &JobFilter { apps: apps(&["sho"]), ..none() }).await, []);
    assert_eq!(jobs(t, &JobFilter { tag: Some("b".into()), ..none() }).await, [one, three]);
    assert_eq!(jobs(t, &JobFilter { tag: Some("ab".into()), ..none() }).await, [two]);
    assert_eq!(jobs(t, &text("rePort")).await, [one, three]);
    assert_eq!(jobs(t, &text("ärzte")).await, [three]);
    assert_eq!(jobs(t, &text("%")).await, [two], "no wildcard");
    assert_eq!(jobs(t, &text("y_r")).await, [], "no wildcard");
    assert_eq!(jobs(t, &text("shop")).await, [], "the app is not searched");
    assert_eq!(jobs(t, &text("")).await, [one, two, three]);
    assert_eq!(jobs(t, &JobFilter { enabled: Some(true), ..none() }).await, [one, three]);
    assert_eq!(jobs(t, &JobFilter { enabled: Some(false), ..none() }).await, [two]);
    let all = JobFilter {
        apps: apps(&["shop"]),
        tag: Some("b".into()),
        text: Some("report".into()),
        enabled: Some(true),
        ..none()
    };
    assert_eq!(jobs(t, &all).await, [one], "all at once");
}

pub(super) async fn jobs_of_several_apps_are_one_list(t: &mut Subject) {
    let mut ids = Vec::new();
    for number in 0..12 {
        let app = ["shop", "mail", "billing", "Shop"][number % 4];
        let state = match number / 4 {
            1 => JobState::Stopped(StoppedReason::Asked),
            _ => JobState::Enabled,
        };
        ids.push(t.create(of_app(app, &format!("job {number}")), state, None).await.job);
    }
    t.stop(ids[1], JobState::Deleted).await;
    let of = |names: &[&str]| JobFilter { apps: apps(names), ..JobFilter::default() };
    let two = [ids[2], ids[5], ids[6], ids[9], ids[10]];
    assert_eq!(jobs(t, &of(&["mail", "billing"])).await, two, "by id, not by app");
    assert_eq!(jobs(t, &of(&["billing", "mail", "billing", "none"])).await, two, "in any order, named twice");
    assert_eq!(jobs(t, &of(&[])).await, [], "none is not all");
    assert_eq!(jobs(t, &of(&["*"])).await, [], "no wildcard");
    let stopped = JobFilter { enabled: Some(false), ..of(&["mail", "billing"]) };
    assert_eq!(jobs(t, &stopped).await, [ids[5], ids[6]]);
    let enabled = JobFilter { enabled: Some(true), ..of(&["mail", "billing"]) };
    assert_eq!(jobs(t, &enabled).await, [ids[2], ids[9], ids[10]]);
    for limit in [1, 2, 4, 5] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = t.store().job_list(&of(&["billing", "mail"]), after, limit).await.unwrap();
            found.extend(page.items.iter().map(|job| job.id));
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        assert_eq!(found, two, "{limit} at a time");
    }
}

pub(super) async fn jobs_that_fail_or_gave_up_are_listed_by_that(t: &mut Subject) {
    let mut ids = Vec::new();
    for number in 0..6 {
        let app = ["shop", "mail"][number % 2];
        ids.push(t.create(of_app(app, &format!("job {number}")), JobState::Enabled, None).await.job);
    }
    let ends = [
        (ids[1], Outcome::Failed),
        (ids[2], Outcome::Lost),
        (ids[3], Outcome::Failed),
        (ids[3], Outcome::Succeeded),
        (ids[4], Outcome::Skipped),
        (ids[5], Outcome::Failed),
    ];
    for (number, (job, outcome)) in ends.into_iter().enumerate() {
        let run = t.accepted(job, second(1)).await;
        let end = sent(run, 1, Then::Close(close(outcome, second(number as i64))));
        t.settle(Settlement { job, ..end }).await;
    }
    t.stop(ids[5], JobState::Stopped(StoppedReason::FailureLimit)).await;
    t.stop(ids[0], JobState::Stopped(StoppedReason::Asked)).await;
    t.reopen().await;
    let failing = JobFilter { is_failing: true, ..JobFilter::default() };
    assert_eq!(jobs(t, &failing).await, [ids[1], ids[2], ids[5]], "until one succeeds");
    let enabled = JobFilter { enabled: Some(true), ..failing.clone() };
    assert_eq!(jobs(t, &enabled).await, [ids[1], ids[2]]);
    assert_eq!(jobs(t, &JobFilter { apps: apps(&["mail"]), ..failing.clone() }).await, [ids[1], ids[5]]);
    let given_up = JobFilter { is_given_up: true, ..JobFilter::default() };
    assert_eq!(jobs(t, &given_up).await, [ids[5]], "what a person stopped is as it should be");
    assert_eq!(t.store().job_totals(&failing).await.unwrap(), (3, 2));
    assert_eq!(t.store().job_totals(&given_up).await.unwrap(), (1, 0));
    let page = t.store().job_list(&failing, None, 2).await.unwrap();
    let rest = t.store().job_list(&failing, page.next, 2).await.unwrap();
    assert_eq!(rest.items.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[5]], "page by page too");
}

pub(super) async fn enabled_jobs_are_listed_by_their_next_fire_time_page_by_page(t: &mut Subject) {
    let mut ids = Vec::new();
    for (number, at) in [50, 10, 30, 10, 40].into_iter().enumerate() {
        let app = ["shop", "mail"][number % 2];
        let made = of_app(app, &format!("job {number}"));
        ids.push(t.create(made, JobState::Enabled, Some(second(at))).await.job);
    }
    t.job("by hand", None).await;
    let stopped = t.job("stopped", Some(second(5))).await;
    t.stop(stopped, JobState::Stopped(StoppedReason::Asked)).await;
    let deleted = t.job("deleted", Some(second(6))).await;
    t.stop(deleted, JobState::Deleted).await;
    t.reopen().await;
    let expected = [ids[1], ids[3], ids[2], ids[4], ids[0]];
    for limit in [1, 2, 3, 5, 9] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = t.store().job_soonest(&JobFilter::default(), after, limit).await.unwrap();
            assert!(page.items.len() <= limit);
            found.extend(page.items.iter().map(|job| job.id));
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        assert_eq!(found, expected, "{limit} at a time");
    }
    let mail = JobFilter { apps: apps(&["mail"]), ..JobFilter::default() };
    let page = t.store().job_soonest(&mail, None, 9).await.unwrap();
    assert_eq!(page.items.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[1], ids[3]]);
    let named = JobFilter { text: Some("JOB 4".into()), ..JobFilter::default() };
    let page = t.store().job_soonest(&named, None, 9).await.unwrap();
    assert_eq!(page.items.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[4]]);
}

pub(super) async fn jobs_are_called_by_their_names_also_deleted_ones(t: &mut Subject) {
    let one = t.create(of_app("mail", "Grüße 你好 🕐"), JobState::Enabled, None).await.job;
    let two = t.job("two", None).await;
    t.stop(two, JobState::Deleted).await;
    let mut names = t.store().job_names(&[two, JobId(99), one]).await.unwrap();
    names.sort_by_key(|name| name.id);
    let name = |id, app: &str, name: &str| JobName { id, app: app.into(), name: name.into() };
    assert_eq!(names, [name(one, "mail", "Grüße 你好 🕐"), name(two, "shop", "two")]);
    assert_eq!(t.store().job_names(&[]).await.unwrap(), []);
}

pub(super) async fn a_filtered_list_has_pages_too(t: &mut Subject) {
    let mut ids = Vec::new();
    for number in 0..9 {
        let tags = if number % 2 == 0 { vec!["even".to_owned()] } else { Vec::new() };
        let job = Definition { tags, ..definition(&format!("job {number}")) };
        ids.push(t.create(job, JobState::Enabled, None).await.job);
    }
    let filter = JobFilter { tag: Some("even".into()), ..JobFilter::default() };
    let page = t.store().job_list(&filter, None, 2).await.unwrap();
    assert_eq!(page.items.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    let page = t.store().job_list(&filter, page.next, 3).await.unwrap();
    assert_eq!(page.items.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[4], ids[6], ids[8]]);
    assert_eq!(page.next, None);
}

pub(super) async fn runs_are_listed_highest_id_first_page_by_page(t: &mut Subject) {
    let mut ids = Vec::new();
    for number in 0..7 {
        // Two days, and ids that are not in the order of time.
        ids.push(t.accepted(JOB, second((number * 40_000) % 100_000)).await);
        if number == 3 {
            t.closed(ids[3], Outcome::Succeeded).await;
        }
    }
    ids.sort_unstable_by(|one, two| two.cmp(one));
    for limit in [1, 2, 3, 6, 7, 8] {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = t.store().run_list(&RunFilter::default(), before, limit).await.unwrap();
            assert!(page.items.len() <= limit);
            found.extend(page.items.iter().map(|run| run.id));
            let Some(next) = page.next else { break };
            before = Some(next);
        }
        assert_eq!(found, ids, "{limit} at a time");
    }
    let page = t.store().run_list(&RunFilter::default(), None, 7).await.unwrap();
    for view in page.items {
        assert_eq!(t.view(view.id).await, view, "as when asked for alone");
    }
}

pub(super) async fn runs_are_filtered_by_job_state_time_and_key(t: &mut Subject) {
    let mut ids = Vec::new();
    for number in 1..=4 {
        let run = NewRun {
            key: Some(format!("key {number}").into()),
            fire_time: second(number * 10),
            ..t.run(JobId((number % 2) as u32 + 1), second(99)).await
        };
        ids.push(run.id);
        t.accept(run).await;
    }
    t.settle(Settlement { job: JobId(2), ..sent(ids[2], 1, Then::Close(close(Outcome::Lost, second(99)))) })
        .await;
    let none = RunFilter::default;
    assert_eq!(runs(t, &RunFilter { job: Some(JobId(1)), ..none() }).await, [ids[3], ids[1]]);
    assert_eq!(runs(t, &RunFilter { job: Some(JobId(3)), ..none() }).await, []);
    assert_eq!(runs(t, &RunFilter { state: Some(RunState::Lost), ..none() }).await, [ids[2]]);
    assert_eq!(runs(t, &RunFilter { state: Some(RunState::Pending), ..none() }).await.len(), 3);
    let times = RunFilter { from: Some(second(20)), to: Some(second(40)), ..none() };
    assert_eq!(runs(t, &times).await, [ids[2], ids[1]], "half open, by fire time");
    assert_eq!(runs(t, &RunFilter { key: Some("key 4".into()), ..none() }).await, [ids[3]]);
    assert_eq!(runs(t, &RunFilter { key: Some("key".into()), ..none() }).await, []);
    let both = RunFilter { job: Some(JobId(2)), state: Some(RunState::Pending), ..times };
    assert_eq!(runs(t, &both).await, [], "all at once");
}

pub(super) async fn runs_are_filtered_by_the_apps_of_their_jobs(t: &mut Subject) {
    let mut ids = Vec::new();
    for (number, app) in ["shop", "mail", "billing", "shop"].into_iter().enumerate() {
        let job = t.create(of_app(app, &format!("job {number}")), JobState::Enabled, None).await.job;
        ids.push((job, t.accepted(job, second(number as i64)).await));
    }
    let orphan = t.accepted(JobId(99), second(9)).await;
    t.settle(sent(ids[3].1, 1, Then::Close(close(Outcome::Failed, second(9))))).await;
    let of = |names: &[&str]| RunFilter { apps: apps(names), ..RunFilter::default() };
    assert_eq!(runs(t, &of(&["shop"])).await, [ids[3].1, ids[0].1]);
    assert_eq!(runs(t, &of(&["billing", "mail", "mail"])).await, [ids[2].1, ids[1].1]);
    assert_eq!(runs(t, &of(&["none"])).await, []);
    assert_eq!(runs(t, &of(&[])).await, [], "none is not all");
    assert_eq!(runs(t, &of(&["*"])).await, [], "no wildcard");
    assert_eq!(runs(t, &RunFilter::default()).await.len(), 5, "with the one of no job");
    assert!(runs(t, &RunFilter { job: Some(JobId(99)), ..of(&["shop"]) }).await.is_empty(), "{orphan}");
    assert_eq!(runs(t, &RunFilter { job: Some(ids[0].0), ..of(&["shop"]) }).await, [ids[0].1]);
    assert_eq!(runs(t, &RunFilter { job: Some(ids[1].0), ..of(&["shop"]) }).await, [], "another's job");
    let failed = RunFilter { state: Some(RunState::Failed), ..of(&["shop", "mail"]) };
    assert_eq!(runs(t, &failed).await, [ids[3].1]);
    let early = RunFilter { to: Some(second(2)), ..of(&["shop", "mail"]) };
    assert_eq!(runs(t, &early).await, [ids[1].1, ids[0].1]);
}

pub(super) async fn runs_of_deleted_jobs_are_listed_with_their_app(t: &mut Subject) {
    let job = t.create(of_app("mail", "job"), JobState::Enabled, None).await.job;
    let run = t.accepted(job, second(1)).await;
    t.stop(job, JobState::Deleted).await;
    let of = |names: &[&str]| RunFilter { apps: apps(names), ..RunFilter::default() };
    assert_eq!(runs(t, &of(&["mail"])).await, [run], "the only job of the app is deleted");
    // Another job of the same name, in another app's list.
    let other = t.create(of_app("shop", "job"), JobState::Enabled, None).await.job;
    let later = t.accepted(other, second(2)).await;
    t.reopen().await;
    assert_eq!(runs(t, &of(&["mail"])).await, [run]);
    assert_eq!(runs(t, &of(&["shop"])).await, [later]);
    assert_eq!(runs(t, &RunFilter { job: Some(job), ..of(&["mail"]) }).await, [run]);
}

pub(super) async fn runs_go_with_their_job_to_another_app(t: &mut Subject) {
    let job = t.create(of_app("shop", "job"), JobState::Enabled, None).await.job;
    let run = t.accepted(job, second(1)).await;
    let change = Change { definition: Some(of_app("mail", "job")), ..t.edit(job).await };
    t.store().change(change).await.unwrap();
    let of = |names: &[&str]| RunFilter { apps: apps(names), ..RunFilter::default() };
    assert_eq!(runs(t, &of(&["shop"])).await, []);
    assert_eq!(runs(t, &of(&["mail"])).await, [run]);
    assert_eq!(jobs(t, &JobFilter { apps: apps(&["mail"]), ..JobFilter::default() }).await, [job]);
    assert_eq!(jobs(t, &JobFilter { apps: apps(&["shop"]), ..JobFilter::default() }).await, []);
}

pub(super) async fn runs_of_apps_have_pages_across_days_too(t: &mut Subject) {
    let mut wanted = Vec::new();
    let one = t.create(of_app("shop", "one"), JobState::Enabled, None).await.job;
    let two = t.create(of_app("mail", "two"), JobState::Enabled, None).await.job;
    for number in 0..9 {
        let job = if number % 3 == 0 { one } else { two };
        let run = t.accepted(job, second(number * 30_000)).await;
        if job == two {
            wanted.push(run);
        }
    }
    wanted.sort_unstable_by(|one, two| two.cmp(one));
    let filter = RunFilter { apps: apps(&["mail"]), ..RunFilter::default() };
    for limit in [1, 2, 5, 6, 7] {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = t.store().run_list(&filter, before, limit).await.unwrap();
            found.extend(page.items.iter().map(|run| run.id));
            let Some(next) = page.next else { break };
            before = Some(next);
        }
        assert_eq!(found, wanted, "{limit} at a time");
    }
}

pub(super) async fn runs_named_for_another_day_than_they_are_born_on_are_found_by_time(t: &mut Subject) {
    let day = 86_400;
    let mut ids = Vec::new();
    // A retry by hand of last week's, one for today, and one that a person named for next week and began today.
    for named in [-7 * day, 0, 7 * day] {
        let run = NewRun { fire_time: second(named), ..t.run(JOB, second(1)).await };
        ids.push(run.id);
        t.accept(run).await;
    }
    let tomorrow = t.accepted(JOB, second(day)).await;
    for _ in 0..2 {
        let between = |from: i64, to: i64| RunFilter {
            from: Some(second(from)),
            to: Some(second(to)),
            ..RunFilter::default()
        };
        assert_eq!(runs(t, &between(-8 * day, -6 * day)).await, [ids[0]]);
        assert_eq!(runs(t, &between(0, 1)).await, [ids[1]]);
        assert_eq!(runs(t, &between(1, day)).await, []);
        assert_eq!(runs(t, &between(1, 9 * day)).await, [tomorrow, ids[2]]);
        assert_eq!(runs(t, &between(9 * day, 10 * day)).await, []);
        let from = RunFilter { from: Some(second(7 * day)), ..RunFilter::default() };
        assert_eq!(runs(t, &from).await, [ids[2]]);
        let to = RunFilter { to: Some(second(-7 * day + 1)), ..RunFilter::default() };
        assert_eq!(runs(t, &to).await, [ids[0]]);
        t.reopen().await;
    }
}

pub(super) async fn every_state_of_a_run_is_seen_and_filtered_by(t: &mut Subject) {
    let job = t.job("job", None).await;
    let mut expected = Vec::new();
    let mut add = |run: RunId, state: RunState| expected.push((run, state));
    add(t.accepted(job, second(1)).await, RunState::Pending);
    let put_off = t.accepted(job, second(1)).await;
    t.settle(unsent(put_off, 1, wait(9, 1))).await;
    add(put_off, RunState::Pending);
    let parked = t.accepted(job, second(1)).await;
    t.settle(unsent(parked, 1, park(1, 1))).await;
    add(parked, RunState::Pending);
    let running = t.accepted(job, second(1)).await;
    t.gated(running, 1, 5).await;
    add(running, RunState::Running);
    let retrying = t.accepted(job, second(1)).await;
    t.gated(retrying, 1, 5).await;
    t.settle(sent(retrying, 1, wait(9, 2))).await;
    add(retrying, RunState::Retrying);
    let ungated = t.accepted(job, second(1)).await;
    t.settle(sent(ungated, 1, wait(9, 2))).await;
    add(ungated, RunState::Retrying);
    let parked_later = t.accepted(job, second(1)).await;
    t.settle(sent(parked_later, 1, park(2, 1))).await;
    add(parked_later, RunState::Retrying);
    let again = t.accepted(job, second(1)).await;
    t.settle(sent(again, 1, wait(9, 2))).await;
    t.gated(again, 2, 5).await;
    add(again, RunState::Running);
    for outcome in Outcome::ALL {
        let run = t.accepted(job, second(1)).await;
        t.closed(run, *outcome).await;
        add(run, RunState::from(*outcome));
    }
    t.reopen().await;
    for (run, state) in &expected {
        assert_eq!(t.view(*run).await.state, *state, "{run}");
    }
    expected.sort_by(|one, two| two.cmp(one));
    for state in RunState::ALL {
        let of_state: Vec<RunId> =
            expected.iter().filter(|(_, seen)| seen == state).map(|(run, _)| *run).collect();
        assert_eq!(runs(t, &RunFilter { state: Some(*state), ..RunFilter::default() }).await, of_state);
    }
    let ready: Vec<_> = [put_off, parked, retrying, running].into_iter().collect();
    let mut seen = Vec::new();
    for run in ready {
        seen.push(t.view(run).await.ready_at);
    }
    assert_eq!(seen, [Some(second(9)), None, Some(second(9)), None]);
}

pub(super) async fn a_run_that_went_with_a_stop_of_its_job_is_not_its_last_status(t: &mut Subject) {
    let job = t.job("job", None).await;
    let stopped = Close { reason: Skip::JobStopped.name().into(), ..close(Outcome::Skipped, second(9)) };
    let missed = Close { reason: Skip::Misfire.name().into(), ..close(Outcome::Skipped, second(9)) };
    let steps = [
        (stopped.clone(), None),
        (close(Outcome::Succeeded, second(1)), Some(Outcome::Succeeded)),
        (stopped, Some(Outcome::Succeeded)),
        (missed, Some(Outcome::Skipped)),
    ];
    for (number, (close, expected)) in steps.into_iter().enumerate() {
        let run = t.accepted(job, second(number as i64)).await;
        t.settle(Settlement { job, ..sent(run, 1, Then::Close(close)) }).await;
        assert_eq!(t.store().counts(Some(job)).await.unwrap().last_outcome, expected, "{number}");
    }
    assert_eq!(t.store().counts(Some(job)).await.unwrap().not_run, 3, "they are counted all the same");
}

pub(super) async fn what_has_become_of_runs_is_counted_per_job_and_for_all(t: &mut Subject) {
    let (one, two) = (t.job("one", None).await, t.job("two", None).await);
    let closes = [
        (one, Outcome::Succeeded),
        (one, Outcome::Failed),
        (two, Outcome::Succeeded),
        (one, Outcome::Lost),
        (two, Outcome::Cancelled),
    ];
    for (number, (job, outcome)) in closes.into_iter().enumerate() {
        let run = t.accepted(job, second(1)).await;
        let end = sent(run, 1, Then::Close(close(outcome, second(number as i64))));
        t.settle(Settlement { job, ..end }).await;
    }
    t.accepted(one, second(9)).await;
    t.reopen().await;
    let of_one = Counts {
        succeeded: 1,
        failed: 2,
        not_run: 0,
        consecutive_failures: 2,
        last_outcome: Some(Outcome::Lost),
        last_success: Some(second(0)),
    };
    assert_eq!(t.store().counts(Some(one)).await.unwrap(), of_one);
    assert_eq!(t.store().job(one).await.unwrap().unwrap().counts, of_one);
    assert_eq!(jobs(t, &JobFilter::default()).await, [one, two]);
    let of_two = t.store().counts(Some(two)).await.unwrap();
    assert_eq!((of_two.not_run, of_two.last_outcome), (1, Some(Outcome::Cancelled)));
    assert_eq!((of_two.consecutive_failures, of_two.last_success), (0, Some(second(2))));
    let all = t.store().counts(None).await.unwrap();
    assert_eq!((all.succeeded, all.failed, all.not_run), (2, 2, 1));
    assert_eq!(all.last_success, Some(second(2)));
    assert_eq!(t.store().counts(Some(JobId(99))).await.unwrap(), Counts::default());
}

pub(super) async fn the_days_that_are_stored_are_listed_with_their_runs(t: &mut Subject) {
    assert_eq!(t.store().storage().await.unwrap(), []);
    let day = Duration::from_secs(86_400);
    let today = t.accepted(JOB, second(0)).await;
    let tomorrow = t.accepted(JOB, second(0).saturating_add(day)).await;
    t.accepted(JOB, second(5).saturating_add(day)).await;
    t.closed(tomorrow, Outcome::Failed).await;
    t.hold_all(A).await;
    t.reopen().await;
    let stored: Vec<Bucket> = t.store().storage().await.unwrap();
    let counted: Vec<_> = stored.iter().map(|bucket| (bucket.day, bucket.runs, bucket.closed)).collect();
    assert_eq!(counted, [(today.day(), 1, 0), (tomorrow.day(), 2, 1)]);
}

pub(super) async fn what_is_not_there_is_not_found(t: &mut Subject) {
    assert_eq!(t.store().run(RunId(0)).await.unwrap(), None);
    assert_eq!(t.store().run(RunId((1 << 53) - 1)).await.unwrap(), None);
    assert_eq!(runs(t, &RunFilter::default()).await, []);
    assert_eq!(jobs(t, &JobFilter::default()).await, []);
    assert_eq!(t.store().counts(None).await.unwrap(), Counts::default());
}

fn apps(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn of_app(app: &str, name: &str) -> Definition {
    Definition { app: app.into(), ..definition(name) }
}

async fn jobs(t: &Subject, filter: &JobFilter) -> Vec<JobId> {
    let page = t.store().job_list(filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.items.iter().map(|job| job.id).collect()
}

async fn runs(t: &Subject, filter: &RunFilter) -> Vec<RunId> {
    let page = t.store().run_list(filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.items.iter().map(|run| run.id).collect()
}
