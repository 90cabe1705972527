//! Changes of jobs by people: definition, state, clock and revision together, and when they are in force.

use std::num::NonZeroU32;
use std::time::Duration;

use calendar::{Dialect, Gap, Outside, Overlap, Timestamp};
use punctual_core::cluster::home;
use punctual_core::model::{
    ChangeId, Child, Close, Decided, Definition, Delivery, Executor, Glue, GlueKind, Http, JobId, JobState,
    NewRun, Origin, Outcome, RunState, Schedule, ScheduleKind, StoppedReason, Target, When, WindowSpec,
};
use punctual_core::policy::misfire::Policy;
use punctual_core::policy::{Block, Misfire, Multiplier, Retry, Route};
use punctual_node::ports::{
    ArrivalKind, Change, ClockEdit, JobRow, Plan, PlannedTo, REVISIONS_MAX, Renewal, Revision, StoreError,
};

use super::subject::{
    A, B, C, SHARDS, Subject, TERM, absurd_instants, close, creation, definition, odd_texts, second,
};

pub(super) async fn jobs_are_numbered_from_1_and_live_where_their_number_says(t: &mut Subject) {
    for number in 1..=9 {
        let created =
            t.create(definition(&format!("job {number}")), JobState::Enabled, Some(second(number))).await;
        assert_eq!((created.job, created.version), (JobId(number as u32), 1));
        let expected = JobRow {
            id: created.job,
            version: 1,
            shard: home(created.job, SHARDS),
            next_fire: Some(second(number)),
            planned: PlannedTo { decided: t.now(), ..PlannedTo::default() },
            changed_at: t.now(),
            state: JobState::Enabled,
            definition: definition(&format!("job {number}")),
            children: Vec::new(),
        };
        assert_eq!(t.row(created.job).await, expected);
        if number == 5 {
            t.stop(created.job, JobState::Deleted).await;
            t.reopen().await;
        }
    }
}

pub(super) async fn a_change_raises_the_version_and_says_when(t: &mut Subject) {
    let job = t.job("job", Some(second(60))).await;
    t.pass(Duration::from_secs(5));
    let mut change = t.edit(job).await;
    change.definition = Some(Definition { priority: 1, ..definition("job") });
    change.clock.next_fire = Some(second(90));
    let changed = t.store().change(change).await.unwrap();
    assert_eq!((changed.job, changed.version), (job, 2));
    assert!(changed.change > ChangeId(1));
    let row = t.row(job).await;
    assert_eq!((row.version, row.changed_at, row.next_fire), (2, second(5), Some(second(90))));
    assert_eq!(row.definition.priority, 1);
    let leases = t.hold_all(A).await;
    let due = t.store().due(&leases, second(90), 9).await.unwrap();
    assert_eq!(due.iter().map(|row| (row.next_fire, row.version)).collect::<Vec<_>>(), [(second(90), 2)]);
}

pub(super) async fn a_change_of_an_older_version_or_of_another_clock_is_a_conflict(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let stale = t.edit(job).await;
    t.store().change(t.edit(job).await).await.unwrap();
    refused(t, stale).await;
    let moved = t.edit(job).await;
    t.plan(t.step(&leases, job).await).await;
    refused(t, moved.clone()).await;
    let none = ClockEdit { expected: None, ..moved.clock.clone() };
    refused(t, Change { clock: none, ..moved }).await;
    assert_eq!(t.row(job).await.version, 2);
}

/// The clock of a fixed delay is at none while its run is open, and again while the next one is.
pub(super) async fn a_clock_that_has_moved_and_is_where_it_was_is_a_conflict(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let stale = t.edit(job).await;
    let planned = Plan { next: Some(second(60)), ..t.step(&leases, job).await };
    t.plan(planned).await;
    assert_eq!(t.row(job).await.next_fire, stale.clock.expected);
    refused(t, stale).await;
}

pub(super) async fn a_job_that_is_not_there_or_deleted_cannot_be_changed(t: &mut Subject) {
    let job = t.job("job", Some(second(60))).await;
    let unknown = Change { job: Some((JobId(99), 1)), ..t.edit(job).await };
    refused(t, unknown).await;
    t.stop(job, JobState::Deleted).await;
    refused(t, Change { state: JobState::Enabled, ..t.edit(job).await }).await;
    assert_eq!(t.row(job).await.version, 2);
}

pub(super) async fn a_deleted_job_leaves_word_for_the_holder_of_its_shard(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let (job, other) = (t.job("job", None).await, t.job("other", None).await);
    t.stop(other, JobState::Stopped(StoppedReason::Asked)).await;
    assert_eq!(t.store().arrivals(&leases, 10).await.unwrap(), [], "nothing else says anything");
    t.stop(job, JobState::Deleted).await;
    t.reopen().await;
    let shard = t.row(job).await.shard;
    let left = t.store().arrivals(&leases, 10).await.unwrap();
    let said: Vec<_> = left.iter().map(|arrival| (arrival.shard, arrival.kind)).collect();
    assert_eq!(said, [(shard, ArrivalKind::Deleted(job))]);
    t.store().consume(&[left[0].id]).await.unwrap();
    assert_eq!(t.store().arrivals(&leases, 10).await.unwrap(), []);
}

pub(super) async fn a_job_cannot_be_created_without_a_definition(t: &mut Subject) {
    let change = creation(t.now(), definition("job"), JobState::Enabled, None);
    refused(t, Change { definition: None, ..change }).await;
}

pub(super) async fn a_conflict_leaves_nothing_behind(t: &mut Subject) {
    let job = t.job("job", Some(second(60))).await;
    let latest = t.renew(A).await.latest;
    let passed = NewRun { origin: Origin::Schedule, ..t.run(job, second(60)).await };
    let id = passed.id;
    let mut change = t.edit(job).await;
    change.job = Some((job, 9));
    change.definition = Some(definition("renamed"));
    change.clock.passed = vec![(passed, close(Outcome::Skipped, second(61)))];
    refused(t, change).await;
    assert_eq!(t.store().run(id).await.unwrap(), None);
    assert_eq!(t.store().job_named("shop", "renamed").await.unwrap(), None);
    assert_eq!(t.store().revisions(job, 0, 99).await.unwrap().len(), 1);
    assert_eq!(t.renew(A).await.latest, latest);
}

pub(super) async fn a_name_belongs_to_one_job_of_an_app(t: &mut Subject) {
    let job = t.job("name", None).await;
    refused(t, creation(t.now(), definition("name"), JobState::Enabled, None)).await;
    let elsewhere = Definition { app: "other".into(), ..definition("name") };
    t.create(elsewhere, JobState::Enabled, None).await;
    let second_ = t.job("Name", None).await;
    refused(t, Change { definition: Some(definition("name")), ..t.edit(second_).await }).await;
    let same = Change { definition: Some(definition("name")), ..t.edit(job).await };
    t.store().change(same).await.unwrap();
    assert_eq!(t.store().job_named("shop", "name").await.unwrap().unwrap().id, job);
}

pub(super) async fn a_name_is_free_once_its_job_is_renamed_or_deleted(t: &mut Subject) {
    let job = t.job("name", None).await;
    let rename = Change { definition: Some(definition("new name")), ..t.edit(job).await };
    t.store().change(rename).await.unwrap();
    let second_ = t.job("name", None).await;
    t.stop(second_, JobState::Deleted).await;
    t.reopen().await;
    let third = t.job("name", None).await;
    assert_eq!(t.store().job_named("shop", "name").await.unwrap().unwrap().id, third);
    assert_eq!(t.store().job_named("shop", "new name").await.unwrap().unwrap().id, job);
}

pub(super) async fn a_job_cannot_come_after_itself_in_however_many_steps(t: &mut Subject) {
    let mut jobs = Vec::new();
    for name in ["one", "two", "three", "four"] {
        jobs.push(t.job(name, None).await);
    }
    let after = |name: &str, before: JobId| Definition {
        after: vec![Child { job: before, when: When::Ended }],
        ..definition(name)
    };
    for (name, child, parent) in [("two", 1, 0), ("three", 2, 1), ("four", 3, 2)] {
        let change = Change { definition: Some(after(name, jobs[parent])), ..t.edit(jobs[child]).await };
        t.store().change(change).await.unwrap();
    }
    for before in [0, 1, 3] {
        refused(t, Change { definition: Some(after("one", jobs[before])), ..t.edit(jobs[0]).await }).await;
    }
    assert_eq!(t.row(jobs[0]).await.definition.after, []);
    // A deleted job starts nobody, so nothing goes round through it.
    t.stop(jobs[2], JobState::Deleted).await;
    let change = Change { definition: Some(after("one", jobs[3])), ..t.edit(jobs[0]).await };
    t.store().change(change).await.unwrap();
}

pub(super) async fn of_two_changes_at_once_that_would_close_a_circle_one_is_refused(t: &mut Subject) {
    for round in 0..10 {
        let names = [format!("one of {round}"), format!("two of {round}")];
        let (one, two) = (t.job(&names[0], None).await, t.job(&names[1], None).await);
        let after = |name: &str, before: JobId| Definition {
            after: vec![Child { job: before, when: When::Ended }],
            ..definition(name)
        };
        let first = Change { definition: Some(after(&names[0], two)), ..t.edit(one).await };
        let second = Change { definition: Some(after(&names[1], one)), ..t.edit(two).await };
        let answers = both(t.store().change(first), t.store().change(second)).await;
        let refused = answers.iter().filter(|answer| matches!(answer, Err(StoreError::Conflict(_)))).count();
        let done = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!((done, refused), (1, 1), "{answers:?}");
    }
}

/// Asks for two things at the same time.
async fn both<T>(first: impl Future<Output = T>, second: impl Future<Output = T>) -> [T; 2] {
    let (first, second) = futures_util::future::join(first, second).await;
    [first, second]
}

pub(super) async fn a_revision_is_kept_for_every_definition(t: &mut Subject) {
    let job = t.job("job", None).await;
    t.stop(job, JobState::Stopped(StoppedReason::Asked)).await;
    let mut change = t.edit(job).await;
    change.definition = Some(definition("new name"));
    change.by = "Jürgen 定时".into();
    change.at = second(33);
    t.store().change(change).await.unwrap();
    let revision = |version, at, by: &'static str, name| Revision {
        version,
        at,
        by: by.into(),
        definition: definition(name),
    };
    let expected =
        [revision(1, second(0), "anna", "job"), revision(3, second(33), "Jürgen 定时", "new name")];
    assert_eq!(t.store().revisions(job, 0, 99).await.unwrap(), expected);
    t.reopen().await;
    assert_eq!(t.store().revisions(job, 0, 99).await.unwrap(), expected);
    assert_eq!(t.store().revisions(JobId(99), 0, 99).await.unwrap(), []);
}

pub(super) async fn the_last_thousand_revisions_of_a_job_are_kept(t: &mut Subject) {
    let (job, other) = (t.job("job", None).await, t.job("other", None).await);
    let mut change = t.edit(job).await;
    change.definition = Some(definition("job"));
    for version in 1..=REVISIONS_MAX as u64 + 2 {
        let changed = t.store().change(Change { job: Some((job, version)), ..change.clone() }).await.unwrap();
        assert_eq!(changed.version, version + 1);
        change.clock.planned = t.row(job).await.planned;
    }
    let page = async |after, max| {
        let revisions = t.store().revisions(job, after, max).await.unwrap();
        revisions.iter().map(|revision| revision.version).collect::<Vec<u64>>()
    };
    let newest = REVISIONS_MAX as u64 + 3;
    assert_eq!(page(0, 2).await, [4, 5], "the first three are gone");
    assert_eq!(page(newest - 2, 9).await, [newest - 1, newest]);
    assert_eq!(page(0, 9_999).await.len(), REVISIONS_MAX);
    assert_eq!(t.store().revisions(other, 0, 9).await.unwrap().len(), 1);
}

pub(super) async fn instants_that_passed_unplanned_are_recorded_with_the_change(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let job = t.job("job", Some(second(60))).await;
    let named = |run: NewRun| NewRun { origin: Origin::Schedule, ..run };
    let there = named(t.run(job, second(180)).await);
    t.accept(there.clone()).await;
    let many = NewRun { decided: Decided::PassedOver, ..named(t.run(job, second(60)).await) };
    let (one, same) = (named(t.run(job, second(60)).await), named(t.run(job, second(180)).await));
    let ids = [many.id, one.id, same.id];
    let passed = Close { reason: "job edited".into(), ..close(Outcome::Skipped, second(200)) };
    let range = Some((second(120), 3));
    let mut change = t.edit(job).await;
    change.clock.next_fire = Some(second(240));
    change.clock.passed =
        vec![(many, Close { range, ..passed.clone() }), (one, passed.clone()), (same, passed)];
    t.store().change(change).await.unwrap();
    t.reopen().await;
    let view = t.view(ids[0]).await;
    assert_eq!((view.state, view.range, view.reason.as_ref()), (RunState::Skipped, range, "job edited"));
    assert_eq!((t.view(ids[1]).await.state, t.view(ids[1]).await.range), (RunState::Skipped, None));
    assert_eq!(t.store().run(ids[2]).await.unwrap(), None, "what is there stays as it is");
    assert_eq!(t.loaded(&leases).await, [there.id]);
    assert_eq!(t.store().counts(Some(job)).await.unwrap().not_run, 4);
}

pub(super) async fn the_parents_that_a_job_has_or_had_count_as_changed_just_before_it(t: &mut Subject) {
    let mut parents = Vec::new();
    for name in ["one", "two", "three"] {
        parents.push(t.job(name, None).await);
    }
    let after = |numbers: &[usize]| Definition {
        after: numbers.iter().map(|number| Child { job: parents[*number], when: When::Ended }).collect(),
        ..definition("child")
    };
    let told = async |seen: ChangeId| {
        let renewed = t.store().renew(Renewal { seen, ..t.renewal(A) }).await.unwrap();
        renewed.changes.iter().map(|(_, job)| *job).collect::<Vec<JobId>>()
    };
    let latest = async || t.renew(A).await.latest;
    let seen = latest().await;
    let created = t.create(after(&[2, 1]), JobState::Enabled, None).await;
    let child = created.job;
    assert_eq!(told(seen).await, [parents[1], parents[2], child]);
    assert_eq!(latest().await, created.change, "the change itself is the last");
    let seen = latest().await;
    t.store().change(Change { definition: Some(after(&[0, 1])), ..t.edit(child).await }).await.unwrap();
    assert_eq!(told(seen).await, [parents[0], parents[1], parents[2], child]);
    let seen = latest().await;
    t.stop(child, JobState::Stopped(StoppedReason::Asked)).await;
    assert_eq!(told(seen).await, [child], "it is still their child");
    let seen = latest().await;
    t.stop(child, JobState::Deleted).await;
    assert_eq!(told(seen).await, [parents[0], parents[1], child]);
}

pub(super) async fn every_state_of_a_job_is_kept(t: &mut Subject) {
    let leases = t.hold_all(A).await;
    let stopped = [
        StoppedReason::Asked,
        StoppedReason::Finished,
        StoppedReason::FailureLimit,
        StoppedReason::Quarantined("".into()),
        StoppedReason::Quarantined("/schedule: \"定时\" is no zone\nquarantined: twice".into()),
    ];
    let states = [JobState::Enabled, JobState::Deleted].into_iter().chain(stopped.map(JobState::Stopped));
    for (number, state) in states.enumerate() {
        let name = format!("job {number}");
        let created = t.create(definition(&name), state.clone(), Some(second(1))).await.job;
        let changed = t.job(&format!("changed {number}"), Some(second(1))).await;
        t.stop(changed, state.clone()).await;
        t.reopen().await;
        let is_there = state != JobState::Deleted;
        for job in [created, changed] {
            assert_eq!(t.row(job).await.state, state);
            let view = t.store().job(job).await.unwrap();
            assert_eq!(view.map(|view| view.state), is_there.then(|| state.clone()));
        }
        assert_eq!(t.store().job_named("shop", &name).await.unwrap().is_some(), is_there);
        let due = t.store().due(&leases, second(1), 99).await.unwrap();
        assert_eq!(due.iter().any(|row| row.job == created), state == JobState::Enabled);
        if state == JobState::Enabled {
            t.stop(created, JobState::Deleted).await;
            t.stop(changed, JobState::Deleted).await;
        }
    }
}

pub(super) async fn every_definition_is_kept_as_it_was_written(t: &mut Subject) {
    for (number, written) in definitions().into_iter().enumerate() {
        let written = Definition { name: format!("job {number}"), ..written };
        let job = t.create(written.clone(), JobState::Enabled, None).await.job;
        t.reopen().await;
        assert_eq!(t.row(job).await.definition, written);
        assert_eq!(t.store().job(job).await.unwrap().unwrap().definition, written);
        assert_eq!(t.store().revisions(job, 0, 99).await.unwrap()[0].definition, written);
    }
}

pub(super) async fn odd_texts_of_a_definition_are_kept(t: &mut Subject) {
    for text in odd_texts() {
        // Names are indexed, so they have a bound; nothing else does.
        let name: String = text.chars().take(64).collect();
        let written = Definition {
            app: name.clone(),
            name: name.clone(),
            description: text.clone(),
            tags: vec![text.clone(), String::new()],
            target: Target::Http(Http {
                method: text.clone(),
                url: text.clone(),
                headers: vec![(text.clone(), text.clone())],
                body: Some(text.clone()),
                signing_secret: Some(text.clone()),
                ..Http::post("")
            }),
            ..definition("")
        };
        let job = t.create(written.clone(), JobState::Enabled, None).await.job;
        t.reopen().await;
        assert_eq!(t.row(job).await.definition, written);
        assert_eq!(t.store().job_named(&name, &name).await.unwrap().unwrap().id, job);
    }
}

pub(super) async fn a_change_is_in_force_when_every_living_holder_has_it(t: &mut Subject) {
    let in_force = async |change| t.store().is_in_force(change).await.unwrap();
    let job = t.job("job", Some(second(60))).await;
    let change = t.store().change(t.edit(job).await).await.unwrap().change;
    assert!(in_force(change).await, "nobody holds a shard");
    t.renew(C).await;
    assert!(in_force(change).await, "who holds nothing sends nothing");
    t.hold(A, &[0, 2]).await;
    t.hold(B, &[1]).await;
    assert!(!in_force(change).await);
    t.store().renew(Renewal { seen: change, ..t.renewal(A) }).await.unwrap();
    assert!(!in_force(change).await, "the other one may still send");
    let before = ChangeId(change.0 - 1);
    t.store().renew(Renewal { seen: before, ..t.renewal(B) }).await.unwrap();
    assert!(!in_force(change).await && in_force(before).await);
    t.store().renew(Renewal { seen: change, ..t.renewal(B) }).await.unwrap();
    assert!(in_force(change).await);
    t.reopen().await;
    assert!(t.store().is_in_force(change).await.unwrap());
}

pub(super) async fn a_change_is_in_force_once_who_lacks_it_has_expired_or_let_go(t: &mut Subject) {
    let job = t.job("job", Some(second(60))).await;
    let lease = t.hold(A, &[0]).await;
    let change = t.store().change(t.edit(job).await).await.unwrap().change;
    assert!(!t.store().is_in_force(change).await.unwrap());
    t.store().release(A, lease, second(0)).await.unwrap();
    assert!(t.store().is_in_force(change).await.unwrap(), "it let go");
    t.hold(A, &[0]).await;
    assert!(!t.store().is_in_force(change).await.unwrap());
    t.pass(TERM);
    assert!(t.store().is_in_force(change).await.unwrap(), "it has expired");
}

pub(super) async fn a_clock_can_be_set_to_any_instant(t: &mut Subject) {
    let job = t.job("job", None).await;
    for at in absurd_instants() {
        let mut change = t.edit(job).await;
        change.clock.next_fire = Some(at);
        change.at = at;
        t.store().change(change).await.unwrap();
        t.reopen().await;
        let row = t.row(job).await;
        assert_eq!((row.next_fire, row.changed_at), (Some(at), at));
        assert_eq!(t.store().job(job).await.unwrap().unwrap().next_fire, Some(at));
    }
}

async fn refused(t: &Subject, change: Change) {
    let refused = t.store().change(change).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
}

/// Definitions that together have every value of every kind in them.
fn definitions() -> Vec<Definition> {
    let plain = || definition("");
    let schedules = schedules().into_iter().map(|schedule| Definition { schedule, ..plain() });
    let targets = targets().into_iter().map(|target| Definition { target, ..plain() });
    let deliveries = Delivery::ALL.iter().map(|delivery| Definition { delivery: *delivery, ..plain() });
    let policies = [Policy::Skip, Policy::FireOnce, Policy::FireAll];
    let misfires = policies.into_iter().zip([0, 5_000, u64::from(u32::MAX)]).map(|(policy, threshold)| {
        Definition { misfire: Misfire { policy, threshold: Duration::from_millis(threshold) }, ..plain() }
    });
    let limits = [NonZeroU32::MIN, NonZeroU32::MAX].map(|limit| Block::Concurrent(Some(limit)));
    let blocks = [Block::Serial, Block::Discard, Block::Cover, Block::Concurrent(None)];
    let blocks = blocks.into_iter().chain(limits).map(|block| Definition { block, ..plain() });
    let all = Definition {
        tags: vec!["nightly".into(), "定时".into(), "nightly".into()],
        retry: Retry {
            max_attempts: u32::MAX,
            initial_delay: Duration::from_millis(1),
            multiplier: Multiplier::from_per_mille(1_001).expect("a multiplier"),
            max_delay: Duration::from_secs(u64::from(u32::MAX)),
        },
        timeout: Duration::from_millis(1),
        priority: u8::MAX,
        windows: [Outside::Skip, Outside::Defer].map(window).to_vec(),
        after: When::ALL
            .iter()
            .map(|when| Child { job: JobId(when.name().len() as u32), when: *when })
            .collect(),
        failure_limit: u32::MAX,
        ..plain()
    };
    schedules.chain(targets).chain(deliveries).chain(misfires).chain(blocks).chain([all]).collect()
}

fn schedules() -> Vec<Schedule> {
    let cron = |dialect, gap, overlap| {
        let (expression, zone) = ("0 30 2 * * ?".to_owned(), "Europe/Berlin".to_owned());
        Schedule::from(ScheduleKind::Cron { expression, dialect, zone, gap, overlap })
    };
    let dialects =
        [Dialect::Unix, Dialect::Quartz].map(|dialect| cron(dialect, Gap::Default, Overlap::Default));
    let gaps = [Gap::Default, Gap::Skip, Gap::Shift].map(|gap| cron(Dialect::Unix, gap, Overlap::Default));
    let overlaps = [Overlap::Default, Overlap::First, Overlap::Last, Overlap::Both];
    let overlaps = overlaps.map(|overlap| cron(Dialect::Unix, Gap::Default, overlap));
    let anchored = absurd_instants().into_iter().flat_map(|at| {
        let every = ScheduleKind::Every { interval: Duration::from_millis(1), anchor: at };
        let bounded = Schedule { kind: ScheduleKind::Manual, from: Some(at), until: Some(at) };
        [Schedule::from(every), Schedule::from(ScheduleKind::Once { at }), bounded]
    });
    let delay = ScheduleKind::Delay { delay: Duration::from_millis(u64::from(u32::MAX)) };
    let half = Schedule { until: Some(Timestamp::MAX), ..Schedule::from(delay) };
    dialects.into_iter().chain(gaps).chain(overlaps).chain(anchored).chain([half]).collect()
}

fn targets() -> Vec<Target> {
    let http = |headers: &[(&str, &str)], body: Option<&str>| {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Target::Http(Http {
            headers: headers.iter().map(owned).collect(),
            body: body.map(str::to_owned),
            success_codes: headers.iter().map(|(_, value)| value.len() as u16).collect(),
            follows_redirects: body.is_some(),
            ..Http::post("https://example.org/hook?a=b&c=%20")
        })
    };
    // A header may come twice, and in this order.
    let headers = [("x-b", "2"), ("x-a", "1"), ("x-b", "1")];
    let requests = [http(&[], None), http(&[], Some("")), http(&headers, Some("{}"))];
    requests.into_iter().chain(executors().into_iter().map(Target::Executor)).collect()
}

fn executors() -> Vec<Executor> {
    let handlers = ["", "work", "定时"].map(Executor::of);
    let routes = Route::ALL.iter().map(|route| Executor { route: *route, ..Executor::of("work") });
    let script = |kind: &GlueKind| {
        let (source, remark) = ("echo \"定时\"\r\n".into(), "it's new".into());
        let glue = Glue { kind: *kind, source, remark, changed_at: Timestamp::from_millis(-1) };
        Executor { glue: Some(glue), ..Executor::of("") }
    };
    let params = ["", "[1]"].map(|params| Executor { params: Some(params.into()), ..Executor::of("work") });
    let scripts = GlueKind::ALL.iter().map(script);
    handlers.into_iter().chain(params).chain(routes).chain(scripts).collect()
}

fn window(outside: Outside) -> WindowSpec {
    WindowSpec { days: "mon-fri".into(), hours: "22:00-06:00".into(), zone: "Asia/Shanghai".into(), outside }
}
