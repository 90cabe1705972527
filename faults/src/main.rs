//! `faults`: the long set. It breaks clusters for the given time, and ends at the first broken promise.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]
#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use punctual_faults::campaign::{CampaignSetup, Database};
use punctual_faults::clock::now;
use punctual_faults::report::CampaignReport;
use punctual_faults::sets;

const USAGE: &str = "\
usage: cargo xtask faults [--minutes N] [--seed N] [--database NAME]... [--redis on|off] [--set NAME]
                    [--binary FILE] [--evidence DIR]

  --minutes   how long clusters are broken in all; 30 if not said
  --seed      where the dice start; the time of day if not said. What nodes do to it is their own
  --database  postgresql, mariadb or embedded; the first two in turn if not said
  --redis     on or off; in turn if not said
  --set       once through alone, deaths, moves (nodes that stop and return as planned), times, absences, outages,
              switch-overs, some or million, instead of whatever the dice say
  --binary    the `punctual` to break; the one beside this program if not said
  --evidence  where histories, logs and reports go; `faults-evidence` beside this program if not said";

struct FaultArguments {
    minutes: u64,
    seed: u64,
    databases: Vec<Database>,
    redis: Option<bool>,
    set: Option<String>,
    binary: PathBuf,
    evidence: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let wanted = match read(&words) {
        Ok(wanted) => wanted,
        Err(sentence) => {
            eprintln!("{sentence}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    match runtime.block_on(run(&wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("{sentence}");
            ExitCode::FAILURE
        }
    }
}

async fn run(wanted: &FaultArguments) -> Result<(), String> {
    let (started, all) = (Instant::now(), Duration::from_secs(wanted.minutes * 60));
    // Every database gets its turn, and no cluster lives so long that its history is too large to check.
    let share = (all / wanted.databases.len() as u32).min(Duration::from_secs(600));
    let (mut turn, mut fires, mut one_shots) = (0, 0, 0);
    while turn == 0 || (wanted.set.is_none() && started.elapsed() < all) {
        let setup = setup(wanted, turn);
        println!("turn {turn}: {:?}, seed {}, redis {}", setup.database, setup.seed, setup.has_redis);
        let left = all.saturating_sub(started.elapsed()).min(share);
        let report = match &wanted.set {
            Some(set) => once(set, &setup).await,
            None => sets::long(&setup, left).await,
        };
        let report = report.map_err(|reason| format!("turn {turn}, seed {}: {reason}", setup.seed))?;
        println!("{}", report.text);
        (fires, one_shots) = (fires + report.covered.fires, one_shots + report.covered.one_shots);
        turn += 1;
    }
    println!("{turn} clusters, {fires} fires and {one_shots} one-shots, nothing lost, nothing decided twice");
    Ok(())
}

async fn once(set: &str, setup: &CampaignSetup) -> Result<CampaignReport, String> {
    match set {
        "alone" => sets::alone(setup).await,
        "deaths" => sets::deaths(setup, 20, 6).await,
        "moves" => sets::deaths(setup, 0, 12).await,
        "times" => sets::times(setup).await,
        "absences" => sets::absences(setup).await,
        "outages" => sets::outages(setup, 5).await,
        "switch-overs" => sets::switch_overs(setup).await,
        "some" => sets::some(setup).await,
        "million" => sets::million(setup, 1_000_000, Duration::from_secs(360), 12).await,
        _ => Err(format!("there is no set {set:?}")),
    }
}

fn setup(wanted: &FaultArguments, turn: usize) -> CampaignSetup {
    let database = wanted.databases[turn % wanted.databases.len()];
    let evidence = wanted.evidence.join(format!("{turn}"));
    let setup = match database {
        Database::Embedded => CampaignSetup::embedded(&wanted.binary, evidence),
        _ => CampaignSetup::cluster(database, &wanted.binary, evidence),
    };
    let is_cluster = database != Database::Embedded;
    let is_its_turn = (turn / wanted.databases.len()).is_multiple_of(2);
    let has_redis = is_cluster && wanted.redis.unwrap_or(is_its_turn);
    CampaignSetup { seed: wanted.seed + turn as u64, has_redis, has_movable_clock: is_cluster, ..setup }
}

fn read(words: &[String]) -> Result<FaultArguments, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut wanted = FaultArguments {
        minutes: 30,
        seed: now().unsigned_abs(),
        databases: Vec::new(),
        redis: None,
        set: None,
        binary: program.with_file_name("punctual"),
        evidence: program.with_file_name("faults-evidence"),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: {value:?} is not a number"));
        match word.as_str() {
            "--minutes" => wanted.minutes = number()?,
            "--seed" => wanted.seed = number()?,
            "--database" => wanted.databases.push(database(value)?),
            "--redis" if value == "on" || value == "off" => wanted.redis = Some(value == "on"),
            "--set" => wanted.set = Some(value.clone()),
            "--binary" => wanted.binary = PathBuf::from(value),
            "--evidence" => wanted.evidence = PathBuf::from(value),
            _ => return Err(format!("there is no {word}")),
        }
    }
    if wanted.databases.is_empty() {
        wanted.databases = vec![Database::Postgres, Database::MariaDb];
    }
    Ok(wanted)
}

fn database(name: &str) -> Result<Database, String> {
    match name {
        "postgresql" => Ok(Database::Postgres),
        "mariadb" => Ok(Database::MariaDb),
        "embedded" => Ok(Database::Embedded),
        _ => Err(format!("there is no database {name:?}")),
    }
}
