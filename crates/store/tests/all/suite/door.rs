//! What the front door keeps: tokens, and answers to requests that may be repeated.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use calendar::Timestamp;
use punctual_node::ports::{Begun, Digest, KeptAnswer, Remain, RequestKey, StoreError, TokenRow};

use super::subject::{Subject, absurd_instants, odd_texts, second};

/// The sum of what most requests of the cases ask.
const ASKED: Digest = [7; 32];

pub(super) async fn what_nodes_show_each_other_is_drawn_once(t: &mut Subject) {
    let first: Digest = [200; 32];
    assert_eq!(t.store().peer_secret(first).await.unwrap(), first);
    assert_eq!(t.store().peer_secret([1; 32]).await.unwrap(), first);
    t.reopen().await;
    assert_eq!(t.store().peer_secret([2; 32]).await.unwrap(), first);
}

pub(super) async fn tokens_are_listed_by_number_as_they_were_made(t: &mut Subject) {
    assert_eq!(t.store().tokens().await.unwrap(), []);
    let lasting = TokenRow { expires_at: None, apps: Vec::new(), ..token("lasting") };
    let expired = TokenRow { expires_at: Some(second(-1)), ..token("expired") };
    let made = [token("first"), lasting, expired];
    for (number, token) in (1..).zip(&made) {
        assert_eq!(add(t, token.clone()).await, number);
    }
    let expected: Vec<TokenRow> = (1..).zip(made).map(|(id, token)| TokenRow { id, ..token }).collect();
    assert_eq!(t.store().tokens().await.unwrap(), expected, "expired ones too");
    t.reopen().await;
    assert_eq!(t.store().tokens().await.unwrap(), expected);
}

pub(super) async fn odd_texts_and_instants_of_a_token_are_kept(t: &mut Subject) {
    let texts = odd_texts();
    let mut made = Vec::new();
    for (text, at) in texts.iter().zip(absurd_instants().into_iter().cycle()) {
        let token = TokenRow {
            id: 0,
            name: text.clone().into(),
            digest: std::array::from_fn(|index| index as u8 * 8 + made.len() as u8),
            role: text.clone().into(),
            apps: texts.clone(),
            created_at: at,
            expires_at: Some(at),
        };
        let id = add(t, token.clone()).await;
        made.push(TokenRow { id, ..token });
    }
    t.reopen().await;
    assert_eq!(t.store().tokens().await.unwrap(), made);
}

pub(super) async fn the_number_that_a_token_comes_with_is_not_looked_at(t: &mut Subject) {
    for id in [7, 7, u32::MAX] {
        add(t, TokenRow { id, ..token("numbered") }).await;
    }
    assert_eq!(numbers(t).await, [1, 2, 3]);
}

pub(super) async fn a_revoked_token_is_gone_and_the_others_stay(t: &mut Subject) {
    for name in ["one", "two", "three"] {
        add(t, token(name)).await;
    }
    assert!(t.store().revoke_token(2, None).await.unwrap());
    assert!(!t.store().revoke_token(2, None).await.unwrap(), "only once");
    assert!(!t.store().revoke_token(99, None).await.unwrap(), "never there");
    t.reopen().await;
    assert_eq!(numbers(t).await, [1, 3]);
}

pub(super) async fn the_number_of_a_revoked_token_is_not_given_again(t: &mut Subject) {
    let one = add(t, token("one")).await;
    let two = add(t, token("two")).await;
    t.store().revoke_token(two, None).await.unwrap();
    let three = add(t, token("three")).await;
    for id in [one, three] {
        t.store().revoke_token(id, None).await.unwrap();
    }
    t.reopen().await;
    assert_eq!([one, two, three, add(t, token("four")).await], [1, 2, 3, 4]);
    t.store().revoke_token(4, None).await.unwrap();
    assert!(t.store().add_first_token(token("five")).await.unwrap());
    assert_eq!(numbers(t).await, [5]);
}

pub(super) async fn the_last_token_that_has_to_remain_is_not_revoked(t: &mut Subject) {
    let remain = remain();
    let admin = add(t, admin("admin")).await;
    let scoped = TokenRow { apps: vec!["shop".into()], ..self::admin("of one app") };
    let expired = TokenRow { expires_at: Some(second(0)), ..self::admin("expired") };
    let others = [add(t, token("operator")).await, add(t, scoped).await, add(t, expired).await];
    let refused = t.store().revoke_token(admin, Some(&remain)).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    for other in others {
        assert!(t.store().revoke_token(other, Some(&remain)).await.unwrap());
    }
    assert!(!t.store().revoke_token(99, Some(&remain)).await.unwrap(), "never there");
    let second_ = add(t, self::admin("another")).await;
    assert!(t.store().revoke_token(admin, Some(&remain)).await.unwrap());
    t.reopen().await;
    assert_eq!(numbers(t).await, [second_]);
    assert!(t.store().revoke_token(second_, None).await.unwrap(), "where nothing has to remain");
}

pub(super) async fn of_two_tokens_revoked_at_once_the_last_that_has_to_remain_stays(t: &mut Subject) {
    let remain = remain();
    for _ in 0..10 {
        let (one, two) = (add(t, admin("one")).await, add(t, admin("two")).await);
        let revoke = async |id| match t.store().revoke_token(id, Some(&remain)).await {
            Ok(is_gone) => is_gone,
            Err(StoreError::Conflict(_)) => false,
            Err(error) => panic!("{error}"),
        };
        let gone = futures_util::future::join(revoke(one), revoke(two)).await;
        assert!(gone.0 != gone.1, "one goes and one stays: {gone:?}");
        assert_eq!(numbers(t).await, [if gone.0 { two } else { one }]);
        t.store().revoke_token(if gone.0 { two } else { one }, None).await.unwrap();
    }
}

/// A token for everything.
fn admin(name: &'static str) -> TokenRow {
    TokenRow { role: "admin".into(), apps: vec!["*".into()], expires_at: None, ..token(name) }
}

fn remain() -> Remain {
    Remain { role: "admin".into(), at: second(0) }
}

pub(super) async fn a_first_token_is_kept_only_where_there_is_none(t: &mut Subject) {
    assert!(t.store().add_first_token(token("first")).await.unwrap());
    assert!(!t.store().add_first_token(token("second")).await.unwrap());
    t.reopen().await;
    assert!(!t.store().add_first_token(token("third")).await.unwrap());
    assert_eq!(t.store().tokens().await.unwrap(), [TokenRow { id: 1, ..token("first") }]);
    t.store().revoke_token(1, None).await.unwrap();
    assert!(t.store().add_first_token(token("fourth")).await.unwrap(), "none is left");
    assert_eq!(numbers(t).await, [2], "and what was not kept took no number");
}

pub(super) async fn an_expired_token_is_a_token_for_who_wants_to_be_first(t: &mut Subject) {
    add(t, TokenRow { expires_at: Some(Timestamp::MIN), ..token("expired") }).await;
    assert!(!t.store().add_first_token(token("first")).await.unwrap());
}

pub(super) async fn of_several_first_tokens_that_come_together_one_wins(t: &mut Subject) {
    let names = ["one", "two", "three", "four"];
    let won = together(names.map(|name| t.store().add_first_token(token(name)))).await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
    let winner = names[won.iter().position(|won| *won).unwrap()];
    assert_eq!(t.store().tokens().await.unwrap(), [TokenRow { id: 1, ..token(winner) }]);
}

pub(super) async fn tokens_that_come_together_have_numbers_of_their_own(t: &mut Subject) {
    let mut given =
        together(["one", "two", "three", "four"].map(|name| t.store().add_token(token(name)))).await;
    given.sort_unstable();
    assert_eq!(given, [1, 2, 3, 4]);
    assert_eq!(numbers(t).await, given);
}

pub(super) async fn a_request_is_new_once_and_then_open_until_it_is_answered(t: &mut Subject) {
    assert_eq!(begin(t, "key").await, Begun::New);
    assert_eq!(begin(t, "key").await, Begun::Open);
    t.reopen().await;
    assert_eq!(begin(t, "key").await, Begun::Open);
    t.store().answer(key("key"), Some(said("done"))).await.unwrap();
    assert_eq!(begin(t, "key").await, Begun::Answered(said("done")));
    t.reopen().await;
    assert_eq!(begin(t, "key").await, Begun::Answered(said("done")));
}

pub(super) async fn of_requests_that_come_together_one_is_new(t: &mut Subject) {
    let begun = together([1, 2, 3, 4].map(|at| t.store().begin(key("key"), ASKED, second(at)))).await;
    assert_eq!(begun.iter().filter(|begun| **begun == Begun::New).count(), 1, "{begun:?}");
    assert_eq!(begun.iter().filter(|begun| **begun == Begun::Open).count(), 3, "{begun:?}");
}

pub(super) async fn a_key_that_came_with_another_request_is_told(t: &mut Subject) {
    assert_eq!(begin(t, "key").await, Begun::New);
    let other = [8; 32];
    assert_eq!(t.store().begin(key("key"), other, t.now()).await.unwrap(), Begun::Other, "while it is open");
    t.store().answer(key("key"), Some(said("done"))).await.unwrap();
    assert_eq!(t.store().begin(key("key"), other, t.now()).await.unwrap(), Begun::Other, "and answered");
    assert_eq!(begin(t, "key").await, Begun::Answered(said("done")), "the first is untouched");
}

pub(super) async fn a_key_belongs_to_who_asked(t: &mut Subject) {
    // Together they read the same.
    let [one, two] =
        [("1", "23"), ("12", "3")].map(|(by, key)| RequestKey { by: by.into(), key: key.into() });
    for key in [&one, &two] {
        assert_eq!(t.store().begin(key.clone(), ASKED, t.now()).await.unwrap(), Begun::New);
    }
    t.store().answer(one.clone(), Some(said("one"))).await.unwrap();
    assert_eq!(t.store().begin(one, ASKED, t.now()).await.unwrap(), Begun::Answered(said("one")));
    assert_eq!(t.store().begin(two, ASKED, t.now()).await.unwrap(), Begun::Open);
    assert_eq!(begin(t, "23").await, Begun::New, "of somebody else");
}

pub(super) async fn a_request_without_an_answer_may_be_begun_again(t: &mut Subject) {
    begin(t, "key").await;
    t.store().answer(key("key"), None).await.unwrap();
    let other = [8; 32];
    assert_eq!(t.store().begin(key("key"), other, t.now()).await.unwrap(), Begun::New, "even as another");
    t.store().answer(key("key"), None).await.unwrap();
    t.reopen().await;
    assert_eq!(begin(t, "key").await, Begun::New);
}

pub(super) async fn the_first_answer_stands(t: &mut Subject) {
    begin(t, "key").await;
    t.store().answer(key("key"), Some(said("first"))).await.unwrap();
    t.store().answer(key("key"), Some(said("second"))).await.unwrap();
    assert_eq!(begin(t, "key").await, Begun::Answered(said("first")));
    t.store().answer(key("key"), None).await.unwrap();
    assert_eq!(begin(t, "key").await, Begun::Answered(said("first")), "what was done is not undone");
}

pub(super) async fn an_answer_to_a_request_that_was_not_begun_is_not_kept(t: &mut Subject) {
    t.store().answer(key("key"), Some(said("nothing"))).await.unwrap();
    t.store().answer(key("key"), None).await.unwrap();
    assert_eq!(begin(t, "key").await, Begun::New);
}

pub(super) async fn odd_texts_of_a_request_and_its_answer_are_kept(t: &mut Subject) {
    let odd = |text: &String| RequestKey { by: text.clone().into(), key: text.clone().into() };
    let statuses = [100, 200, 204, 404, 599, 0, u16::MAX];
    let mut kept = Vec::new();
    for (text, status) in odd_texts().iter().zip(statuses) {
        assert_eq!(t.store().begin(odd(text), ASKED, t.now()).await.unwrap(), Begun::New);
        let answer = KeptAnswer { status, body: text.clone().into() };
        t.store().answer(odd(text), Some(answer.clone())).await.unwrap();
        kept.push((odd(text), answer));
    }
    t.reopen().await;
    for (key, answer) in kept {
        let begun = t.store().begin(key, ASKED, t.now()).await.unwrap();
        assert_eq!(begun, Begun::Answered(answer));
    }
}

pub(super) async fn requests_begun_before_a_time_are_forgotten_and_later_ones_stay(t: &mut Subject) {
    for (name, at) in [("open", 9), ("answered", 9), ("at the time", 10), ("later", 11)] {
        assert_eq!(t.store().begin(key(name), ASKED, second(at)).await.unwrap(), Begun::New);
    }
    t.store().answer(key("answered"), Some(said("long ago"))).await.unwrap();
    t.store().answer(key("later"), Some(said("lately"))).await.unwrap();
    t.store().forget_requests(second(10)).await.unwrap();
    t.reopen().await;
    for (name, expected) in [
        ("open", Begun::New),
        ("answered", Begun::New),
        ("at the time", Begun::Open),
        ("later", Begun::Answered(said("lately"))),
    ] {
        assert_eq!(begin(t, name).await, expected, "{name}");
    }
}

pub(super) async fn a_request_is_as_old_as_its_beginning(t: &mut Subject) {
    t.store().begin(key("key"), ASKED, second(0)).await.unwrap();
    // Asking again or answering later makes it no younger.
    t.store().begin(key("key"), ASKED, second(100)).await.unwrap();
    t.pass(Duration::from_secs(100));
    t.store().answer(key("key"), Some(said("done"))).await.unwrap();
    t.store().forget_requests(second(1)).await.unwrap();
    assert_eq!(begin(t, "key").await, Begun::New);
}

pub(super) async fn many_requests_are_forgotten_at_once(t: &mut Subject) {
    let of = |number: i64| key(&format!("key {number}"));
    let begun =
        together((0..2_500).map(|number| t.store().begin(of(number), ASKED, second(number % 7)))).await;
    assert!(begun.iter().all(|begun| *begun == Begun::New));
    t.store().forget_requests(second(6)).await.unwrap();
    for number in (0..2_500).step_by(83) {
        let expected = if number % 7 < 6 { Begun::New } else { Begun::Open };
        assert_eq!(t.store().begin(of(number), ASKED, t.now()).await.unwrap(), expected, "{number}");
    }
}

pub(super) async fn no_token_and_no_request_is_pruned(t: &mut Subject) {
    add(t, TokenRow { expires_at: Some(Timestamp::MIN), ..token("expired") }).await;
    t.store().begin(key("key"), ASKED, Timestamp::MIN).await.unwrap();
    t.prune_everything().await;
    assert_eq!(numbers(t).await, [1]);
    assert_eq!(begin(t, "key").await, Begun::Open);
}

fn token(name: &'static str) -> TokenRow {
    TokenRow {
        id: 0,
        name: name.into(),
        digest: [name.len() as u8; 32],
        role: "operator".into(),
        apps: vec!["shop".into(), "*".into()],
        created_at: second(0),
        expires_at: Some(second(3_600)),
    }
}

async fn add(t: &Subject, token: TokenRow) -> u32 {
    t.store().add_token(token).await.unwrap()
}

async fn numbers(t: &Subject) -> Vec<u32> {
    t.store().tokens().await.unwrap().iter().map(|token| token.id).collect()
}

fn key(key: &str) -> RequestKey {
    RequestKey { by: "token 1".into(), key: key.to_owned().into() }
}

fn said(body: &'static str) -> KeptAnswer {
    KeptAnswer { status: 201, body: body.into() }
}

async fn begin(t: &Subject, name: &str) -> Begun {
    t.store().begin(key(name), ASKED, t.now()).await.unwrap()
}

type Asked<'s, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 's>>;

/// Asks all of them before the first is answered, where the store takes time at all; the answers in the order of asking.
async fn together<'s, T>(asked: impl IntoIterator<Item = Asked<'s, T>>) -> Vec<T> {
    let mut asked: Vec<Asked<'s, T>> = asked.into_iter().collect();
    let mut answers: Vec<Option<T>> = asked.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, answer) in asked.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready.unwrap());
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}
