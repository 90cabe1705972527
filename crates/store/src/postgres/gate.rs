//! Gates: the key (run, attempt), and the places that a send needs.

use punctual_core::model::{Attempt, Hold, LogId, RunId, Text, Token};
use punctual_node::ports::{Gate, Gated, SentRow};
use tokio_postgres::Row;

use super::Postgres;
use super::ask::{Ask, Columns};
use super::flush::Flushed;
use super::gather::Wanted;
use super::line::Line;
use super::sheet::{Key, RunNow, Sheet};
use super::trouble::Trouble;

/// Places of resources.
pub(super) type Places = Vec<(Text, u32)>;

/// What is said of a gate before its number is known.
pub(super) enum Said {
    Known(Gated),
    /// Through, with the number of this key.
    Written(RunId, Attempt),
}

impl Said {
    pub(super) fn tell(self, flushed: &Flushed) -> Gated {
        match self {
            Said::Known(gated) => gated,
            Said::Written(run, attempt) => {
                flushed.logs.get(&(run, attempt)).map_or(Gated::Closed, |log| Gated::Through(*log))
            }
        }
    }
}

impl Postgres {
    pub(super) async fn try_gate(&self, line: &Line<'_>, gates: &[Gate]) -> Result<Vec<Gated>, Trouble> {
        let mut sheet = self.gather(line, &wanted(gates.iter())).await?;
        let said: Vec<Said> = gates.iter().map(|gate| sheet.gate(gate)).collect();
        let flushed = self.flush(line, &sheet).await?;
        Ok(said.into_iter().map(|said| said.tell(&flushed)).collect())
    }

    pub(super) async fn try_sent(&self, line: &Line<'_>, logs: &[LogId]) -> Result<Vec<SentRow>, Trouble> {
        let logs: Vec<i64> = logs.iter().filter_map(|log| i64::try_from(log.0).ok()).collect();
        // The job is looked up by the run and the run by the gate: neither knows its day before.
        let ask = Ask::new(
            "select s.log, s.run, (select r.job from all_runs r where r.id = s.run), s.attempt, s.token, s.sent_at, s.executor
             from sends s
             where s.log = any($1)",
        );
        let mut rows = Vec::new();
        for row in line.ask(ask.with(logs)).await? {
            if row.maybe(2)?.is_some() {
                rows.push(sent_row(&row)?);
            }
        }
        Ok(rows)
    }
}

/// The rows that gates touch.
pub(super) fn wanted<'g>(gates: impl Iterator<Item = &'g Gate>) -> Wanted<'g> {
    let mut wanted = Wanted::default();
    for gate in gates {
        wanted.runs.insert(gate.run);
        wanted.resources.extend(gate.holds.iter().map(|hold| hold.resource.clone()));
    }
    wanted
}

pub(super) fn sent_row(row: &Row) -> Result<SentRow, Trouble> {
    Ok(SentRow {
        log: LogId(row.bits(0)?),
        run: row.run(1)?,
        job: row.job(2)?,
        attempt: row.attempt(3)?,
        token: Token(row.bits(4)?),
        sent_at: row.instant(5)?,
        executor: row.text(6)?,
    })
}

impl Sheet {
    fn gate(&mut self, gate: &Gate) -> Said {
        match self.meet(gate) {
            Ok(places) => self.write_gate(gate, places),
            Err(said) => said,
        }
    }

    /// The places for a gate that can be written, or what is said of one that cannot, or is there already.
    pub(super) fn meet(&self, gate: &Gate) -> Result<Places, Said> {
        let closed = || Said::Known(Gated::Closed);
        let Some(run) = self.runs.get(&gate.run) else { return Err(closed()) };
        // The key is asked before anything else, so whoever comes late learns who was first.
        let key = run.gates.get(&gate.attempt);
        match key {
            Some(Key::Unsent) => return Err(Said::Known(Gated::Taken(None))),
            Some(Key::Sent(token, _)) if *token != gate.token => {
                return Err(Said::Known(Gated::Taken(Some(*token))));
            }
            _ => {}
        }
        if run.is_closed || run.is_beyond(gate.attempt) {
            return Err(closed());
        }
        match key {
            Some(Key::Sent(_, Some(log))) => Err(Said::Known(Gated::Through(*log))),
            Some(Key::Sent(_, None)) => Err(Said::Written(gate.run, gate.attempt)),
            _ => self.places(run, &gate.holds).map_err(|resource| Said::Known(Gated::Held(resource))),
        }
    }

    pub(super) fn write_gate(&mut self, gate: &Gate, places: Places) -> Said {
        for (resource, slot) in &places {
            self.holds.insert((resource.clone(), *slot), gate.run);
            self.writes.holds.push((resource.clone(), *slot, gate.run));
        }
        self.edit(gate.run, |run| {
            run.holds.extend(places.into_iter().map(|(resource, _)| resource));
            // What it waited for has come.
            run.wait = None;
            run.gates.insert(gate.attempt, Key::Sent(gate.token, None));
        });
        self.writes.sends.push(gate.clone());
        Said::Written(gate.run, gate.attempt)
    }

    /// One free place of each resource that the run has no place of yet, or the first resource that has none.
    fn places(&self, run: &RunNow, holds: &[Hold]) -> Result<Places, Text> {
        let mut places = Places::new();
        for hold in holds {
            let is_taken = places.iter().any(|(resource, _)| *resource == hold.resource);
            if is_taken || run.holds.contains(&hold.resource) {
                continue;
            }
            let mut slots = (0..hold.slots).map(|slot| (hold.resource.clone(), slot));
            let free = slots.find(|place| !self.holds.contains_key(place));
            places.push(free.ok_or_else(|| hold.resource.clone())?);
        }
        Ok(places)
    }
}
