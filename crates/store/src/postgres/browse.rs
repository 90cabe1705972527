//! Reading, for people: jobs with their counts, runs with their attempts, page by page.

use punctual_core::model::{JobId, RunId};
use punctual_node::ports::{
    Bucket, Counts, JobFilter, JobName, JobView, Page, RunFilter, RunView, SentRow, Soonest,
};
use tokio_postgres::Row;

use super::Postgres;
use super::ask::{Ask, Columns, run_code, text_code};
use super::line::Line;
use super::split::parts_of;
use super::trouble::{Trouble, corrupt};
use super::view::{state_number, views};
use crate::rows::{counts, job_view, sent_row};

/// How many rows one statement looks at, and how many statements a page asks before it is handed out as it is, with the
/// place to go on from.
const CHUNK: i64 = 5_000;
const CHUNKS_MAX: usize = 10;

const JOBS: &str = "
    select j.id, j.version, j.state::bigint, j.reason, j.definition, c.shard::bigint, c.next_fire,
           coalesce(n.succeeded, 0), coalesce(n.failed, 0), coalesce(n.not_run, 0), coalesce(n.consecutive_failures, 0),
           n.last_outcome::bigint, n.last_success
    from jobs j
    join clocks c on c.job = j.id
    left join counts n on n.job = j.id";

impl Postgres {
    pub(super) async fn read_job_list(
        &self,
        line: &Line<'_>,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobView, JobId>, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut after = after.map_or(-1, |after| i64::from(after.0));
        let apps: Option<Vec<String>> =
            filter.apps.as_ref().map(|apps| apps.iter().map(|app| text_code(app)).collect());
        let is_exact = filter.is_plain();
        let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let chunk = if is_exact { wanted.min(CHUNK) } else { 500.max(wanted.min(CHUNK)) };
        for _ in 0..CHUNKS_MAX * 10 {
            let ask = Ask::new(format!(
                "{JOBS}
                 where j.id > $1 and j.state <> 2
                   and ($2::text[] is null or (j.app = any($2) and md5(j.app) = any(select md5(app) from unnest($2) as app)))
                   and ($3::boolean is null or (j.state = 0) = $3)
                   and (not $5::boolean or n.consecutive_failures > 0)
                 order by j.id
                 limit $4"
            ));
            let ask = ask.with(after).with(apps.clone()).with(filter.enabled).with(chunk);
            let rows = line.ask(ask.with(filter.is_failing)).await?;
            for row in &rows {
                after = row.number(0)?;
                // A row that cannot be read is told about where it is asked for; it does not take the others with it.
                let view = match job_view(row) {
                    Ok(view) if filter.takes(&view) => view,
                    Ok(_) | Err(Trouble::Refused(_)) => continue,
                    Err(trouble) => return Err(trouble),
                };
                if page.items.len() == limit {
                    page.next = page.items.last().map(|last: &JobView| last.id);
                    return Ok(page);
                }
                page.items.push(view);
            }
            if (rows.len() as i64) < chunk {
                return Ok(page);
            }
        }
        page.next = u32::try_from(after).ok().map(JobId);
        Ok(page)
    }

    pub(super) async fn read_job_soonest(
        &self,
        line: &Line<'_>,
        filter: &JobFilter,
        after: Option<Soonest>,
        limit: usize,
    ) -> Result<Page<JobView, Soonest>, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut place = after.map_or((i64::MIN, -1), |(at, job)| (at.as_millis(), i64::from(job.0)));
        let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let chunk = if filter.is_plain() { wanted.min(CHUNK) } else { 500.max(wanted.min(CHUNK)) };
        let apps: Option<Vec<String>> =
            filter.apps.as_ref().map(|apps| apps.iter().map(|app| text_code(app)).collect());
        for _ in 0..CHUNKS_MAX * 10 {
            let ask = Ask::new(format!(
                "{JOBS}
                 where c.enabled and c.next_fire is not null and c.next_fire >= $1 and (c.next_fire > $1 or c.job > $2)
                   and j.state = 0 and ($3::text[] is null or j.app = any($3))
                 order by c.next_fire, c.job
                 limit $4"
            ));
            let ask = ask.with(place.0).with(place.1).with(apps.clone()).with(chunk);
            let rows = line.ask(ask).await?;
            for row in &rows {
                let here = (row.number(6)?, row.number(0)?);
                let view = match job_view(row) {
                    Ok(view) if filter.takes(&view) => view,
                    Ok(_) | Err(Trouble::Refused(_)) => {
                        place = here;
                        continue;
                    }
                    Err(trouble) => return Err(trouble),
                };
                if page.items.len() == limit {
                    page.next = soonest(place);
                    return Ok(page);
                }
                page.items.push(view);
                place = here;
            }
            if (rows.len() as i64) < chunk {
                return Ok(page);
            }
        }
        page.next = soonest(place);
        Ok(page)
    }

    pub(super) async fn read_job_names(
        &self,
        line: &Line<'_>,
        ids: &[JobId],
    ) -> Result<Vec<JobName>, Trouble> {
        let ids: Vec<i64> = ids.iter().map(|id| i64::from(id.0)).collect();
        let ask = Ask::new("select id, app, name from jobs where id = any($1::bigint[])").with(ids);
        let name = |row: &Row| Ok(JobName { id: row.job(0)?, app: row.string(1)?, name: row.string(2)? });
        line.ask(ask).await?.iter().map(name).collect()
    }

    pub(super) async fn read_job_totals(
        &self,
        line: &Line<'_>,
        filter: &JobFilter,
    ) -> Result<(u64, u64), Trouble> {
        let apps: Option<Vec<String>> =
            filter.apps.as_ref().map(|apps| apps.iter().map(|app| text_code(app)).collect());
        let ask = Ask::new(
            "select count(*), count(*) filter (where state = 0)
             from jobs
             where state <> 2 and ($1::text[] is null or app = any($1)) and ($2::boolean is null or (state = 0) = $2)",
        );
        let rows = line.ask(ask.with(apps).with(filter.enabled)).await?;
        Ok((rows[0].bits(0)?, rows[0].bits(1)?))
    }

    pub(super) async fn read_parts(&self, line: &Line<'_>, whole: RunId) -> Result<Vec<RunView>, Trouble> {
        let rows = line.ask(parts_of(whole)).await?;
        let ids = rows.iter().map(|row| row.run(0)).collect::<Result<Vec<RunId>, Trouble>>()?;
        let mut found = views(line, &ids).await?;
        found.sort_by_key(|view| (view.part.as_ref().map(|part| part.index), view.id));
        Ok(found)
    }

    pub(super) async fn read_sends(&self, line: &Line<'_>, run: RunId) -> Result<Vec<SentRow>, Trouble> {
        let ask = Ask::new(
            "select s.log, s.run, r.job, s.attempt, s.token, s.sent_at, s.executor
             from sends s
             join all_runs r on r.id = s.run
             where s.run = $1 and r.id = $1
             order by s.attempt",
        );
        line.ask(ask.with(run_code(run))).await?.iter().map(sent_row).collect()
    }

    pub(super) async fn read_run(&self, line: &Line<'_>, id: RunId) -> Result<Option<RunView>, Trouble> {
        Ok(views(line, &[id]).await?.pop())
    }

    pub(super) async fn read_run_keyed(
        &self,
        line: &Line<'_>,
        job: JobId,
        key: &str,
    ) -> Result<Option<RunId>, Trouble> {
        let ask = Ask::new("select run from keys where job = $1 and key = $2");
        let rows = line.ask(ask.with(i64::from(job.0)).with(text_code(key))).await?;
        rows.first().map(|row| row.run(0)).transpose()
    }

    pub(super) async fn read_run_list(
        &self,
        line: &Line<'_>,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, Trouble> {
        let mut before = before.map_or(i64::MAX, run_code);
        let mut ids: Vec<RunId> = Vec::new();
        let mut next = None;
        for number in 1..=CHUNKS_MAX {
            let rows = line.ask(chunk_below(filter, before)).await?;
            let Some(last) = rows.last() else { break };
            before = last.number(0)?;
            for row in rows.iter().filter(|row| row.flag(1).unwrap_or(false)) {
                if ids.len() <= limit {
                    ids.push(row.run(0)?);
                }
            }
            if ids.len() > limit {
                ids.truncate(limit);
                next = ids.last().copied();
                break;
            }
            if (rows.len() as i64) < CHUNK {
                break;
            }
            if number == CHUNKS_MAX {
                next = Some(RunId(before as u64));
            }
        }
        let mut items = views(line, &ids).await?;
        items.sort_by_key(|view| std::cmp::Reverse(view.id));
        // What changed its state between the two is not what was asked for.
        items.retain(|view| filter.state.is_none_or(|state| state == view.state));
        Ok(Page { items, next })
    }

    pub(super) async fn read_counts(&self, line: &Line<'_>, job: Option<JobId>) -> Result<Counts, Trouble> {
        let ask = match job {
            Some(job) => Ask::new(
                "select succeeded, failed, not_run, consecutive_failures, last_outcome::bigint, last_success
                 from counts
                 where job = $1",
            )
            .with(i64::from(job.0)),
            // Of all jobs together: sums, the longest row of failures, the latest success. How the last of all closed runs
            // ended is not kept.
            None => Ask::new(
                "select coalesce(sum(succeeded), 0)::bigint, coalesce(sum(failed), 0)::bigint,
                        coalesce(sum(not_run), 0)::bigint, coalesce(max(consecutive_failures), 0), null::bigint,
                        max(last_success)
                 from counts",
            ),
        };
        let rows = line.ask(ask).await?;
        Ok(rows.first().map(|row| counts(row, 0)).transpose()?.unwrap_or_default())
    }

    pub(super) async fn read_storage(&self, line: &Line<'_>) -> Result<Vec<Bucket>, Trouble> {
        let ask = "select day::bigint, sum(runs)::bigint, sum(closed)::bigint,
                          coalesce(pg_total_relation_size(to_regclass('runs_' || day)), 0)
                              + coalesce(pg_total_relation_size(to_regclass('closes_' || day)), 0)
                   from buckets
                   group by day
                   order by day";
        let bucket = |row: &Row| {
            let day = row.number(0)?;
            Ok(Bucket {
                day: u32::try_from(day).map_err(|_| corrupt("buckets", day, "no such day"))?,
                runs: row.bits(1)?,
                closed: row.bits(2)?,
                bytes: row.bits(3)?,
            })
        };
        line.ask(Ask::new(ask)).await?.iter().map(bucket).collect()
    }
}

fn soonest((at, job): (i64, i64)) -> Option<Soonest> {
    u32::try_from(job).ok().map(|job| (calendar::Timestamp::from_millis(at), JobId(job)))
}

/// Some runs below a place, each with whether the filter lets it through.
fn chunk_below(filter: &RunFilter, before: i64) -> Ask {
    let apps: Option<Vec<String>> =
        filter.apps.as_ref().map(|apps| apps.iter().map(|app| text_code(app)).collect());
    let state = match filter.state {
        None => "true".to_owned(),
        Some(state) => format!("({STATE}) = {}", state_number(state)),
    };
    Ask::new(runs_below(filter.job.is_some(), &state))
        .with(before)
        .with(CHUNK)
        .with(filter.job.map(|job| i64::from(job.0)))
        .with(filter.from.map(calendar::Timestamp::as_millis))
        .with(filter.to.map(calendar::Timestamp::as_millis))
        .with(filter.key.as_deref().map(text_code))
        .with(apps)
}

/// Of one job: along its index, and not through the runs of all others.
pub(super) fn runs_below(is_of_job: bool, state: &str) -> String {
    let of_job = if is_of_job { "and job = $3" } else { "" };
    format!(
        "select r.id,
                r.origin <> 6
                and ($3::bigint is null or r.job = $3)
                and ($4::bigint is null or r.fire_time >= $4)
                and ($5::bigint is null or r.fire_time < $5)
                and ($6::text is null or r.key is not distinct from $6)
                and ($7::text[] is null or exists (select from jobs j where j.id = r.job and j.app = any($7)))
                and {state}
         from (
             select id, job, fire_time, key, origin
             from all_runs
             where id < $1 {of_job}
             order by id desc
             limit $2
         ) as r
         order by r.id desc"
    )
}

/// The state of a run as [`state_number`] has it.
const STATE: &str = "
    coalesce(
        (select c.outcome::integer from all_closes c where c.run = r.id),
        (select case when w.attempt > 1 then 7 else 5 end from waiting w where w.run = r.id),
        (select 6 from flights f where f.run = r.id),
        5
    )";
