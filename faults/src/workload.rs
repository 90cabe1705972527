//! The load of a campaign: jobs at fixed rates of every kind, and a steady stream of one-shots. Clients record the answers
//! that they get.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::clock::now;
use crate::cluster::Client;
use crate::dice::Dice;
use crate::history::{Every, JobFact, Submission, text};
use crate::receipts::Agent;

/// How long clients repeat a request: longer than any fault lasts.
const INSISTS: Duration = Duration::from_secs(120);

/// The interval between batches of one-shots, their size, and the span of due times.
const BATCH_EVERY: Duration = Duration::from_millis(600);
const BATCH: u64 = 4;
const DUE_WITHIN_MS: u64 = 6_000;

/// Number of clients that submit one-shots, so that one that waits for a silent node does not block the stream.
const CLIENTS: u64 = 3;

/// One batch in this number is submitted twice.
const REPEATS: u64 = 6;

/// The number of jobs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Jobs that run every instant, every second.
    pub all: usize,
    /// Jobs that run the latest instant only, twice a second.
    pub latest: usize,
    /// Jobs that are sent at most once, every second.
    pub at_most_once: usize,
    /// Jobs with `block: serial`, every second.
    pub serial: usize,
}

impl Default for Size {
    fn default() -> Size {
        Size { all: 30, latest: 8, at_most_once: 8, serial: 6 }
    }
}

/// The jobs and the running streams of one-shots.
pub struct Workload {
    client: Client,
    jobs: Vec<JobFact>,
    is_over: Arc<AtomicBool>,
    streams: Vec<JoinHandle<Result<Vec<Submission>, String>>>,
}

/// What clients recorded.
pub struct ClientRecord {
    pub jobs: Vec<JobFact>,
    pub submissions: Vec<Submission>,
}

impl Workload {
    /// Creates the jobs and starts the streams. Answers are recorded in a file.
    pub async fn start(
        client: &Client,
        agent: &Agent,
        size: Size,
        seed: u64,
        file: &Path,
    ) -> Result<Workload, String> {
        let mut dice = Dice::new(seed);
        let mut jobs = Vec::new();
        for wanted in wanted(agent, size, &mut dice) {
            jobs.push(make(client, wanted).await?);
        }
        let shots =
            make(client, JobSpec { every: None, ..JobSpec::new("shots", &agent.url(Duration::ZERO)) })
                .await?;
        let file = File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let is_over: Arc<AtomicBool> = Arc::default();
        let mut streams = Vec::new();
        for name in 0..CLIENTS {
            let stream = Stream {
                name,
                client: client.clone(),
                job: shots.id,
                dice: Dice::new(seed.wrapping_add(name + 1)),
                file: file.try_clone().map_err(|error| error.to_string())?,
                is_over: Arc::clone(&is_over),
            };
            streams.push(tokio::spawn(stream.run()));
        }
        jobs.push(shots);
        Ok(Workload { client: client.clone(), jobs, is_over, streams })
    }

    /// The job that takes one-shots.
    pub fn shots(&self) -> u64 {
        self.jobs.last().map_or(0, |job| job.id)
    }

    /// Ends the streams, stops the jobs, and returns what clients recorded.
    pub async fn stop(self) -> Result<ClientRecord, String> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut submissions = Vec::new();
        for stream in self.streams {
            submissions.extend(stream.await.map_err(|error| error.to_string())??);
        }
        let mut jobs = self.jobs;
        // One-shots of a stopped job would wait for ever, so their job goes on.
        for job in jobs.iter_mut().filter(|job| job.every.is_some()) {
            let asked = now();
            let path = format!("/api/v1/jobs/{}/stop", job.id);
            let answer = self.client.insist("POST", &path, None, INSISTS).await?;
            if answer.status >= 300 {
                return Err(format!("POST {path}: {} {}", answer.status, answer.text()));
            }
            job.stopped = Some((asked, now()));
        }
        Ok(ClientRecord { jobs, submissions })
    }
}

/// A job to create.
#[derive(Clone)]
struct JobSpec {
    name: String,
    url: String,
    every: Option<Every>,
    misfire: &'static str,
    at_most_once: bool,
    is_serial: bool,
}

impl JobSpec {
    fn new(name: &str, url: &str) -> JobSpec {
        let (name, url) = (name.to_owned(), url.to_owned());
        JobSpec { name, url, every: None, misfire: "fire_all", at_most_once: false, is_serial: false }
    }

    fn job(&self) -> Value {
        let schedule = match self.every {
            Some(Every { anchor, interval }) => {
                json!({"kind": "every", "interval": format!("{interval}ms"), "anchor": text(anchor)})
            }
            None => json!({"kind": "manual"}),
        };
        let mut target = json!({"kind": "http", "url": self.url});
        if self.is_serial {
            target["block"] = json!("serial");
        }
        let delivery = if self.at_most_once { "at_most_once" } else { "at_least_once" };
        json!({
            "app": "faults", "name": self.name, "schedule": schedule, "target": target, "delivery": delivery,
            "misfire": {"policy": self.misfire}, "timeout": "5s",
            "retry": {"max_attempts": 10, "initial_delay": "200ms", "multiplier": 1.5, "max_delay": "2s"},
        })
    }
}

fn wanted(agent: &Agent, size: Size, dice: &mut Dice) -> Vec<JobSpec> {
    let (quick, slow) = (agent.url(Duration::from_millis(5)), agent.url(Duration::from_millis(250)));
    let mut wanted = Vec::new();
    let mut add = |count: usize, name: &str, interval: i64, like: JobSpec| {
        for number in 0..count {
            // Spread over the second, so that something is due at every instant.
            let anchor = now() / 1_000 * 1_000 + dice.below(interval as u64) as i64;
            let every = Some(Every { anchor, interval });
            wanted.push(JobSpec { name: format!("{name}-{number}"), every, ..like.clone() });
        }
    };
    add(size.all, "all", 1_000, JobSpec::new("", &quick));
    add(size.latest, "latest", 500, JobSpec { misfire: "fire_once", ..JobSpec::new("", &quick) });
    add(size.at_most_once, "once", 1_000, JobSpec { at_most_once: true, ..JobSpec::new("", &quick) });
    add(size.serial, "serial", 1_000, JobSpec { is_serial: true, ..JobSpec::new("", &slow) });
    wanted
}

async fn make(client: &Client, wanted: JobSpec) -> Result<JobFact, String> {
    let asked = now();
    let answer = client.insist("POST", "/api/v1/jobs", Some(&wanted.job()), INSISTS).await?;
    let id = answer.json()["id"].as_u64();
    let id = id.ok_or_else(|| format!("cannot make {}: {} {}", wanted.name, answer.status, answer.text()))?;
    Ok(JobFact {
        id,
        name: wanted.name,
        every: wanted.every,
        at_most_once: wanted.at_most_once,
        is_serial: wanted.is_serial,
        fires_all: wanted.misfire == "fire_all",
        created: (asked, now()),
        stopped: None,
    })
}

/// A client that submits one-shots until it is stopped.
struct Stream {
    name: u64,
    client: Client,
    job: u64,
    dice: Dice,
    file: File,
    is_over: Arc<AtomicBool>,
}

impl Stream {
    async fn run(mut self) -> Result<Vec<Submission>, String> {
        let mut submissions = Vec::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let mut batch: Vec<Submission> =
                (0..BATCH).map(|n| self.draw(submissions.len() as u64 + n)).collect();
            self.note("asked", &batch);
            let ids = self.hand_over(&batch).await?;
            for (submission, id) in batch.iter_mut().zip(&ids) {
                submission.id = Some(*id);
            }
            self.note("answered", &batch);
            if self.dice.below(REPEATS) == 0 && self.hand_over(&batch).await? != ids {
                return Err(format!("a batch that was submitted twice has other ids than {ids:?}"));
            }
            submissions.extend(batch);
            tokio::time::sleep(BATCH_EVERY).await;
        }
        Ok(submissions)
    }

    fn draw(&mut self, number: u64) -> Submission {
        let at = now() + self.dice.below(DUE_WITHIN_MS) as i64;
        Submission { key: format!("shot-{}-{number}", self.name), job: self.job, at, id: None }
    }

    async fn hand_over(&self, batch: &[Submission]) -> Result<Vec<u64>, String> {
        let run = |one: &Submission| json!({"job": one.job, "at": text(one.at), "key": one.key});
        let body = json!({"runs": batch.iter().map(run).collect::<Vec<_>>()});
        let answer = self.client.insist("POST", "/api/v1/runs", Some(&body), INSISTS).await?;
        let ids = answer.json()["ids"].as_array().cloned().unwrap_or_default();
        let ids: Vec<u64> = ids.iter().filter_map(Value::as_u64).collect();
        match ids.len() == batch.len() {
            true => Ok(ids),
            false => Err(format!("POST /runs: {} {}", answer.status, answer.text())),
        }
    }

    fn note(&mut self, what: &str, batch: &[Submission]) {
        let line = json!({"what": what, "at": now(), "runs": batch});
        writeln!(self.file, "{line}").expect("a file that can be written");
    }
}
