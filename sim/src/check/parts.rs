//! Broadcast runs: a whole falls into parts with its gate, and ends when all of them have ended. That no part is sent when
//! its whole is closed follows: it is closed itself by then, and L11 holds of every run.

use punctual_core::model::{Attempt, Close, Join, NewRun, Origin, Outcome, Part, RunId, Settlement, Then};
use punctual_node::ports::{Gated, Split};

use super::runs::{PartFact, RunFacts};
use super::{Begun, Checked, Checker, Moment, hold, show};

impl Checker {
    /// The store answered a split.
    pub(super) fn split(&mut self, moment: Moment, begun: Begun, split: &Split, answer: &Gated) -> Checked {
        let Split { gate, parts } = split;
        let there = self.run(gate.run).map(|run| run.is_gated_for(gate.attempt));
        self.gated(begun, gate, answer)?;
        let (Gated::Through(_), Some(false)) = (answer, there) else {
            // Not through, or asked again: then what is there stays.
            return Ok(());
        };
        let index = self.index("B1", gate.run, "split")?;
        let whole = &self.runs[index];
        hold!("B1", whole.part.is_none(), "run {} is a part, and falls into parts", gate.run);
        let sent_at = gate.sent_at.as_millis();
        hold!(
            "I4",
            whole.not_before <= sent_at + super::runs::EARLY_MS || !self.is_steady,
            "run {} falls into parts at {}, before {}",
            gate.run,
            gate.sent_at,
            show(whole.not_before)
        );
        self.counters.wholes += 1;
        for (number, (run, part)) in parts.iter().enumerate() {
            self.check_part(gate.run, number, parts.len(), run, part)?;
            self.wrote(moment, run)?;
            let written = self.runs.len() as u32 - 1;
            self.runs[written as usize].part = Some(PartFact { whole: index as u32, index: part.index });
            self.runs[index].parts.push(written);
            self.counters.parts += 1;
        }
        Ok(())
    }

    fn check_part(&self, whole: RunId, number: usize, total: usize, run: &NewRun, part: &Part) -> Checked {
        let id = run.id;
        let facts = self.run(whole).expect("it is split");
        let is_of = run.origin == Origin::Part
            && run.of == Some(whole)
            && (run.job, run.shard) == (facts.job, facts.shard)
            && run.key.is_none();
        hold!("B1", is_of, "{run:?} is written as a part of run {whole}");
        let is_counted = part.index as usize == number && part.total as usize == total;
        hold!("B1", is_counted, "run {id} is part {part:?} of run {whole}, and number {number} of {total}");
        let same = facts.parts.iter().map(|index| &self.runs[*index as usize]);
        let twice = { same }.find(|there| there.part.is_some_and(|there| there.index == part.index));
        hold!(
            "B1",
            twice.is_none(),
            "part {} of run {whole} is run {id} and run {:?}",
            part.index,
            twice.map(|there| there.id)
        );
        Ok(())
    }

    /// A part counts with its whole, and brings nothing about; a whole ends after its parts, and as they did.
    pub(super) fn check_bonds(&self, run: &RunFacts, settlement: &Settlement) -> Checked {
        let id = run.id;
        let whole = run.part.map(|part| self.runs[part.whole as usize].id);
        hold!(
            "B2",
            settlement.part_of == whole,
            "run {id} is settled as a part of {:?}, and is one of {whole:?}",
            settlement.part_of
        );
        let brings_nothing = settlement.children.is_empty() && settlement.named.is_none();
        hold!("B2", whole.is_none() || brings_nothing, "a part brings something about: {settlement:?}");
        if run.parts.is_empty() {
            return Ok(());
        }
        let Then::Close(close) = &settlement.then else {
            return Err(super::Violation::new(
                "B3",
                format!("run {id} fell into parts and goes on: {settlement:?}"),
            ));
        };
        self.check_whole(run, close)
    }

    fn check_whole(&self, run: &RunFacts, close: &Close) -> Checked {
        let id = run.id;
        let parts = || run.parts.iter().map(|index| &self.runs[*index as usize]);
        let open: Vec<RunId> = parts().filter(|part| part.is_open()).map(|part| part.id).collect();
        hold!(
            "B3",
            open.is_empty(),
            "run {id} is closed as {}, and its parts {open:?} are open",
            close.outcome
        );
        let is_good =
            |part: &RunFacts| part.close.as_ref().is_some_and(|close| close.outcome == Outcome::Succeeded);
        let is_right = match close.outcome {
            Outcome::Succeeded => parts().all(is_good),
            Outcome::Failed => !parts().all(is_good),
            // By wish, or because a newer one took its place.
            Outcome::Cancelled => true,
            Outcome::Lost | Outcome::Skipped => false,
        };
        let told = || parts().map(|part| part.close.as_ref().map(|close| close.outcome)).collect::<Vec<_>>();
        hold!("B3", is_right, "run {id} is closed as {}, and its parts as {:?}", close.outcome, told());
        Ok(())
    }

    /// The settlement that closes the last part is told so, and how the parts ended.
    pub(super) fn check_joined(&self, settlement: &Settlement, joined: Option<(RunId, Join)>) -> Checked {
        let id = settlement.run;
        let part = self.run(id).and_then(|run| run.part);
        let is_closed = matches!(settlement.then, Then::Close(_));
        let expected = part.filter(|_| is_closed).and_then(|part| {
            let whole = &self.runs[part.whole as usize];
            let parts = || whole.parts.iter().map(|index| &self.runs[*index as usize]);
            let outcome = |part: &RunFacts| part.close.as_ref().map(|close| close.outcome);
            let succeeded = parts().filter(|part| outcome(part) == Some(Outcome::Succeeded)).count() as u32;
            let join = Join { total: whole.parts.len() as u32, open: 0, succeeded };
            parts().all(|part| !part.is_open()).then_some((whole.id, join))
        });
        hold!("B4", joined == expected, "the close of run {id} ends {joined:?}, expected {expected:?}");
        Ok(())
    }
}

impl RunFacts {
    /// Whether an attempt has a gate.
    fn is_gated_for(&self, attempt: Attempt) -> bool {
        self.gates.iter().any(|(gated, _)| *gated == attempt)
    }
}
