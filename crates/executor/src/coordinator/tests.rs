//! The coordinator on its own: credits, known nodes, and what is remembered.

use std::sync::Arc;

use proptest::prelude::*;
use punctual_protocol::native::Report;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::handler::{self, Handler};

/// A coordinator, with the ends of the sessions that are open.
struct Room {
    coordinator: Coordinator,
    now: Instant,
    nodes: Vec<Option<UnboundedReceiver<String>>>,
    handler: Arc<Handler>,
    running: Vec<Context>,
}

impl Room {
    fn new(capacity: u32, urls: &[&str]) -> Room {
        let (events, _) = unbounded_channel();
        let limit = Duration::from_secs(5);
        let mut coordinator = Coordinator::new(capacity, limit, limit, events);
        urls.iter().for_each(|url| coordinator.name_node(Url::parse(url).unwrap()));
        let handler = Arc::new(handler::plain("h".into(), |_| async { Ok(()) }));
        Room { coordinator, now: surroundings::instant(), nodes: Vec::new(), handler, running: Vec::new() }
    }

    fn take(&mut self, event: Event) -> Actions {
        self.coordinator.take(self.now, event);
        let mut actions = self.coordinator.finish(self.now);
        self.running.append(&mut actions.starts);
        actions
    }

    fn open(&mut self, link: usize, welcome: Welcome) -> Actions {
        let (outbox, inbox) = unbounded_channel();
        self.nodes.resize_with(self.nodes.len().max(link + 1), || None);
        self.nodes[link] = Some(inbox);
        self.take(Event::Opened { link, welcome: Box::new(welcome), outbox })
    }

    fn close(&mut self, link: usize, is_replaced: bool) {
        self.nodes.get_mut(link).map(Option::take);
        self.take(Event::Closed { link, reason: String::new(), is_replaced });
    }

    fn send(&mut self, link: usize, run: u64, token: u64) {
        let held = Held { run, attempt: 1, token };
        let handler = Ok(self.handler.clone());
        let work = ReceivedRun {
            held,
            job: 1,
            name: "j".into(),
            handler,
            fire_time: "2026-11-15T09:00:00.000Z".into(),
            timeout_ms: 0,
            payload: None,
            possible_duplicate: false,
            part: None,
        };
        self.take(Event::Runs { link, runs: vec![work] });
    }

    fn end(&mut self, index: usize) {
        let held = self.running.remove(index).held();
        self.take(Event::Ended(AttemptReport::new(
            held,
            AttemptEnd::new(Outcome::Succeeded, ""),
            None,
            self.now,
        )));
    }

    /// The credits and reports that were sent to a node since the last call.
    fn told(&mut self, link: usize) -> (u32, Vec<Report>) {
        let (mut credits, mut reports) = (0, Vec::new());
        let Some(Some(inbox)) = self.nodes.get_mut(link) else { return (0, reports) };
        while let Ok(message) = inbox.try_recv() {
            match FromExecutor::read(&message).unwrap() {
                FromExecutor::Credit(credit) => credits += credit.more,
                FromExecutor::Reports(said) => {
                    credits += said.credits;
                    reports.extend(said.reports);
                }
                _ => {}
            }
        }
        (credits, reports)
    }

    fn asks(&mut self, link: usize) -> ConnectDecision {
        let (answer, mut answered) = oneshot::channel();
        self.take(Event::Connecting { link, answer });
        answered.try_recv().unwrap()
    }
}

fn named(node: &str) -> Welcome {
    Welcome { node: node.into(), ..Welcome::default() }
}

fn listing(nodes: &[&str]) -> Welcome {
    Welcome { nodes: nodes.iter().map(ToString::to_string).collect(), ..Welcome::default() }
}

#[test]
fn a_report_that_comes_late_says_how_long_ago_its_attempt_ended() {
    let mut room = Room::new(10, &["http://a", "http://b"]);
    room.open(0, named("n1"));
    room.send(0, 1, 1);
    room.send(0, 2, 1);
    room.end(0);
    let ago = |(_, reports): (u32, Vec<Report>)| -> Vec<(u64, Option<u64>)> {
        reports.iter().map(|report| (report.run, report.ended_ms_ago)).collect()
    };
    assert_eq!(ago(room.told(0)), [(1, None)], "it comes at once");
    room.now += Duration::from_secs(2);
    room.close(0, false);
    room.end(0);
    room.now += Duration::from_secs(3);
    room.open(1, named("n2"));
    let mut repeated = ago(room.told(1));
    repeated.sort_unstable();
    assert_eq!(repeated, [(1, Some(5_000)), (2, Some(3_000))]);
}

#[test]
fn a_node_with_two_addresses_has_one_session() {
    let mut room = Room::new(10, &["http://a", "http://b"]);
    room.open(0, named("n1"));
    room.open(1, named("n1"));
    room.close(0, true);
    assert_eq!(room.asks(0), ConnectDecision::Later);
    room.close(1, false);
    assert_eq!(room.asks(0), ConnectDecision::Go(Vec::new()));
}

#[test]
fn nodes_that_are_learned_are_forgotten_when_they_are_gone_from_the_list() {
    let mut room = Room::new(10, &["http://a"]);
    let actions = room.open(0, listing(&["http://a/", "http://b", "nonsense"]));
    let urls: Vec<String> = actions.links.iter().map(|(_, url)| url.to_string()).collect();
    assert_eq!(urls, ["http://a:80", "http://b:80"], "the first is the one that was named");
    room.take(Event::Nodes(Vec::new()));
    assert!(
        matches!(room.asks(1), ConnectDecision::Go(_)),
        "nobody knows of nodes, so nothing is known to be gone"
    );
    let actions = room.take(Event::Nodes(vec!["http://c".into()]));
    assert_eq!((room.asks(1), actions.links.len()), (ConnectDecision::Stop, 1));
    assert!(matches!(room.asks(0), ConnectDecision::Go(_)), "what the program named stays");
}

#[test]
fn a_token_for_an_encrypted_line_is_sent_over_no_other() {
    let mut room = Room::new(10, &["https://a"]);
    room.open(0, listing(&["http://b"]));
    assert_eq!(room.coordinator.links.len(), 1);
}

#[test]
fn tokens_are_remembered_for_ten_minutes() {
    let mut room = Room::new(10, &["http://a"]);
    room.open(0, Welcome::default());
    room.send(0, 7, 9);
    room.end(0);
    let (_, reports) = room.told(0);
    room.take(Event::Kept(reports.iter().map(Report::held).collect()));
    room.now += REMEMBERED - Duration::from_secs(1);
    room.send(0, 7, 8);
    let (_, reports) = room.told(0);
    assert!(room.running.is_empty() && reports[0].outcome == Outcome::Refused);
    room.take(Event::Kept(reports.iter().map(Report::held).collect()));
    room.now += REMEMBERED;
    room.take(Event::Kept(Vec::new()));
    assert!(
        room.coordinator.runs.is_empty()
            && room.coordinator.reported.is_empty()
            && room.coordinator.attempts.is_empty()
    );
}

#[test]
fn an_idle_node_has_its_share_and_gets_it_back() {
    let mut room = Room::new(30, &["http://a", "http://b"]);
    room.open(0, Welcome::default());
    assert_eq!(room.told(0).0, 10);
    room.take(Event::Want { link: 0, runs: 1_000 });
    assert_eq!(room.told(0).0, 20, "the other is not there, but may come");
    (0..30).for_each(|run| room.send(0, run + 1, 1));
    room.open(1, Welcome::default());
    assert_eq!(room.told(1).0, 0, "everything runs");
    (0..10).for_each(|_| room.end(0));
    assert_eq!((room.told(0).0, room.told(1).0), (0, 10), "the share comes first");
}

#[test]
fn what_runs_too_long_when_the_process_stops_is_told_to_end() {
    let mut room = Room::new(10, &["http://a"]);
    room.open(0, Welcome::default());
    room.send(0, 7, 9);
    room.coordinator.drain(room.now);
    assert!(!room.coordinator.is_drained() && !room.running[0].is_cancelled());
    room.now = room.coordinator.next().unwrap();
    room.coordinator.wake(room.now);
    assert!(!room.coordinator.is_drained() && room.running[0].is_cancelled());
    room.now = room.coordinator.next().unwrap();
    room.coordinator.wake(room.now);
    assert!(room.coordinator.is_drained(), "what does not end by force holds nothing up");
}

#[derive(Clone, Debug)]
enum Move {
    Open(usize),
    Close(usize),
    Send(usize, u32),
    End(usize),
    Want(usize, u64),
    Keep,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        (0..3_usize).prop_map(Move::Open),
        (0..3_usize).prop_map(Move::Close),
        (0..3_usize, 1..6_u32).prop_map(|(link, count)| Move::Send(link, count)),
        (0..100_usize).prop_map(Move::End),
        (0..3_usize, 1..50_u64).prop_map(|(link, runs)| Move::Want(link, runs)),
        Just(Move::Keep),
    ]
}

proptest! {
    /// After any sequence of moves, credits and running attempts fit the capacity, and every attempt is accounted for.
    #[test]
    fn promises_are_never_more_than_the_capacity(capacity in 1..20_u32, moves in prop::collection::vec(moves(), 1..200)) {
        let mut room = Room::new(capacity, &["http://a", "http://b", "http://c"]);
        let (mut credits, mut run) = ([0_u32; 3], 0);
        let mut reported = Vec::new();
        for step in moves {
            let is_open = |room: &Room, link: usize| room.coordinator.links[link].is_open();
            match step {
                Move::Open(link) if !is_open(&room, link) => {
                    credits[link] = 0;
                    drop(room.open(link, Welcome::default()));
                }
                Move::Close(link) if is_open(&room, link) => {
                    credits[link] = 0;
                    room.close(link, false);
                }
                Move::Send(link, count) if is_open(&room, link) => {
                    for _ in 0..count.min(credits[link]) {
                        credits[link] -= 1;
                        run += 1;
                        room.send(link, run, 1);
                    }
                }
                Move::End(index) if !room.running.is_empty() => room.end(index % room.running.len()),
                Move::Want(link, runs) => drop(room.take(Event::Want { link, runs })),
                Move::Keep => drop(room.take(Event::Kept(std::mem::take(&mut reported)))),
                _ => {}
            }
            for (link, credits) in credits.iter_mut().enumerate() {
                let (more, reports) = room.told(link);
                *credits += more;
                reported.extend(reports.iter().map(Report::held));
            }
            prop_assert!(credits.iter().sum::<u32>() + room.running.len() as u32 <= capacity);
            let unreported = room.coordinator.attempts.values().filter(|given| matches!(given.state, State::Over(_))).count();
            prop_assert_eq!(room.coordinator.attempts.len(), room.running.len() + unreported);
            prop_assert_eq!(room.coordinator.running as usize, room.running.len());
        }
        // The last node to connect is sent every report that no node has kept.
        (0..3).for_each(|link| room.close(link, false));
        room.open(0, Welcome::default());
        prop_assert_eq!(room.told(0).1.len(), room.coordinator.attempts.len() - room.running.len());
    }
}
