//! The command: runs scenarios and prints their figures.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::database::Database;
use crate::machine::Machine;
use crate::scenarios::{ALL, BenchSetup, fill_timers};
use crate::{BenchError, DatabaseChoice, DatabaseFolder, Figure, Order, Sizes};

const USAGE: &str = "\
usage: punctual bench SCENARIO|all [OPTIONS]

of the store and the engine
  insert      one-shots by batches of 1 to 10,000      load_close  one-shots loaded and closed
  plan        seconds of planning                      tick        the same with a million jobs that are not due
  wheel, timers, cron, engine                          the parts of the engine, each alone
of a whole node
  submit      one-shots through the API, one and many a request
  execute     as fast as it goes: agents, then native executors, results kept
  native, xxl the same with one kind of executor, then the lag at 10, 50 and 90 % of that
  lag         5,000 due at one second, native          herd        10,000 due at one second, agents
  flood       a million due at one second              stored      a million stored, 10,000 due a second
  backlog     60,000 due at one second, agents, over 1, 200, 2,000 and 20,000 jobs; and 150,000 most of which are parked
  starve      jobs of one app hang, 300 calls each: one job, four over two hosts, two on the host of the others; how late eight
              other apps are meanwhile
  cancel      by number and by filter                  restart     a million stored, kill -9, until the first due run
  sustained   60,000 due a second for ten minutes, native, results kept
  browse      pages of the API, with 100,000 jobs and 10 million runs that have ended
  abuse       a job that must not be late, while strangers and token holders take all the connections and memory they can
  scaling     1, 2 and 3 nodes, each with the same small share of a core, on PostgreSQL and MariaDB

  --database WHICH  sqlite (as long as nothing is said), scratch-postgres or scratch-mariadb, which are started for it with
                    fsync on, or an address: databases named punctual_bench_* are made and dropped there
                    (all but wheel, timers, cron, engine)
  --order ORDER     insertion or random: whether one-shots are due in the order in which they are inserted; both if not said
                    (insert, load_close)
  --jobs N          jobs that are stored (tick, browse), or that runs belong to (backlog)
  --runs N          runs that are executed (execute, native, xxl, flood, backlog; for each node: scaling), handed over
                    (submit), cancelled (cancel) or over (browse)
  --stored N        one-shots that are stored (restart, stored)
  --rate N          how many are due a second (stored, sustained)
  --seconds N       for how long (stored, sustained, abuse)
  --share N         hundredths of a core for each node (scaling)
  --takes N         milliseconds that the agent takes for a call; 0 if not said (backlog)
  --quick           smaller, for a look in between
  --json            one object a line; the first is the machine
  --dir PATH        where databases are made (the system's folder for temporary files)

  punctual bench insert --database scratch-postgres --order random
  punctual bench tick --jobs 1000000 --database scratch-mariadb --json
  punctual bench restart --stored 10000000
  punctual bench scaling --share 20";

/// The arguments of the command.
struct BenchArguments {
    scenario: String,
    is_quick: bool,
    /// Runs the smallest sizes, to test the scenario itself.
    is_tiny: bool,
    is_json: bool,
    /// Whether this process is one of several, and the machine was already printed.
    is_part: bool,
    dir: PathBuf,
    database: DatabaseChoice,
    orders: Vec<Order>,
    /// The sizes that were given.
    numbers: Vec<(String, u64)>,
}

impl BenchArguments {
    fn sizes(&self) -> Sizes {
        let mut sizes = match (self.is_tiny, self.is_quick) {
            (true, _) => Sizes::tiny(),
            (_, true) => Sizes::quick(),
            _ => Sizes::full(),
        };
        for (name, number) in &self.numbers {
            match name.as_str() {
                "--jobs" => {
                    (sizes.idle_jobs, sizes.browsed_jobs) = (*number, *number);
                    sizes.backlog_jobs = vec![*number];
                    sizes.parked.1 = 0;
                }
                "--stored" => sizes.stored = *number,
                "--rate" => (sizes.due_rate, sizes.sustained_rate) = (*number, *number),
                "--seconds" => {
                    let span = Duration::from_secs(*number);
                    (sizes.steady, sizes.sustained, sizes.abused) = (span, span, span);
                }
                "--share" => sizes.share = *number,
                "--takes" => sizes.backlog_takes = Duration::from_millis(*number),
                "--runs" => sizes = sizes.with_runs(*number),
                _ => {}
            }
        }
        sizes
    }
}

/// Runs the command. `leading` are the words that come before the arguments when this program starts itself again.
pub fn run(words: &[String], leading: &[&str]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.iter().any(|word| ["--help", "-h"].contains(word)) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let done = match (&words[..], read(&words)) {
        // The part of a scenario that needs a process of its own.
        (["fill", path, count], _) => fill(path, count),
        // A server for other programs that are measured in comparison.
        (["scratch", "postgres"], _) => lend(),
        (_, Ok(asked)) => measure(&asked, &words, leading),
        (_, Err(complaint)) => {
            eprintln!("{complaint}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: &[&str]) -> Result<BenchArguments, String> {
    let mut asked = BenchArguments {
        scenario: String::new(),
        is_quick: false,
        is_tiny: false,
        is_json: false,
        is_part: false,
        dir: std::env::temp_dir(),
        database: DatabaseChoice::Embedded,
        orders: Order::ALL.to_vec(),
        numbers: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => asked.is_quick = true,
            "--tiny" => asked.is_tiny = true,
            "--json" => asked.is_json = true,
            "--part" => asked.is_part = true,
            "--dir" => asked.dir = words.next().ok_or("--dir wants a folder")?.into(),
            "--database" => {
                asked.database = words.next().ok_or("--database wants a name or an address")?.parse()?
            }
            "--order" => asked.orders = order(words.next().copied())?,
            number if NUMBERS.contains(&number) => {
                let value = words.next().and_then(|value| value.replace([',', '_'], "").parse().ok());
                let value = value.ok_or_else(|| format!("{number} wants a number"))?;
                asked.numbers.push((number.to_owned(), value));
            }
            name if asked.scenario.is_empty() => asked.scenario = name.to_owned(),
            other => return Err(format!("what is {other}?")),
        }
    }
    let is_known = asked.scenario == "all" || ALL.iter().any(|(name, _)| *name == asked.scenario);
    match asked.scenario.as_str() {
        "" => Err("which scenario?".to_owned()),
        _ if is_known => Ok(asked),
        name => Err(format!("there is no scenario {name}")),
    }
}

/// Options that take a number.
const NUMBERS: &[&str] = &["--jobs", "--runs", "--stored", "--rate", "--seconds", "--share", "--takes"];

fn order(word: Option<&str>) -> Result<Vec<Order>, String> {
    match word {
        Some("insertion") => Ok(vec![Order::Rows]),
        Some("random") => Ok(vec![Order::Random]),
        _ => Err("--order wants insertion or random".to_owned()),
    }
}

/// Runs the scenario; whether every figure is right.
fn measure(asked: &BenchArguments, words: &[&str], leading: &[&str]) -> Result<bool, BenchError> {
    if !asked.is_part {
        let machine = Machine::describe(&asked.dir);
        if asked.is_json {
            println!("{}", serde_json::to_string(&machine)?);
        } else {
            println!("{machine}\n\n{}", Figure::heading());
        }
    }
    if asked.scenario == "all" {
        return run_all(words, leading);
    }
    let setup = BenchSetup {
        sizes: asked.sizes(),
        database: asked.database.clone(),
        orders: asked.orders.clone(),
        dir: asked.dir.clone(),
        program: leading.is_empty().then(std::env::current_exe).transpose()?,
        punctual: Some(std::env::current_exe()?.with_file_name("punctual")),
    };
    let scenarios = ALL.iter().filter(|(name, _)| *name == asked.scenario);
    let mut is_right = true;
    for (_, scenario) in scenarios {
        for figure in scenario(&setup)? {
            is_right &= figure.is_right();
            println!("{}", if asked.is_json { figure.to_json() } else { figure.to_string() });
        }
    }
    Ok(is_right)
}

/// Runs each scenario in a process of its own, so that none measures memory that another left.
fn run_all(words: &[&str], leading: &[&str]) -> Result<bool, BenchError> {
    let options: Vec<&&str> = words.iter().filter(|word| **word != "all").collect();
    let mut is_right = true;
    for (name, _) in ALL {
        let status = Command::new(std::env::current_exe()?)
            .args(leading)
            .arg(name)
            .arg("--part")
            .args(&options)
            .status()?;
        is_right &= status.success();
    }
    Ok(is_right)
}

fn fill(path: &str, count: &str) -> Result<bool, BenchError> {
    fill_timers(Path::new(path), count.parse()?)?;
    Ok(true)
}

/// Starts a PostgreSQL as the scenarios do, prints its address, and keeps it running until stdin closes.
fn lend() -> Result<bool, BenchError> {
    let place = DatabaseFolder::make(&std::env::temp_dir(), "scratch")?;
    let database = Database::start(&DatabaseChoice::ScratchPostgres, place)?;
    println!("{}", database.url());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(true)
}
