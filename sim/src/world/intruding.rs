//! An intruder: an executor of an app of its own that names other apps' runs. It claims to hold them, reports their ends,
//! calls back about numbers of gates, and registers and leaves at other apps' addresses. None of this may have an effect
//! (rule X5).

use punctual_core::model::{AttemptOutcome, LogId, RunId, Text, Token};
use punctual_core::registry::Dialect;
use punctual_node::ports::{Beat, Further, Receipt, Report};
use punctual_node::{Callback, Claim};

use super::clients::Said;
use super::{Event, World};
use crate::check::{INTRUDER, Violation};
use crate::dice::within;
use crate::executors;

/// The app that it belongs to, which has no job.
const APP: &str = "intruders";

/// Runs that it names at a time.
const GUESSES: u64 = 6;

impl World {
    /// The intruder acts, and schedules its next act.
    pub(super) fn intrude(&mut self, number: u32) {
        if self.is_peace {
            return;
        }
        let pause = within(self.roll(number.into(), 31), 2_000_000, 60_000_000);
        self.after(pause, Event::Intrude(number + 1));
        let via = self.roll(number.into(), 32) as usize % 60;
        let Some(machine) = self.reachable(via).filter(|index| self.machines[*index].paused_until.is_none())
        else {
            return;
        };
        let Some(node) = self.machines[machine].node.clone() else { return };
        let (claims, callbacks) = (self.guessed_claims(number), self.guessed_callbacks(number));
        let reports = self.forged_reports(&claims);
        // It registers and leaves at the address of an executor of another app.
        let address = executors::address(self.roll(number.into(), 35) as usize % self.executors.len());
        let victim = Beat { app: Text::Borrowed(APP), address, dialect: Dialect::Classic };
        self.checker.counters.intrusions += 1;
        let intruding = async move {
            let came = node.native_came(APP, INTRUDER, Vec::new(), claims.clone(), false).await;
            let believed = came.map_or(0, |(_, stale)| claims.len() - stale.len());
            reports.into_iter().for_each(|report| node.report(report));
            let meant =
                node.reports_of(&callbacks, &|app| app == APP).await.map_or(0, |reports| reports.len());
            match number % 3 {
                0 => drop(node.executor_left(APP, &victim.address).await),
                _ => drop(node.beat(victim).await),
            }
            Said::Intruded(believed + meant)
        };
        self.begin_beat(machine, Box::pin(intruding));
    }

    /// Whether a node believed the intruder.
    pub(super) fn intruded(&mut self, machine: usize, believed: usize) {
        if believed > 0 {
            let what =
                format!("node {machine} believes {believed} things that an executor of another app says");
            self.judge(Err(Violation { rule: "X5", what }));
        }
    }

    /// Open runs with their current or next attempt and token, and one run that does not exist.
    fn guessed_claims(&self, number: u32) -> Vec<Claim> {
        let open: Vec<_> = self.checker.runs().iter().rev().take(300).filter(|run| run.is_open()).collect();
        let mut claims =
            vec![Claim { run: RunId(7), attempt: punctual_core::model::Attempt(1), token: Token(7) }];
        for guess in 0..GUESSES.min(open.len() as u64) {
            let roll = self.roll(u64::from(number) << 8 | guess, 33);
            let run = open[(roll % open.len() as u64) as usize];
            let attempt = if roll >> 20 & 3 == 0 { run.attempt.next() } else { run.attempt };
            let sent = run.sends.iter().rev().find(|send| send.attempt == attempt).map(|send| send.token);
            claims.push(Claim { run: run.id, attempt, token: sent.unwrap_or(Token(roll >> 30)) });
        }
        claims
    }

    fn guessed_callbacks(&self, number: u32) -> Vec<Callback> {
        let numbers = (0..GUESSES).map(|guess| 1 + self.roll(u64::from(number) << 8 | guess, 34) % 3_000);
        let forged = |log| Callback {
            log: LogId(log),
            outcome: AttemptOutcome::Succeeded,
            message: Text::Borrowed("forged"),
        };
        numbers.map(forged).collect()
    }

    /// No executor waits for the acknowledgement of these reports, so their receipts belong to none.
    fn forged_reports(&self, claims: &[Claim]) -> Vec<Report> {
        let forged = |(index, claim): (usize, &Claim)| Report {
            receipt: Receipt(u64::MAX - index as u64),
            run: claim.run,
            attempt: claim.attempt,
            token: claim.token,
            outcome: AttemptOutcome::Succeeded,
            message: Text::Borrowed("forged"),
            executor: Text::Borrowed(INTRUDER),
            app: Some(Text::Borrowed(APP)),
            started_at: calendar::Timestamp::from_millis(self.store_ms()),
            ended_at: None,
            retry_after: None,
            further: Further::Welcome,
        };
        claims.iter().enumerate().map(forged).collect()
    }
}
