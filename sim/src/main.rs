//! The binary `sim`: replays one seed, or runs many and reports the failures.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use punctual_sim::faults::FaultKind;
use punctual_sim::link::Micros;
use punctual_sim::setup::{Cut, SIX_HOURS, Shape, WorldSetup};
use punctual_sim::sweep::{Swept, run_traced, sweep, sweep_range};
use punctual_sim::{planted, shrink};

const USAGE: &str = "\
usage: sim --seed N [OPTIONS]                  replay one world and print its end
       sim --seeds COUNT [--from N] [OPTIONS]  run so many worlds
       sim --from N --minutes M [OPTIONS]      run worlds on and on; go on later with the seed it prints

  --hours H            how long things go wrong in each world (6)
  --plant NAME         with a planted bug; `--plant list` names them
  --shape NAME         in worlds of another shape: Drawn, Narrow, Hung, Crowded
  --no-shrink          do not make failing worlds small
  --full               print the whole trace that is kept, not its end
  --only TEXT          print only the lines that hold this

what a small world leaves out, for --seed:
  --length-us N --nodes N --jobs N --without KIND,… --faults N,…|none --commands N,…|none";

/// The arguments of the command.
#[derive(Default)]
struct SimArguments {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: u64,
    minutes: Option<u64>,
    hours: Option<f64>,
    plant: Option<String>,
    shape: Option<Shape>,
    cut: Cut,
    no_shrink: bool,
    full: bool,
    only: Option<String>,
}

fn main() -> ExitCode {
    // A panic inside a world is caught and reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = match read(&words) {
        Ok(asked) => asked,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if asked.plant.as_deref() == Some("list") {
        planted::ALL.iter().for_each(|bug| println!("{}", bug.name()));
        return ExitCode::SUCCESS;
    }
    let is_clean = match asked.seed {
        Some(seed) => replay(seed, &asked),
        None => many(&asked),
    };
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(words: &[String]) -> Result<SimArguments, String> {
    let mut asked = SimArguments::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        match word.as_str() {
            "--seed" => asked.seed = Some(number(value()?)?),
            "--seeds" => asked.seeds = Some(number(value()?)?),
            "--from" => asked.from = number(value()?)?,
            "--minutes" => asked.minutes = Some(number(value()?)?),
            "--hours" => asked.hours = Some(value()?.parse().map_err(|_| "--hours wants a number")?),
            "--plant" => asked.plant = Some(value()?.clone()),
            "--shape" => {
                let name = value()?;
                asked.shape = Some(Shape::named(name).ok_or(format!("no shape is called {name}"))?);
            }
            "--no-shrink" => asked.no_shrink = true,
            "--full" => asked.full = true,
            "--only" => asked.only = Some(value()?.clone()),
            "--length-us" => asked.cut.length = Some(number(value()?)?),
            "--nodes" => asked.cut.nodes = Some(number(value()?)? as usize),
            "--jobs" => asked.cut.jobs = Some(number(value()?)? as usize),
            "--without" => {
                let kind = |name: &str| {
                    FaultKind::from_name(name).ok_or(format!("no kind of fault is called {name}"))
                };
                asked.cut.without = value()?.split(',').map(kind).collect::<Result<_, _>>()?;
            }
            "--faults" => asked.cut.faults = Some(list(value()?)?),
            "--commands" => asked.cut.commands = Some(list(value()?)?),
            other => return Err(format!("cannot make sense of {other}")),
        }
    }
    if asked.seed.is_none()
        && asked.seeds.is_none()
        && asked.minutes.is_none()
        && asked.plant.as_deref() != Some("list")
    {
        return Err("which worlds?".into());
    }
    let plant = asked.plant.as_deref().filter(|name| *name != "list" && planted::named(name).is_none());
    match plant {
        Some(name) => Err(format!("no bug is named {name}; `--plant list` names them")),
        None => Ok(asked),
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn list(word: &str) -> Result<Vec<usize>, String> {
    if word == "none" {
        return Ok(Vec::new());
    }
    word.split(',').map(|one| number(one).map(|one| one as usize)).collect()
}

fn make(seed: u64, asked: &SimArguments) -> WorldSetup {
    let length = asked.hours.map_or(SIX_HOURS, |hours| (hours * 3.6e9) as Micros);
    let setup = WorldSetup::new(seed, length).shaped(asked.shape.unwrap_or(Shape::Drawn));
    match asked.plant.as_deref().and_then(planted::named) {
        Some(bug) => bug.plant(setup),
        None => setup,
    }
}

fn replay(seed: u64, asked: &SimArguments) -> bool {
    let setup = make(seed, asked).cut(&asked.cut);
    println!(
        "seed {seed}: {} nodes, {} shards, {} jobs, {} faults, {} commands, {:?}",
        setup.nodes,
        setup.shards,
        setup.jobs.len(),
        setup.faults.len(),
        setup.commands.len(),
        setup.kinds
    );
    println!("{:?}\n{:?}", setup.settings, setup.latency);
    let outcome = run_traced(setup, asked.only.clone());
    let kept = outcome.trace.len();
    let lines = if asked.full { kept } else { kept.min(60) };
    outcome.trace[kept - lines..].iter().for_each(|line| println!("{line}"));
    println!("{} events, hash {:016x}", outcome.events, outcome.hash);
    match &outcome.violation {
        None => {
            println!("every promise was kept");
            outcome.counters.all().iter().for_each(|(name, count)| println!("{count:>9} {name}"));
            true
        }
        Some((at, violation)) => {
            println!("after {:.6} s: {violation}", *at as f64 / 1e6);
            false
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a person says for how many minutes, and is told the time")]
fn many(asked: &SimArguments) -> bool {
    let started = Instant::now();
    let progress = Mutex::new((started, asked.from));
    let limit = asked.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let is_enough = |seed: u64, swept: &Swept| {
        let mut progress = progress.lock().expect("nobody panics while holding it");
        progress.1 = progress.1.max(seed);
        if progress.0.elapsed() > Duration::from_secs(10) {
            progress.0 = Instant::now();
            eprintln!(
                "seed {seed}: {} worlds, {:.0} simulated hours, {:.1} per CPU second, failed: {:?}",
                swept.worlds,
                swept.simulated as f64 / 3.6e9,
                swept.speed(),
                swept.failures.iter().map(|(seed, _)| seed).collect::<Vec<_>>()
            );
        }
        limit.is_some_and(|limit| started.elapsed() > limit)
    };
    let one = |seed: u64| make(seed, asked);
    let swept = match asked.seeds {
        Some(count) => sweep_range(asked.from, count, &one),
        None => sweep(asked.from, &one, &is_enough),
    };
    let last = asked.from + swept.worlds - 1;
    println!(
        "seeds {} to {last}: {} worlds, {:.0} simulated hours, {} events, {:.1} s CPU, {:.1} s, {:.2} simulated hours per CPU second",
        asked.from,
        swept.worlds,
        swept.simulated as f64 / 3.6e9,
        swept.events,
        swept.cpu_s,
        started.elapsed().as_secs_f64(),
        swept.speed()
    );
    swept.counters.all().iter().for_each(|(name, count)| println!("{count:>12} {name}"));
    for (seed, violation) in &swept.failures {
        let what: String = violation.what.chars().take(400).collect();
        println!("seed {seed} failed: {}: {what}", violation.rule);
    }
    if let Some((seed, _)) = swept.failures.first().filter(|_| !asked.no_shrink) {
        println!("shrinking seed {seed} …");
        if let Some(shrunk) = shrink::shrink(&|| make(*seed, asked)) {
            let (faults, commands) = shrunk.left;
            println!(
                "{} worlds tried; {faults} faults and {commands} commands are left: {}",
                shrunk.tries, shrunk.violation
            );
            let hours = asked.hours.map_or(String::new(), |hours| format!(" --hours {hours}"));
            let plant = asked.plant.as_ref().map_or(String::new(), |name| format!(" --plant {name}"));
            let shape = asked.shape.map_or(String::new(), |shape| format!(" --shape {shape:?}"));
            println!("cargo xtask sim --seed {seed}{hours}{plant}{shape} {}", shrink::options(&shrunk.cut));
        }
    }
    println!("last seed done: {last}; go on with --from {}", last + 1);
    swept.failures.is_empty()
}
