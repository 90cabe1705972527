//! A process that is killed in the middle of writing loses nothing that it was told is written, and leaves a file in which
//! everything that is open is found again.
//!
//! The child is this very test binary. It writes and says on its output what was acknowledged; the parent reads along and
//! kills it after as many lines as a seed says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, Decided, Epoch, JobId, NewRun, Origin, Outcome, RunId, ScheduleKind, Then, Token,
};
use punctual_node::ports::{Accepted, ClockRow, Gate, Gated, Lease, Plan, Planned, Settled, Store, Waiting};
use punctual_store::sqlite::Sqlite;
use rusqlite::{Connection, OpenFlags};

use crate::sqlite_support::{
    Folder, START, block_on, close, create, definition, hold_all, one_shot, options, second, sent, short_tail,
};

const KILLS: u64 = 100;

/// Acknowledged lines before a kill, at most.
const LINES_MAX: u64 = 80;

/// So short that most kills come while an index is being written.
const TAIL: usize = 300;

const DATABASE: &str = "PUNCTUAL_TEST_DATABASE";
const SEED: &str = "PUNCTUAL_TEST_SEED";

#[test]
fn a_hundred_kills_lose_nothing_that_was_acknowledged() {
    let folder = Folder::new();
    let mut acknowledged = Acknowledged::default();
    for seed in 0..KILLS {
        let mut dice = Dice(seed);
        kill_after(&folder.database(), seed, 1 + dice.below(LINES_MAX), &mut acknowledged);
        check_acknowledged(&read_tables(&folder.database()), &acknowledged, seed);
        // In a process of its own, which ends without closing the file either.
        let checked = child("sqlite_kill::checker", &folder.database(), seed).status().unwrap();
        assert!(checked.success(), "seed {seed}: the checker says why");
        // Now and then a clean close in between, which writes all indexes.
        if seed % 7 == 0 {
            drop(Sqlite::open(&folder.database(), options(short_tail(TAIL))).unwrap());
        }
    }
    let (whole, cut) = layers(&folder.database());
    assert!(whole > 20 && cut > 10, "kills in the middle of a flush: {cut}, flushes: {whole}");
    assert!(acknowledged.closed.len() > 1_000, "the child did something: {}", acknowledged.closed.len());
    assert!(acknowledged.gated.len() > 100, "the child did something: {}", acknowledged.gated.len());
}

/// How many layers of indexes are whole, and how many a kill has left half written.
fn layers(database: &Path) -> (i64, i64) {
    let conn = Connection::open(database).unwrap();
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let whole = count("select count(*) from layers where layer > 0");
    let mut select = conn.prepare("select name from sqlite_schema where name like 'due#_%' escape '#' or name like 'closed#_%' escape '#'").unwrap();
    let tables = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let written: i64 = tables
        .map(|table| count(&format!("select count(distinct layer) from {} where layer > 0", table.unwrap())))
        .sum();
    (whole, written - whole)
}

/// What the child was told is written.
#[derive(Default)]
struct Acknowledged {
    runs: BTreeSet<u64>,
    closed: BTreeSet<u64>,
    gated: BTreeMap<u64, u64>,
    /// How far the clock was moved.
    next_fire: i64,
}

/// This binary again, as one of the tests that are none.
fn child(test: &str, database: &Path, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(DATABASE, database).env(SEED, seed.to_string()).stdout(Stdio::piped());
    command
}

fn kill_after(database: &Path, seed: u64, lines: u64, acknowledged: &mut Acknowledged) {
    let mut child = child("sqlite_kill::writer", database, seed).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut read = 0;
    while read < lines {
        let line = output.next().expect("the child writes until it is killed").unwrap();
        read += u64::from(acknowledged.note(&line));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had said before it died counts too, but the last line may be cut.
    let rest: Vec<String> = output.map_while(Result::ok).collect();
    let whole = rest.len().saturating_sub(1);
    for line in &rest[..whole] {
        acknowledged.note(line);
    }
}

impl Acknowledged {
    /// Notes a line of the child, if it is one.
    fn note(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        let (Some("ack"), Some(what)) = (words.next(), words.next()) else { return false };
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        match what {
            "runs" => self.runs.extend(numbers),
            "closed" => self.closed.extend(numbers),
            "gated" => drop(self.gated.insert(numbers[0], numbers[1])),
            "plan" => self.next_fire = self.next_fire.max(numbers[0] as i64),
            _ => panic!("{line}"),
        }
        true
    }
}

/// What the tables say, read past all indexes and tails.
#[derive(Default)]
struct Tables {
    runs: BTreeSet<u64>,
    closed: BTreeSet<u64>,
    gated: BTreeMap<u64, u64>,
    waiting: BTreeSet<u64>,
    next_fire: i64,
}

fn read_tables(database: &Path) -> Tables {
    // Only to read, so that closing it does not tidy up what the next opening has to cope with.
    let conn = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let check: String = conn.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let mut tables = Tables::default();
    let column = |sql: &str| -> Vec<i64> {
        let mut select = conn.prepare(sql).unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for day in column("select day from buckets") {
        let has = |table: &str| {
            let sql = format!("select count(*) from sqlite_schema where name = '{table}_{day}'");
            column(&sql) == [1]
        };
        let ids = |sql: String| column(&sql).into_iter().map(|id| id as u64);
        let runs = tables.runs.len();
        tables.runs.extend(ids(format!("select id from runs_{day}")));
        let closed = tables.closed.len();
        if has("closes") {
            let closes: Vec<u64> = ids(format!("select run from closes_{day}")).collect();
            let before = tables.closed.len();
            tables.closed.extend(closes.iter().copied());
            assert_eq!(tables.closed.len() - before, closes.len(), "a run is closed once");
        }
        if has("sends") {
            let logs = ids(format!("select log from sends_{day} order by run, attempt"));
            let runs = ids(format!("select run from sends_{day} order by run, attempt"));
            tables.gated.extend(runs.zip(logs));
        }
        let counted = column(&format!("select runs from buckets where day = {day}"));
        assert_eq!(counted, [(tables.runs.len() - runs) as i64], "runs are counted");
        let counted = column(&format!("select closed from buckets where day = {day}"));
        assert_eq!(counted, [(tables.closed.len() - closed) as i64], "closes are counted");
    }
    tables.waiting = column("select run from waiting").into_iter().map(|run| run as u64).collect();
    tables.next_fire = column("select coalesce(max(next_fire), 0) from clocks")[0];
    tables
}

fn check_acknowledged(tables: &Tables, acknowledged: &Acknowledged, seed: u64) {
    let lost: Vec<_> = acknowledged.runs.difference(&tables.runs).collect();
    assert!(lost.is_empty(), "seed {seed}: runs {lost:?} were acknowledged");
    let lost: Vec<_> = acknowledged.closed.difference(&tables.closed).collect();
    assert!(lost.is_empty(), "seed {seed}: closes of {lost:?} were acknowledged");
    for (run, log) in &acknowledged.gated {
        assert_eq!(tables.gated.get(run), Some(log), "seed {seed}: the gate of {run} was acknowledged");
    }
    assert!(tables.next_fire >= acknowledged.next_fire, "seed {seed}: the clock went back");
}

/// What the store finds through tails and indexes is what the tables hold.
fn check_found(database: &Path, seed: u64) {
    let tables = read_tables(database);
    let store = Sqlite::open(database, options(short_tail(TAIL))).unwrap();
    let open: BTreeSet<u64> = tables.runs.difference(&tables.closed).copied().collect();
    let (loaded, adopted) = block_on(async {
        let leases = hold_all(&store, u128::from(seed) + 1_000_000).await;
        (load_all(&store, &leases).await, store.adopt(&leases).await.unwrap())
    });
    let found: BTreeSet<u64> = loaded.iter().map(|run| run.run.0).collect();
    assert_eq!(found.len(), loaded.len(), "seed {seed}: a run is loaded once");
    let gated: BTreeSet<u64> = tables.gated.keys().copied().filter(|run| open.contains(run)).collect();
    assert_eq!(
        found,
        open.difference(&gated).copied().collect(),
        "seed {seed}: exactly the open runs are loaded"
    );
    assert_eq!(
        adopted.sends.iter().map(|send| send.run.run.0).collect::<BTreeSet<u64>>(),
        gated,
        "seed {seed}: exactly the open gated runs are adopted"
    );
    for run in &loaded {
        assert_eq!(tables.waiting.contains(&run.run.0), run.attempt > Attempt::FIRST, "seed {seed}: {run:?}");
    }
    let closed: Vec<RunId> = tables.closed.iter().map(|run| RunId(*run)).collect();
    let rows = block_on(store.fetch(&closed)).unwrap();
    assert_eq!(rows.len(), closed.len());
    assert!(rows.iter().all(|row| row.is_closed), "seed {seed}: what is closed stays closed");
    std::process::exit(0);
}

async fn load_all(store: &Sqlite, leases: &[Lease]) -> Vec<Waiting> {
    let (mut runs, mut from) = (Vec::new(), START);
    loop {
        let loaded = store.load(leases, from, Timestamp::MAX, 500).await.unwrap();
        runs.extend(loaded.runs);
        match loaded.rest {
            Some(rest) => from = rest,
            None => return runs,
        }
    }
}

/// Not a test: the child that writes until it is killed.
#[test]
fn writer() {
    if let Some((database, seed)) = told() {
        block_on(write_for_ever(&database, seed));
    }
}

/// Not a test: the child that opens what was left, looks at it, and ends without closing it.
#[test]
fn checker() {
    if let Some((database, seed)) = told() {
        check_found(&database, seed);
    }
}

/// What the parent told this process, if it is a child.
#[expect(clippy::disallowed_methods, reason = "the parent tells the child by its environment")]
fn told() -> Option<(PathBuf, u64)> {
    let seed = std::env::var_os(SEED)?;
    Some((std::env::var_os(DATABASE)?.into(), seed.to_str()?.parse().ok()?))
}

async fn write_for_ever(database: &Path, seed: u64) {
    let store = Sqlite::open(database, options(short_tail(TAIL))).unwrap();
    let leases = hold_all(&store, u128::from(seed)).await;
    let mut dice = Dice(seed ^ 0x5eed);
    if store.jobs(&[JobId(1)]).await.unwrap().is_empty() {
        create(&store, definition("job", ScheduleKind::Manual), Some(second(0))).await;
    }
    loop {
        match dice.below(4) {
            0 | 1 => accept(&store, &mut dice).await,
            2 => settle(&store, &leases, &mut dice).await,
            _ => plan(&store, &leases).await,
        }
    }
}

async fn accept(store: &Sqlite, dice: &mut Dice) {
    let due = second(dice.below(3 * 86_400) as i64);
    let count = 1 + dice.below(40);
    let first = store.allot(RunId::day_of(due), count).await.unwrap();
    let mut runs: Vec<NewRun> = (first..first + count).map(|sequence| one_shot(sequence, due)).collect();
    for run in &mut runs {
        // Every due time of the day, but the same day.
        let within = Timestamp::from_millis(
            RunId::day_start(run.id.day()).as_millis() + dice.below(86_400_000) as i64,
        );
        (run.due, run.fire_time) = (within, within);
        run.key = (dice.below(10) == 0).then(|| format!("key {}", run.id).into());
    }
    let accepted = store.accept(runs, Vec::new()).await.unwrap();
    let new = accepted.iter().filter_map(|accepted| match accepted {
        Accepted::New(run) => Some(run.0),
        Accepted::Duplicate(_) => None,
    });
    say("runs", new);
}

async fn settle(store: &Sqlite, leases: &[Lease], dice: &mut Dice) {
    let from = Timestamp::from_millis(second(0).as_millis() + dice.below(86_400_000) as i64);
    let loaded =
        store.load(leases, punctual_core::wheel::Mark { due: from, id: 0 }, Timestamp::MAX, 40).await;
    let mut settlements = Vec::new();
    for run in loaded.unwrap().runs {
        let attempt = run.attempt;
        if dice.below(10) == 0 {
            let gate = Gate {
                lease: leases[0],
                run: run.run,
                job: run.job,
                attempt,
                token: Token::new(Epoch(1), attempt),
                executor: "worker".into(),
                sent_at: second(0),
                holds: Vec::new(),
            };
            if let [Gated::Through(log)] = store.gate(vec![gate]).await.unwrap()[..] {
                say("gated", [run.run.0, log.0]);
            }
            // Some stay open with their gate.
            if dice.below(3) == 0 {
                continue;
            }
        }
        let then = match dice.below(6) {
            0 => Then::Wait { ready_at: second(dice.below(86_400) as i64), attempt: attempt.next() },
            _ => Then::Close(close(Outcome::Succeeded)),
        };
        settlements.push(sent(run.run, attempt.0, then));
    }
    let settled = store.settle(settlements.clone()).await.unwrap();
    let closed = settlements.iter().zip(settled).filter_map(|(settlement, settled)| {
        let is_close = matches!(settlement.then, Then::Close(_)) && settled != Settled::Stale;
        is_close.then_some(settlement.run.0)
    });
    say("closed", closed);
}

async fn plan(store: &Sqlite, leases: &[Lease]) {
    let clocks: Vec<ClockRow> = store.due(leases, Timestamp::MAX, 1).await.unwrap();
    let clock = clocks[0];
    let next = Timestamp::from_millis(clock.next_fire.as_millis() + 1_000);
    let day = RunId::day_of(clock.next_fire);
    let sequence = store.allot(day, 1).await.unwrap();
    let run = NewRun {
        origin: Origin::Schedule,
        decided: Decided::OnTime,
        shard: clock.shard,
        ..one_shot(sequence, clock.next_fire)
    };
    let lease = leases.iter().find(|lease| lease.shard == clock.shard).copied().unwrap();
    let plan = Plan {
        lease,
        clock,
        next: Some(next),
        runs: vec![run],
        skipped: None,
        decided_to: clock.next_fire,
        stop: None,
    };
    match &store.plan(vec![plan]).await.unwrap()[..] {
        [Planned::Moved(runs)] => say("runs", runs.iter().map(|run| run.0)),
        planned => panic!("{planned:?}"),
    }
    say("plan", [next.as_millis() as u64]);
}

/// Tells the parent what is acknowledged.
fn say(what: &str, numbers: impl IntoIterator<Item = u64>) {
    let numbers: String = numbers.into_iter().map(|number| format!(" {number}")).collect();
    let mut output = std::io::stdout().lock();
    writeln!(output, "ack {what}{numbers}").unwrap();
    output.flush().unwrap();
}

/// Numbers that look random and are the same every time (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
