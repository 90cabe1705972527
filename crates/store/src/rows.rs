//! Rows as what they stand for: one reader for each kind of row, for all databases alike. A reader takes its cells in the
//! order that its comment names, so the statements of every database name their columns in that order.

use std::collections::BTreeMap;
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, Child, Close, JobId, Join, LogId, Overrides, Part, Payload, RunId, RunState,
    ShardId, Text, Token,
};
use punctual_core::registry::Secret;
use punctual_node::ports::{
    AppRow, Arrival, AttemptRow, ClockRow, Counts, Digest, ExecutorRow, JobRow, JobView, KeptLog, KillNote,
    PlannedTo, Revision, RunView, SentRow, StoreError, TokenRow, Waiting,
};

use crate::code::{
    arrival_from, attempt_outcome_from, decided_from, origin_from, outcome_from, paused_from, retention_from,
    state_from,
};
use crate::row::definition_from_text;
use crate::rules::{LockedClock, WaitRow};

/// The cells of a row, each as what it stands for.
pub(crate) trait Cells {
    type Error: From<StoreError>;

    fn number(&self, cell: usize) -> Result<i64, Self::Error>;

    fn maybe(&self, cell: usize) -> Result<Option<i64>, Self::Error>;

    fn string(&self, cell: usize) -> Result<String, Self::Error>;

    fn maybe_string(&self, cell: usize) -> Result<Option<String>, Self::Error>;

    fn flag(&self, cell: usize) -> Result<bool, Self::Error>;

    fn maybe_flag(&self, cell: usize) -> Result<Option<bool>, Self::Error>;

    fn blob(&self, cell: usize) -> Result<&[u8], Self::Error>;

    /// An unsigned number, which a database without unsigned ones keeps bit by bit.
    fn bits(&self, cell: usize) -> Result<u64, Self::Error> {
        Ok(self.number(cell)? as u64)
    }

    fn small(&self, cell: usize) -> Result<u32, Self::Error> {
        let number = self.number(cell)?;
        Ok(u32::try_from(number).map_err(|_| corrupt("a", number, "no such number"))?)
    }

    fn run(&self, cell: usize) -> Result<RunId, Self::Error> {
        Ok(RunId(self.bits(cell)?))
    }

    fn job(&self, cell: usize) -> Result<JobId, Self::Error> {
        let number = self.number(cell)?;
        Ok(JobId(u32::try_from(number).map_err(|_| corrupt("jobs", number, "no such id"))?))
    }

    fn shard(&self, cell: usize) -> Result<ShardId, Self::Error> {
        let number = self.number(cell)?;
        Ok(ShardId(u16::try_from(number).map_err(|_| corrupt("shards", number, "no such shard"))?))
    }

    fn attempt(&self, cell: usize) -> Result<Attempt, Self::Error> {
        let number = self.number(cell)?;
        Ok(Attempt(u32::try_from(number).map_err(|_| corrupt("attempts", number, "no such attempt"))?))
    }

    fn instant(&self, cell: usize) -> Result<Timestamp, Self::Error> {
        Ok(Timestamp::from_millis(self.number(cell)?))
    }

    fn maybe_instant(&self, cell: usize) -> Result<Option<Timestamp>, Self::Error> {
        Ok(self.maybe(cell)?.map(Timestamp::from_millis))
    }

    fn text(&self, cell: usize) -> Result<Text, Self::Error> {
        Ok(self.string(cell)?.into())
    }
}

/// A row that cannot be read.
pub(crate) fn corrupt(table: &str, id: impl std::fmt::Display, reason: impl ToString) -> StoreError {
    StoreError::Corrupt { what: format!("{table} row {id}").into(), reason: reason.to_string().into() }
}

/// From `attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate`.
pub(crate) fn attempt_record<R: Cells>(row: &R, first: usize) -> Result<AttemptRecord, R::Error> {
    let (number, code) = (row.attempt(first)?, row.number(first + 5)?);
    let outcome = attempt_outcome_from(code);
    Ok(AttemptRecord {
        number,
        token: Token(row.bits(first + 1)?),
        executor: row.text(first + 2)?,
        started_at: row.instant(first + 3)?,
        ended_at: row.instant(first + 4)?,
        outcome: outcome.ok_or_else(|| corrupt("attempts", number, "no such outcome"))?,
        message: row.text(first + 6)?,
        possible_duplicate: row.flag(first + 7)?,
    })
}

/// From `attempt, token, log, sent_at, executor`.
pub(crate) fn open_attempt<R: Cells>(row: &R, first: usize) -> Result<(Attempt, AttemptRow), R::Error> {
    let number = row.attempt(first)?;
    let open = AttemptRow::Open {
        number,
        token: Token(row.bits(first + 1)?),
        log: LogId(row.bits(first + 2)?),
        started_at: row.instant(first + 3)?,
        executor: row.text(first + 4)?,
    };
    Ok((number, open))
}

/// From `log, run, job, attempt, token, sent_at, executor`.
pub(crate) fn sent_row<R: Cells>(row: &R) -> Result<SentRow, R::Error> {
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

/// From `index, total, address`.
pub(crate) fn part<R: Cells>(row: &R, first: usize) -> Result<Part, R::Error> {
    Ok(Part { index: row.small(first)?, total: row.small(first + 1)?, address: row.text(first + 2)? })
}

/// From `total, open, succeeded`.
pub(crate) fn join<R: Cells>(row: &R, first: usize) -> Result<Join, R::Error> {
    Ok(Join { total: row.small(first)?, open: row.small(first + 1)?, succeeded: row.small(first + 2)? })
}

/// From `outcome, reason, closed_at, range_until, range_count`.
pub(crate) fn close<R: Cells>(row: &R, first: usize) -> Result<Close, R::Error> {
    let outcome = outcome_from(row.number(first)?);
    Ok(Close {
        outcome: outcome.ok_or_else(|| corrupt("closes", "of a run", "no such outcome"))?,
        reason: row.text(first + 1)?,
        closed_at: row.instant(first + 2)?,
        range: row.maybe_instant(first + 3)?.zip(row.maybe(first + 4)?.map(|count| count as u64)),
    })
}

/// From `ready_at, attempt, is_called_back`.
pub(crate) fn wait<R: Cells>(row: &R, first: usize) -> Result<WaitRow, R::Error> {
    let (ready_at, attempt) = (row.maybe_instant(first)?, row.attempt(first + 1)?);
    Ok(WaitRow { ready_at, attempt, is_called_back: row.flag(first + 2)? })
}

/// How many cells [`born`] reads.
pub(crate) const BORN: usize = 10;

/// A run as it was born, at its first attempt. From `id, job, shard, fire_time, due, origin, decided, priority, payload is not
/// null, overrides`.
pub(crate) fn born<R: Cells>(row: &R) -> Result<Waiting, R::Error> {
    let id = row.run(0)?;
    let bad = |reason: &str| corrupt("runs", id, reason);
    Ok(Waiting {
        run: id,
        job: row.job(1)?,
        shard: row.shard(2)?,
        fire_time: row.instant(3)?,
        ready_at: row.instant(4)?,
        attempt: Attempt::FIRST,
        origin: origin_from(row.number(5)?).ok_or_else(|| bad("no such origin"))?,
        decided: decided_from(row.number(6)?).ok_or_else(|| bad("no such decision"))?,
        priority: u8::try_from(row.number(7)?).map_err(|_| bad("no such priority"))?,
        has_payload: row.flag(8)?,
        is_called_back: false,
        overrides: overrides(row, 9)?,
    })
}

/// What a run has in place of its job's.
fn overrides<R: Cells>(row: &R, cell: usize) -> Result<Option<Arc<Overrides>>, R::Error> {
    Ok(row.maybe_string(cell)?.and_then(|text| Overrides::read(&text).kept()))
}

/// The rows that belong to a run.
#[derive(Default)]
pub(crate) struct OfRun {
    pub(crate) close: Option<Close>,
    pub(crate) wait: Option<WaitRow>,
    /// Attempts that were sent.
    pub(crate) sent: BTreeMap<Attempt, AttemptRow>,
    /// Attempts that ended.
    pub(crate) ended: BTreeMap<Attempt, AttemptRecord>,
    pub(crate) part: Option<Part>,
}

/// From `id, job, shard, fire_time, due, origin, decided, priority, key, of, payload, overrides`.
pub(crate) fn run_view<R: Cells>(row: &R, of_run: OfRun) -> Result<RunView, R::Error> {
    let id = row.run(0)?;
    let bad = |reason: &str| corrupt("runs", id, reason);
    let OfRun { close, wait, sent, ended, part } = of_run;
    let outcome = close.as_ref().map(|close| close.outcome);
    let state = RunState::of(outcome, wait.map(|wait| wait.attempt), !sent.is_empty());
    decided_from(row.number(6)?).ok_or_else(|| bad("no such decision"))?;
    let mut attempts = sent;
    attempts.extend(ended.into_iter().map(|(number, record)| (number, AttemptRow::Ended(record))));
    Ok(RunView {
        id,
        job: row.job(1)?,
        shard: row.shard(2)?,
        fire_time: row.instant(3)?,
        due: row.instant(4)?,
        origin: origin_from(row.number(5)?).ok_or_else(|| bad("no such origin"))?,
        state,
        attempts: attempts.into_values().collect(),
        closed_at: close.as_ref().map(|close| close.closed_at),
        range: close.as_ref().and_then(|close| close.range),
        reason: close.map(|close| close.reason).unwrap_or_default(),
        priority: u8::try_from(row.number(7)?).map_err(|_| bad("no such priority"))?,
        key: row.maybe_string(8)?.map(Text::from),
        of: row.maybe(9)?.map(|of| RunId(of as u64)),
        payload: row.maybe_string(10)?.map(Payload::from),
        ready_at: wait.and_then(|wait| wait.ready_at),
        part,
        overrides: overrides(row, 11)?,
    })
}

/// From `id, shard, kind, run, at`.
pub(crate) fn arrival<R: Cells>(row: &R) -> Result<Arrival, R::Error> {
    let id = row.bits(0)?;
    let kind = arrival_from(row.number(2)?, row.run(3)?, row.number(4)?);
    let kind = kind.ok_or_else(|| corrupt("arrivals", id, "no such kind"))?;
    Ok(Arrival { id, shard: row.shard(1)?, kind })
}

/// From `job, shard, next_fire, version, decided, reserved`.
pub(crate) fn clock_row<R: Cells>(row: &R) -> Result<ClockRow, R::Error> {
    Ok(ClockRow {
        job: row.job(0)?,
        shard: row.shard(1)?,
        next_fire: row.instant(2)?,
        version: row.bits(3)?,
        planned: PlannedTo { decided: row.instant(4)?, reserved: row.instant(5)? },
    })
}

/// From `job, shard, next_fire, version, enabled, decided, reserved`.
pub(crate) fn locked_clock<R: Cells>(row: &R) -> Result<LockedClock, R::Error> {
    Ok(LockedClock {
        shard: row.shard(1)?,
        next_fire: row.maybe_instant(2)?,
        version: row.bits(3)?,
        is_enabled: row.flag(4)?,
        decided: row.instant(5)?,
        reserved: row.instant(6)?,
        definition: None,
    })
}

/// From `id, version, changed_at, state, reason, definition, shard, next_fire, decided, reserved`.
pub(crate) fn job_row<R: Cells>(row: &R, children: Vec<Child>) -> Result<JobRow, R::Error> {
    let id = row.job(0)?;
    let bad = |reason: &str| corrupt("jobs", id, reason);
    let state = state_from(row.number(3)?, &row.string(4)?);
    Ok(JobRow {
        id,
        version: row.bits(1)?,
        changed_at: row.instant(2)?,
        state: state.ok_or_else(|| bad("no such state"))?,
        definition: definition_from_text(&row.string(5)?).map_err(|reason| bad(&reason))?,
        shard: row.shard(6).map_err(|_| bad("its clock has no shard"))?,
        next_fire: row.maybe_instant(7)?,
        planned: PlannedTo { decided: row.instant(8)?, reserved: row.instant(9)? },
        children,
    })
}

/// From `id, version, state, reason, definition, shard, next_fire` and six cells of counts.
pub(crate) fn job_view<R: Cells>(row: &R) -> Result<JobView, R::Error> {
    let id = row.job(0)?;
    let bad = |reason: &str| corrupt("jobs", id, reason);
    let state = state_from(row.number(2)?, &row.string(3)?);
    Ok(JobView {
        id,
        version: row.bits(1)?,
        state: state.ok_or_else(|| bad("no such state"))?,
        definition: definition_from_text(&row.string(4)?).map_err(|reason| bad(&reason))?,
        shard: row.shard(5).map_err(|_| bad("its clock has no shard"))?,
        next_fire: row.maybe_instant(6)?,
        counts: counts(row, 7)?,
    })
}

/// From `succeeded, failed, not_run, consecutive_failures, last_outcome, last_success`; nothing was counted if they are null.
pub(crate) fn counts<R: Cells>(row: &R, first: usize) -> Result<Counts, R::Error> {
    let number = |cell: usize| Ok::<u64, R::Error>(row.maybe(cell)?.unwrap_or(0) as u64);
    let outcome = row
        .maybe(first + 4)?
        .map(|code| outcome_from(code).ok_or_else(|| corrupt("counts", code, "no such outcome")));
    Ok(Counts {
        succeeded: number(first)?,
        failed: number(first + 1)?,
        not_run: number(first + 2)?,
        consecutive_failures: u32::try_from(number(first + 3)?).unwrap_or(u32::MAX),
        last_outcome: outcome.transpose()?,
        last_success: row.maybe_instant(first + 5)?,
    })
}

/// From `version, at, by, definition`.
pub(crate) fn revision<R: Cells>(row: &R, job: JobId) -> Result<Revision, R::Error> {
    let definition = definition_from_text(&row.string(3)?);
    Ok(Revision {
        version: row.bits(0)?,
        at: row.instant(1)?,
        by: row.text(2)?,
        definition: definition.map_err(|reason| corrupt("revisions", job, reason))?,
    })
}

/// A token, if its row holds what can be. From `id, name, digest, role, apps, created_at, expires_at`.
pub(crate) fn token<R: Cells>(row: &R) -> Result<Option<TokenRow>, R::Error> {
    let (Ok(id), Ok(digest)) = (u32::try_from(row.number(0)?), Digest::try_from(row.blob(2)?)) else {
        return Ok(None);
    };
    let Ok(apps) = serde_json::from_str(&row.string(4)?) else { return Ok(None) };
    Ok(Some(TokenRow {
        id,
        name: row.text(1)?,
        digest,
        role: row.text(3)?,
        apps,
        created_at: row.instant(5)?,
        expires_at: row.maybe_instant(6)?,
    }))
}

/// An app, if its row holds what can be. From `name, title, addresses, access_token, version, retention, paused`.
pub(crate) fn app<R: Cells>(row: &R) -> Result<Option<AppRow>, R::Error> {
    let addresses = row.maybe_string(2)?.map(|list| serde_json::from_str::<Vec<String>>(&list));
    let Ok(addresses) = addresses.transpose() else { return Ok(None) };
    Ok(Some(AppRow {
        name: row.text(0)?,
        title: row.text(1)?,
        addresses: addresses.map(|list| list.into_iter().map(Text::from).collect()),
        access_token: row.maybe_string(3)?.map(|token| Secret::new(&token)),
        version: row.bits(4)?,
        retention: row.maybe(5)?.map(retention_from),
        paused: row.maybe_string(6)?.map(|text| paused_from(&text)),
    }))
}

/// An executor, if its row holds what can be. From `app, address, dialect, beat_at, joined_at`.
pub(crate) fn executor<R: Cells>(row: &R) -> Result<Option<ExecutorRow>, R::Error> {
    let Ok(dialect) = row.string(2)?.parse() else { return Ok(None) };
    Ok(Some(ExecutorRow {
        app: row.text(0)?,
        address: row.text(1)?,
        dialect,
        beat_at: row.instant(3)?,
        joined_at: row.instant(4)?,
    }))
}

/// From `text, next_line, is_complete`.
pub(crate) fn kept_log<R: Cells>(row: &R) -> Result<KeptLog, R::Error> {
    Ok(KeptLog { text: row.string(0)?, next_line: row.bits(1)?, is_complete: row.flag(2)? })
}

/// From `attempt, at, is_confirmed, said`.
pub(crate) fn kill_note<R: Cells>(row: &R) -> Result<KillNote, R::Error> {
    Ok(KillNote {
        attempt: row.attempt(0)?,
        at: row.instant(1)?,
        is_confirmed: row.maybe_flag(2)?,
        said: row.text(3)?,
    })
}
