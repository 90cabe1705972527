//! A great number of one-shots that are submitted at the start and are due evenly over some minutes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::now;
use crate::cluster::Client;
use crate::history::{Millis, Submission, text};

/// One-shots in a request, and number of concurrent clients.
const BATCH: usize = 1_000;
const CLIENTS: usize = 4;

/// How long a client repeats one request.
const INSISTS: Duration = Duration::from_secs(120);

/// The number of one-shots, when the first is due, and the span of due times.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    pub count: usize,
    pub from: Millis,
    pub over: Duration,
}

impl Flood {
    /// The due time of one of them.
    fn due(&self, number: usize) -> Millis {
        let share = number as u128 * self.over.as_millis() / self.count.max(1) as u128;
        self.from + share as i64
    }

    /// Submits all of them, each with a key of its own, so that unanswered requests can be repeated.
    pub async fn hand_over(self, client: &Client, job: u64) -> Result<Vec<Submission>, String> {
        let clients = (0..CLIENTS).map(|first| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut handed = Vec::new();
                for start in (first * BATCH..self.count).step_by(CLIENTS * BATCH) {
                    handed.extend(self.batch(&client, job, start).await?);
                }
                Ok::<_, String>(handed)
            })
        });
        let mut all = Vec::with_capacity(self.count);
        for client in clients.collect::<Vec<_>>() {
            all.extend(client.await.map_err(|error| error.to_string())??);
        }
        Ok(all)
    }

    async fn batch(self, client: &Client, job: u64, start: usize) -> Result<Vec<Submission>, String> {
        let numbers = start..self.count.min(start + BATCH);
        let draw =
            |number| Submission { key: format!("flood-{number}"), job, at: self.due(number), id: None };
        let mut batch: Vec<Submission> = numbers.map(draw).collect();
        let run = |one: &Submission| json!({"job": job, "at": text(one.at), "key": one.key});
        let body = json!({"runs": batch.iter().map(run).collect::<Vec<_>>()});
        let answer = client.insist("POST", "/api/v1/runs", Some(&body), INSISTS).await?;
        let ids = answer.json()["ids"].as_array().cloned().unwrap_or_default();
        if ids.len() != batch.len() {
            return Err(format!("POST /runs: {} {}", answer.status, answer.text()));
        }
        for (one, id) in batch.iter_mut().zip(&ids) {
            one.id = Value::as_u64(id);
        }
        Ok(batch)
    }

    /// The time until this share of them is due.
    pub fn until(&self, share: f64) -> Duration {
        let moment = self.from + (self.over.as_millis() as f64 * share) as i64;
        Duration::from_millis((moment - now()).max(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_due_evenly() {
        let flood = Flood { count: 1_000_000, from: 5_000, over: Duration::from_secs(360) };
        assert_eq!([0, 500_000, 999_999].map(|number| flood.due(number)), [5_000, 185_000, 364_999]);
    }
}
