//! What is kept beside runs, for people: what attempts wrote, and what came of kills.

use punctual_core::model::{Attempt, Outcome, RunId};
use punctual_node::ports::{KeptLog, KillNote};

use super::subject::{JOB, Subject, absurd_instants, odd_texts, second};

pub(super) async fn a_log_is_kept_in_place_of_what_was_kept_before(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    assert_eq!(t.store().log(run, Attempt(1)).await.unwrap(), None);
    for (text, next_line, is_complete) in [("one\n", 2, false), ("one\ntwo\n", 3, true), ("", 1, false)] {
        let log = KeptLog { text: text.into(), next_line, is_complete };
        t.store().keep_log(run, Attempt(1), log.clone()).await.unwrap();
        assert_eq!(t.store().log(run, Attempt(1)).await.unwrap().as_ref(), Some(&log));
        t.reopen().await;
        assert_eq!(t.store().log(run, Attempt(1)).await.unwrap(), Some(log));
    }
}

pub(super) async fn every_attempt_of_every_run_has_a_log_of_its_own(t: &mut Subject) {
    let runs = [t.accepted(JOB, second(1)).await, t.accepted(JOB, second(2)).await];
    t.closed(runs[0], Outcome::Succeeded).await;
    for run in runs {
        for attempt in [1, 2] {
            t.store().keep_log(run, Attempt(attempt), log(&format!("{run} {attempt}"))).await.unwrap();
        }
    }
    for run in runs {
        for attempt in [1, 2] {
            let kept = t.store().log(run, Attempt(attempt)).await.unwrap();
            assert_eq!(kept, Some(log(&format!("{run} {attempt}"))), "also when it is closed");
        }
        assert_eq!(t.store().log(run, Attempt(3)).await.unwrap(), None);
    }
}

pub(super) async fn odd_texts_of_logs_and_notes_are_kept(t: &mut Subject) {
    let run = t.accepted(JOB, second(1)).await;
    let texts = odd_texts().into_iter().chain(["a\0b".to_owned()]);
    let texts: Vec<(String, _)> = texts.zip(absurd_instants().into_iter().cycle()).collect();
    for (number, (text, at)) in (1..).zip(&texts) {
        let said = text.clone().into();
        let note = KillNote { attempt: Attempt(number), at: *at, is_confirmed: Some(true), said };
        t.store().keep_log(run, Attempt(number), log(text)).await.unwrap();
        t.store().note_kill(run, note).await.unwrap();
    }
    t.reopen().await;
    let notes = t.store().kills(run).await.unwrap();
    for (number, (text, at)) in (1..).zip(&texts) {
        assert_eq!(t.store().log(run, Attempt(number)).await.unwrap(), Some(log(text)));
        let note = &notes[number as usize - 1];
        assert_eq!((note.attempt, note.at, note.said.as_ref()), (Attempt(number), *at, text.as_str()));
    }
}

pub(super) async fn the_last_note_about_an_attempt_stands(t: &mut Subject) {
    let (run, other) = (t.accepted(JOB, second(1)).await, t.accepted(JOB, second(2)).await);
    for (attempt, is_confirmed) in [(2, None), (1, None), (1, Some(false)), (2, Some(true))] {
        t.store().note_kill(run, note(attempt, is_confirmed)).await.unwrap();
        t.reopen().await;
    }
    t.store().note_kill(other, note(1, None)).await.unwrap();
    let expected = [note(1, Some(false)), note(2, Some(true))];
    assert_eq!(t.store().kills(run).await.unwrap(), expected, "by attempt");
    assert_eq!(t.store().kills(other).await.unwrap(), [note(1, None)]);
}

pub(super) async fn nothing_is_kept_beside_a_run_that_is_not_there(t: &mut Subject) {
    let there = t.accepted(JOB, second(1)).await;
    for run in [RunId(there.0 + 1), RunId(1)] {
        t.store().keep_log(run, Attempt(1), log("lost")).await.unwrap();
        t.store().note_kill(run, note(1, None)).await.unwrap();
        assert_eq!(t.store().log(run, Attempt(1)).await.unwrap(), None);
        assert_eq!(t.store().kills(run).await.unwrap(), []);
    }
    assert_eq!(t.store().storage().await.unwrap().len(), 1, "and no day is begun for it");
}

pub(super) async fn what_is_kept_goes_with_the_day_of_the_run(t: &mut Subject) {
    let (old, new) = (t.accepted(JOB, second(1)).await, t.accepted(JOB, second(86_400)).await);
    for run in [old, new] {
        t.store().keep_log(run, Attempt(1), log("text")).await.unwrap();
        t.store().note_kill(run, note(1, None)).await.unwrap();
    }
    t.closed(old, Outcome::Succeeded).await;
    assert_eq!(t.prune_everything().await.buckets, 1);
    for is_reopened in [false, true] {
        if is_reopened {
            t.reopen().await;
        }
        assert_eq!(
            (t.store().log(old, Attempt(1)).await.unwrap(), t.store().kills(old).await.unwrap()),
            (None, vec![])
        );
        assert_eq!(t.store().log(new, Attempt(1)).await.unwrap(), Some(log("text")));
        assert_eq!(t.store().kills(new).await.unwrap(), [note(1, None)]);
    }
}

fn log(text: &str) -> KeptLog {
    KeptLog { text: text.to_owned(), next_line: 7, is_complete: true }
}

fn note(attempt: u32, is_confirmed: Option<bool>) -> KillNote {
    KillNote {
        attempt: Attempt(attempt),
        at: second(attempt.into()),
        is_confirmed,
        said: "so it said".into(),
    }
}
