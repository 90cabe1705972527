//! Apps and their executors: who registered, and what people set.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Definition, JobState, StoppedReason, Text};
use punctual_core::registry::{Dialect, Secret};
use punctual_node::ports::{AppRow, Beat, Change, ExecutorRow, Paused, Registered, StoreError};

use super::subject::{Subject, creation, definition, odd_texts, second};

pub(super) async fn an_executor_that_beats_is_registered_with_its_app(t: &mut Subject) {
    assert_eq!(t.registered().await, Registered::default());
    let beats = [("shop", "two"), ("mail", "one"), ("shop", "one"), ("shop", "two")];
    t.store().beat(beats.map(|(app, address)| beat(app, address)).to_vec()).await.unwrap();
    for is_reopened in [false, true] {
        if is_reopened {
            t.reopen().await;
        }
        let registered = t.registered().await;
        assert_eq!(registered.apps, [app("mail"), app("shop")], "by name");
        let expected = [("mail", "one"), ("shop", "one"), ("shop", "two")];
        let expected = expected.map(|(app, address)| executor(app, address, second(0), second(0)));
        assert_eq!(registered.executors, expected, "by app and address");
    }
}

pub(super) async fn a_beat_moves_the_time_and_the_dialect_but_not_the_joining(t: &mut Subject) {
    for (number, dialect) in Dialect::ALL.iter().enumerate() {
        t.store().beat(vec![Beat { dialect: *dialect, ..beat("shop", "one") }]).await.unwrap();
        let row = executor("shop", "one", second(number as i64), second(0));
        assert_eq!(t.registered().await.executors, [ExecutorRow { dialect: *dialect, ..row }]);
        t.pass(Duration::from_secs(1));
        t.reopen().await;
    }
    t.set_back(Duration::from_secs(60));
    t.store().beat(vec![beat("shop", "one")]).await.unwrap();
    assert_eq!(t.registered().await.executors[0].beat_at, t.now(), "also when the clock was set back");
}

pub(super) async fn an_executor_that_leaves_is_forgotten_and_its_app_stays(t: &mut Subject) {
    t.store().beat(vec![beat("shop", "one"), beat("shop", "two"), beat("mail", "one")]).await.unwrap();
    assert!(t.store().leave("shop", "one").await.unwrap());
    assert!(!t.store().leave("shop", "one").await.unwrap(), "only once");
    assert!(!t.store().leave("none", "one").await.unwrap(), "never there");
    t.reopen().await;
    assert_eq!(t.addresses().await, ["mail one", "shop two"]);
    assert!(t.store().leave("mail", "one").await.unwrap());
    assert_eq!(t.registered().await.apps, [app("mail"), app("shop")]);
}

pub(super) async fn who_was_not_heard_of_for_longer_is_buried(t: &mut Subject) {
    let dead = Duration::from_secs(90);
    t.store().beat(vec![beat("shop", "b"), beat("mail", "a"), beat("shop", "a")]).await.unwrap();
    t.pass(Duration::from_secs(1));
    t.store().beat(vec![beat("shop", "a")]).await.unwrap();
    t.pass(dead - Duration::from_secs(1));
    assert_eq!(t.store().bury(dead).await.unwrap(), [], "just as long is not longer");
    t.pass(Duration::from_millis(1));
    let buried: [(Text, Text); 2] = [("mail".into(), "a".into()), ("shop".into(), "b".into())];
    assert_eq!(t.store().bury(dead).await.unwrap(), buried);
    assert_eq!(t.store().bury(dead).await.unwrap(), [], "asked again");
    t.reopen().await;
    assert_eq!(t.addresses().await, ["shop a"]);
    assert_eq!(t.registered().await.apps.len(), 2);
    t.pass(Duration::from_secs(86_400));
    assert_eq!(t.store().bury(Duration::MAX).await.unwrap(), [], "nobody is dead for ever");
}

pub(super) async fn a_beat_from_before_the_clock_was_set_back_ends_in_its_time(t: &mut Subject) {
    let dead = Duration::from_secs(90);
    t.store().beat(vec![beat("shop", "one")]).await.unwrap();
    t.set_back(Duration::from_secs(86_400));
    assert_eq!(t.store().bury(dead).await.unwrap(), []);
    t.pass(dead + Duration::from_millis(1));
    assert_eq!(t.store().bury(dead).await.unwrap().len(), 1);
}

pub(super) async fn an_app_is_put_if_it_has_the_version(t: &mut Subject) {
    assert!(is_conflict(t.store().put_app(told("shop", "0"), Some(1)).await), "it is not there");
    assert_eq!(t.store().put_app(told("shop", "1"), Some(0)).await.unwrap(), 1);
    assert!(is_conflict(t.store().put_app(told("shop", "2"), Some(0)).await), "it is there");
    assert_eq!(t.store().put_app(told("shop", "3"), Some(1)).await.unwrap(), 2);
    t.reopen().await;
    assert!(is_conflict(t.store().put_app(told("shop", "4"), Some(1)).await), "it was changed");
    assert_eq!(t.registered().await.apps, [AppRow { version: 2, ..told("shop", "3") }]);
    assert_eq!(t.store().put_app(told("shop", "5"), None).await.unwrap(), 3, "whatever it is");
    assert_eq!(t.store().put_app(told("mail", "6"), None).await.unwrap(), 1, "or is not");
    let (mail, shop) = (told("mail", "6"), told("shop", "5"));
    assert_eq!(t.registered().await.apps, [AppRow { version: 1, ..mail }, AppRow { version: 3, ..shop }]);
}

pub(super) async fn an_app_is_kept_as_it_was_put(t: &mut Subject) {
    let texts: Vec<Text> = odd_texts().into_iter().map(Text::from).collect();
    let mut put = vec![
        AppRow { addresses: None, access_token: None, ..app("none") },
        AppRow { addresses: Some(vec![]), access_token: Some(Secret::new("")), ..app("empty") },
    ];
    for text in &texts {
        put.push(AppRow {
            name: text.clone(),
            title: text.clone(),
            // In this order, and twice.
            addresses: Some(texts.iter().rev().chain(&texts).cloned().collect()),
            access_token: Some(Secret::new(text)),
            retention: Some(Duration::from_millis(3_600_000 + text.len() as u64)),
            paused: None,
            version: 1,
        });
    }
    for app in &put {
        // The version that it comes with is not looked at.
        t.store().put_app(AppRow { version: 99, ..app.clone() }, Some(0)).await.unwrap();
    }
    put.sort_by(|one, two| one.name.cmp(&two.name));
    t.reopen().await;
    assert_eq!(t.registered().await.apps, put);
}

pub(super) async fn an_app_is_paused_until_it_is_resumed_whoever_puts_it_meanwhile(t: &mut Subject) {
    let paused = |minute: i64, reason: &'static str| {
        Some(Paused { since: second(60 * minute), by: "ann".into(), reason: reason.into() })
    };
    assert_eq!(t.store().pause_app("shop", paused(1, "")).await.unwrap(), None, "it is not there");
    assert_eq!(t.store().app("shop").await.unwrap(), None);
    t.store().put_app(told("shop", "1"), Some(0)).await.unwrap();
    t.store().put_app(told("mail", "1"), Some(0)).await.unwrap();
    let row = AppRow { paused: paused(1, "moving"), version: 2, ..told("shop", "1") };
    assert_eq!(t.store().pause_app("shop", paused(1, "moving")).await.unwrap(), Some(row.clone()));
    assert_eq!(
        t.store().pause_app("shop", paused(2, "again")).await.unwrap(),
        Some(row.clone()),
        "the first stays"
    );
    t.reopen().await;
    assert_eq!(t.store().app("shop").await.unwrap(), Some(row.clone()));
    let mail = AppRow { version: 1, ..told("mail", "1") };
    assert_eq!(t.registered().await.apps, [mail.clone(), row], "and nobody else");
    let other = AppRow { paused: None, ..told("shop", "2") };
    assert_eq!(t.store().put_app(other, Some(2)).await.unwrap(), 3);
    t.store().beat(vec![beat("shop", "one")]).await.unwrap();
    let row = AppRow { paused: paused(1, "moving"), version: 3, ..told("shop", "2") };
    assert_eq!(t.store().app("shop").await.unwrap(), Some(row), "to put it says nothing about that");
    let row = AppRow { version: 4, ..told("shop", "2") };
    assert_eq!(t.store().pause_app("shop", None).await.unwrap(), Some(row.clone()));
    assert_eq!(t.store().pause_app("shop", None).await.unwrap(), Some(row.clone()), "asked again");
    t.reopen().await;
    assert_eq!(t.registered().await.apps, [mail, row]);
    t.store().pause_app("shop", paused(3, "")).await.unwrap();
    assert!(t.store().remove_app("shop").await.unwrap());
    t.store().beat(vec![beat("shop", "one")]).await.unwrap();
    assert_eq!(t.store().app("shop").await.unwrap(), Some(app("shop")), "a new one is not paused");
}

pub(super) async fn odd_texts_of_a_pause_are_kept(t: &mut Subject) {
    for text in odd_texts() {
        let text = Text::from(text);
        t.store().put_app(AppRow { name: text.clone(), ..app("") }, Some(0)).await.unwrap();
        let paused = Paused { since: second(0), by: text.clone(), reason: text.clone() };
        t.store().pause_app(&text, Some(paused.clone())).await.unwrap();
        t.reopen().await;
        let row = t.store().app(&text).await.unwrap().expect("it is there");
        assert_eq!((row.name, row.paused), (text, Some(paused)));
    }
}

pub(super) async fn odd_texts_of_an_executor_are_kept(t: &mut Subject) {
    let texts = odd_texts();
    let beats = texts.iter().map(|text| Beat {
        app: text.clone().into(),
        address: text.clone().into(),
        dialect: Dialect::Orth,
    });
    t.store().beat(beats.collect()).await.unwrap();
    t.reopen().await;
    for text in texts {
        let is_it = |row: &ExecutorRow| row.app == text && row.address == text;
        assert!(t.registered().await.executors.iter().any(is_it), "{text}");
        assert!(t.store().leave(&text, &text).await.unwrap(), "{text}");
    }
}

pub(super) async fn who_beats_or_has_a_job_leaves_an_app_as_people_set_it(t: &mut Subject) {
    t.store().put_app(told("shop", "title"), Some(0)).await.unwrap();
    t.store().beat(vec![beat("shop", "one")]).await.unwrap();
    t.job("job", None).await;
    assert_eq!(t.registered().await.apps, [AppRow { version: 1, ..told("shop", "title") }]);
    t.store().put_app(told("shop", "other"), Some(1)).await.unwrap();
    assert_eq!(t.addresses().await, ["shop one"], "nor does putting it touch who is there");
}

pub(super) async fn a_job_brings_its_app(t: &mut Subject) {
    let of = |app: &str| Definition { app: app.into(), ..definition("job") };
    let stopped = JobState::Stopped(StoppedReason::Asked);
    let job = t.create(of("shop"), stopped, None).await.job;
    assert_eq!(t.registered().await.apps, [app("shop")]);
    let moved = Change { definition: Some(of("mail")), ..t.edit(job).await };
    let stale = Change { job: Some((job, 9)), definition: Some(of("stale")), ..moved.clone() };
    assert!(is_conflict(t.store().change(stale).await));
    t.store().change(moved).await.unwrap();
    t.reopen().await;
    assert_eq!(t.registered().await.apps, [app("mail"), app("shop")], "and the one that it leaves stays");
    t.store().change(creation(t.now(), of("gone"), JobState::Deleted, None)).await.unwrap();
    assert_eq!(t.registered().await.apps.len(), 2, "a deleted job is of no app");
}

pub(super) async fn an_app_that_has_jobs_is_not_removed(t: &mut Subject) {
    let job = t.job("job", None).await;
    let other =
        t.create(Definition { app: "shopping".into(), ..definition("job") }, JobState::Enabled, None).await;
    t.store().beat(vec![beat("shop", "one"), beat("shopping", "one")]).await.unwrap();
    assert!(is_conflict(t.store().remove_app("shop").await));
    assert_eq!(t.addresses().await.len(), 2);
    t.stop(job, JobState::Deleted).await;
    t.reopen().await;
    assert!(t.store().remove_app("shop").await.unwrap());
    assert!(!t.store().remove_app("shop").await.unwrap(), "only once");
    assert!(!t.store().remove_app("sho").await.unwrap(), "never there");
    assert_eq!(
        (t.registered().await.apps, t.addresses().await),
        (vec![app("shopping")], vec!["shopping one".into()])
    );
    assert!(is_conflict(t.store().remove_app("shopping").await));
    t.stop(other.job, JobState::Deleted).await;
    t.store().beat(vec![beat("shop", "one")]).await.unwrap();
    assert_eq!(t.registered().await.apps, [app("shop"), app("shopping")], "it can come back");
}

pub(super) async fn no_app_and_no_executor_is_pruned(t: &mut Subject) {
    t.store().beat(vec![beat("shop", "one")]).await.unwrap();
    let before = t.registered().await;
    t.prune_everything().await;
    assert_eq!(t.registered().await, before);
}

impl Subject {
    async fn registered(&self) -> Registered {
        self.store().registered().await.unwrap()
    }

    /// Who is registered, as app and address.
    async fn addresses(&self) -> Vec<String> {
        let executors = self.registered().await.executors;
        executors.iter().map(|row| format!("{} {}", row.app, row.address)).collect()
    }
}

fn beat(app: &'static str, address: &'static str) -> Beat {
    Beat { app: app.into(), address: address.into(), dialect: Dialect::Classic }
}

/// An executor of the classic dialect.
fn executor(
    app: &'static str,
    address: &'static str,
    beat_at: Timestamp,
    joined_at: Timestamp,
) -> ExecutorRow {
    ExecutorRow { app: app.into(), address: address.into(), dialect: Dialect::Classic, beat_at, joined_at }
}

/// An app of which nobody has said anything.
fn app(name: &'static str) -> AppRow {
    AppRow {
        name: name.into(),
        title: "".into(),
        addresses: None,
        access_token: None,
        retention: None,
        paused: None,
        version: 1,
    }
}

/// An app of which people have said everything.
fn told(name: &'static str, title: &'static str) -> AppRow {
    let (addresses, access_token) = (Some(vec!["http://one/".into()]), Some(Secret::new("secret")));
    AppRow { title: title.into(), addresses, access_token, version: 0, ..app(name) }
}

fn is_conflict<T>(said: Result<T, StoreError>) -> bool {
    matches!(said, Err(StoreError::Conflict(_)))
}
