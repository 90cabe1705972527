//! Kills. An executor ends everything that it has of a job, running or queued, so nothing of the job is sent to it
//! during a kill: a run that comes after the kill must not be hit by it.

use std::sync::Arc;

use punctual_node::ports::{Heard, Kill, Killed};
use punctual_protocol::xxl::Question;
use tokio::time::timeout_at;

use super::house::House;
use super::judge::{Said, printable};
use super::ledger::{Ordered, Round};
use crate::clock;

/// Tells executors to end attempts; every one is answered.
pub(super) fn kill(house: &Arc<House>, kills: Vec<Kill>) {
    house.ledger().expect(kills.len());
    for kills in by_job(kills) {
        let job = kills[0].job;
        let Some(address) = kills[0].address.clone() else {
            tell(house, kills, false, "it is not known which executor has it");
            continue;
        };
        let (ordered, unsent) = house.ledger().kill(job, &address, kills);
        tell(house, unsent, true, "it was not sent yet");
        if let Ordered::Now(round) = ordered {
            house.spawn(carry_out(house.clone(), round));
        }
    }
}

/// The kills of each job at each executor.
fn by_job(mut kills: Vec<Kill>) -> Vec<Vec<Kill>> {
    fn place(kill: &Kill) -> (u32, Option<&str>) {
        (kill.job.0, kill.address.as_ref().map(|address| &*address.url))
    }
    kills.sort_by(|a, b| place(a).cmp(&place(b)));
    kills.chunk_by(|a, b| place(a) == place(b)).map(<[Kill]>::to_vec).collect()
}

/// Carries out the kills of one job at one executor, then releases the attempts that waited for that.
async fn carry_out(house: Arc<House>, mut round: Round) {
    loop {
        let deadline = clock::instant() + house.options().question_timeout;
        for flight in &round.begun {
            // A send that is not answered in time may still arrive after the kill. Waiting for it could take for
            // ever.
            let _ = timeout_at(deadline, house.ledger().ended(flight)).await;
        }
        let (job, address) = (round.job, round.address);
        let said = house.ask(&address, Question::Kill { job: job.0 }).await;
        let is_confirmed = matches!(said, Ok(Said::Yes(_)));
        let said = said.map_or_else(|reason| printable(&reason), |said| said.message());
        tell(&house, round.kills, is_confirmed, &said);
        round = match house.ledger().next_round(job, &address) {
            Ok(round) => round,
            Err(parked) => return parked.into_iter().for_each(|flight| house.queue_run(flight)),
        };
    }
}

fn tell(house: &House, kills: Vec<Kill>, is_confirmed: bool, said: &str) {
    let killed = |kill: Kill| {
        let said = said.to_owned().into();
        Heard::Killed(Killed { run: kill.run, attempt: kill.attempt, is_confirmed, said })
    };
    house.ledger().tell(kills.into_iter().map(killed));
}
