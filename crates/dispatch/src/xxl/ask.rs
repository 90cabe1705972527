//! Questions: probes, kills and logs.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{JobId, LogId};
use punctual_core::registry::Dialect;
use punctual_node::ports::{Address, Asked, Probe, Probed};
use punctual_protocol::xxl::{LogPage, Question, Reply};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::house::House;
use super::http::Answer;
use super::judge::{Said, judge, printable};
use super::line::{Ask, Call, Failure, Kind};
use crate::clock;
use crate::http::answer::Rest;

impl House {
    /// Asks an executor, and judges its answer.
    pub(super) async fn ask(
        self: &Arc<House>,
        address: &Address,
        question: Question,
    ) -> Result<Said, String> {
        let options = self.options();
        let (within, limit) = (options.question_timeout, options.answer_bytes);
        let answer = self.put(address, question, within, limit).await.map_err(Failure::reason)?;
        Ok(judge(&answer))
    }

    /// One page of a log.
    pub(super) async fn log(
        self: &Arc<House>,
        address: &Address,
        log: LogId,
        sent_at: Timestamp,
        from_line: u64,
    ) -> Result<LogPage, String> {
        let question = Question::Log { log: log.0, sent_at: sent_at.as_millis(), from_line };
        let options = self.options();
        let (within, limit) = (options.answer_timeout, options.log_bytes);
        let answer = self.put(address, question, within, limit).await.map_err(Failure::reason)?;
        if answer.rest == Rest::Cut {
            let too_long = || format!("the page is longer than {limit} bytes, and no line of it is whole");
            return LogPage::of_beginning(&answer.body, from_line).ok_or_else(too_long);
        }
        match judge(&answer) {
            Said::Yes(reply) | Said::No(reply) => {
                LogPage::of(&reply, from_line).map_err(|said| printable(&said))
            }
            said => Err(said.message()),
        }
    }

    /// Asks what a probe wants to know.
    pub(super) async fn probe(self: &Arc<House>, probe: Probe) -> Probed {
        match probe {
            Probe::Choose { run, attempt, job, by, addresses } => {
                let question = match by {
                    Asked::Beat => Question::Beat,
                    Asked::Idle => Question::IdleBeat { job: job.0 },
                };
                let (url, said) = self.choose(question, &addresses).await;
                Probed::Chosen {
                    run,
                    attempt,
                    url: url.map(|address| address.url.clone()),
                    said: said.into(),
                }
            }
            Probe::Alive { address } => {
                let is_there = matches!(self.ask(&address, Question::Beat).await, Ok(Said::Yes(_)));
                Probed::Alive { app: address.app, url: address.url, is_there }
            }
            Probe::Has { job, address } => {
                let has = self.has(job, &address).await;
                Probed::Has { job, app: address.app, url: address.url, has }
            }
        }
    }

    /// The first executor that says yes, and the answers of all that were asked.
    async fn choose<'a>(
        self: &Arc<House>,
        question: Question,
        addresses: &'a [Address],
    ) -> (Option<&'a Address>, String) {
        let mut all_said = Vec::new();
        for address in addresses {
            let said = self.ask(address, question).await;
            let is_yes = matches!(said, Ok(Said::Yes(_)));
            let told = said.map_or_else(|reason| reason, |said| said.message());
            all_said.push(format!("{}: {told}", address.url));
            if is_yes {
                return (Some(address), printable(&all_said.join("; ")));
            }
        }
        (None, printable(&all_said.join("; ")))
    }

    /// Whether an executor has a run of the job: it says so by refusing in its own words. Without such an answer it
    /// is not known.
    async fn has(self: &Arc<House>, job: JobId, address: &Address) -> Option<bool> {
        match self.ask(address, Question::IdleBeat { job: job.0 }).await {
            Ok(Said::Yes(_)) => Some(false),
            Ok(Said::No(reply)) if is_busy(&reply) => Some(true),
            _ => None,
        }
    }

    /// Sends a question, and waits for the answer.
    async fn put(
        self: &Arc<House>,
        address: &Address,
        question: Question,
        within: Duration,
        limit: usize,
    ) -> Result<Answer, Failure> {
        if address.dialect == Dialect::Native {
            return Err(Failure::Unsent("native executors are not called but call".into()));
        }
        let place = self.place(address).map_err(Failure::Unsent)?;
        let (host, deadline) = (place.questions.clone(), clock::instant() + within);
        let (answer, answered) = oneshot::channel();
        let ask = Ask { place, address: address.clone(), question, deadline, limit, answer };
        self.queue(Kind::Questions, &host, Call::Ask(Box::new(ask)));
        match timeout_at(deadline, answered).await {
            Ok(Ok(answer)) => answer,
            _ => Err(Failure::Unknown(format!("{} gave no answer within {within:?}", host.label))),
        }
    }
}

fn is_busy(reply: &Reply) -> bool {
    !reply.is_about_the_call()
}
