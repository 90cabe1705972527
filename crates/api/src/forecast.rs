//! The forecast: what is due in the next hours, by the schedules of jobs. It is computed from the clocks of jobs and
//! reads no runs. It stops at its time limit and says so, and is cached for some seconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use calendar::{Timestamp, Zones};
use punctual_core::model::{Definition, Job, JobId, JobState, RunId, ScheduleKind};
use punctual_node::ports::{JobFilter, JobView};
use punctual_protocol::{Busy, Due, DueJob, Forecast, WaitingDay};
use tokio::time::Instant;

use crate::app::Front;
use crate::clock;
use crate::convert::upcoming::walk;
use crate::problem::Problem;

/// How long reading the jobs may take, and how long counting their fire times.
const READS_FOR: Duration = Duration::from_millis(2_000);
const COUNTS_FOR: Duration = Duration::from_millis(1_500);

/// How old a forecast may be; an older one is given once more while the next is computed.
const FRESH: Duration = Duration::from_secs(20);
const STALE: Duration = Duration::from_secs(600);

/// How many forecasts are cached: one for each set of apps and number of hours.
const KEPT_MAX: usize = 64;

const BUSIEST: usize = 8;
const NAMED: usize = 5;
const DAY_HOURS: u32 = 24;

/// Of which apps, and for how many hours.
type Question = (Option<Vec<String>>, u32);

/// Cached forecasts, and the right to compute one.
#[derive(Default)]
pub(crate) struct Forecasts {
    kept: Mutex<BTreeMap<Question, (Instant, Arc<Forecast>)>>,
    making: Arc<tokio::sync::Mutex<()>>,
}

impl Forecasts {
    fn get(&self, question: &Question, age: Duration) -> Option<Arc<Forecast>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(question).filter(|(at, _)| clock::since(*at) < age).map(|(_, made)| Arc::clone(made))
    }

    fn keep(&self, question: Question, made: Arc<Forecast>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(question, (clock::instant(), made));
    }
}

/// The forecast for the jobs of some apps, or of all.
pub(crate) async fn ask(
    front: &Arc<Front>,
    apps: Option<Vec<String>>,
    hours: u32,
) -> Result<Arc<Forecast>, Problem> {
    let question = (apps, hours);
    if let Some(made) = front.forecasts.get(&question, FRESH) {
        return Ok(made);
    }
    if let Some(stale) = front.forecasts.get(&question, STALE) {
        if let Ok(making) = Arc::clone(&front.forecasts.making).try_lock_owned() {
            let front = Arc::clone(front);
            tokio::spawn(async move {
                let _making = making;
                if let Ok(made) = make(&front, &question).await {
                    front.forecasts.keep(question, Arc::new(made));
                }
            });
        }
        return Ok(stale);
    }
    let _making = front.forecasts.making.lock().await;
    if let Some(made) = front.forecasts.get(&question, FRESH) {
        return Ok(made);
    }
    let made = Arc::new(make(front, &question).await?);
    front.forecasts.keep(question, Arc::clone(&made));
    Ok(made)
}

async fn make(front: &Front, (apps, hours): &Question) -> Result<Forecast, Problem> {
    let now = front.now()?;
    let span = Span::of(now, *hours);
    let filter = JobFilter { apps: apps.clone(), enabled: Some(true), ..JobFilter::default() };
    let (groups, was_cut) = read(front, &filter).await?;
    let zones = Arc::clone(&front.zones);
    let counting = tokio::task::spawn_blocking(move || count(&groups, &span, &zones));
    let counted = counting.await.map_err(|_| Problem::unavailable("the forecast could not be made"))?;
    let waiting = if apps.is_none() { waiting(front, &span).await? } else { Vec::new() };
    Ok(Forecast {
        step_ms: (span.step * 1_000) as u64,
        from: now.to_string(),
        until: span.until.to_string(),
        made_at: now.to_string(),
        jobs: counted.jobs,
        is_partial: was_cut || counted.was_cut,
        buckets: counted.buckets,
        busiest: counted.busiest,
        waiting,
    })
}

/// The time range of the forecast, in seconds from the start of a stretch.
#[derive(Clone, Copy)]
struct Span {
    now: Timestamp,
    until: Timestamp,
    /// The first second, and the number of seconds.
    first: i64,
    seconds: usize,
    /// How many seconds a stretch has.
    step: i64,
}

impl Span {
    fn of(now: Timestamp, hours: u32) -> Span {
        let step = if hours <= DAY_HOURS { 60 } else { 900 };
        let until = now.saturating_add(Duration::from_secs(u64::from(hours) * 3_600));
        let first = now.as_millis().div_euclid(1_000 * step) * step;
        let seconds = usize::try_from(until.as_millis().div_euclid(1_000) - first + 1).unwrap_or(0);
        Span { now, until, first, seconds, step }
    }

    fn index(&self, at: Timestamp) -> Option<usize> {
        let second = at.as_millis().div_euclid(1_000) - self.first;
        usize::try_from(second).ok().filter(|index| *index < self.seconds && at < self.until)
    }

    fn second(&self, index: usize) -> Timestamp {
        Timestamp::from_millis((self.first + index as i64) * 1_000)
    }
}

/// Jobs that fire at the same instants.
struct Group {
    definition: Definition,
    /// When it fires next; for a fixed delay only its clock knows.
    next_fire: Option<Timestamp>,
    count: u64,
    /// Some of them.
    named: Vec<(JobId, String, String)>,
}

/// Reads the jobs, grouped by schedule; returns whether time ran out before all were read.
async fn read(front: &Front, filter: &JobFilter) -> Result<(Vec<Group>, bool), Problem> {
    let late = clock::instant() + READS_FOR;
    let (mut groups, mut after): (BTreeMap<String, Group>, _) = (BTreeMap::new(), None);
    loop {
        let page = front.browse.job_list(filter, after, 1_000).await?;
        page.items.into_iter().for_each(|job| gather(&mut groups, job));
        after = page.next;
        let is_late = clock::instant() >= late;
        if after.is_none() || is_late {
            return Ok((groups.into_values().collect(), after.is_some()));
        }
    }
}

fn gather(groups: &mut BTreeMap<String, Group>, job: JobView) {
    let JobView { id, definition, next_fire, .. } = job;
    let schedule = &definition.schedule;
    if schedule.kind == ScheduleKind::Manual {
        return;
    }
    let is_hashed =
        matches!(&schedule.kind, ScheduleKind::Cron { expression, .. } if expression.contains('H'));
    let name = (id, definition.app.clone(), definition.name.clone());
    // Where the job's name or its clock decides when it fires, the job is a group of its own.
    let alone = if is_hashed || schedule.is_delay() { id.0 } else { 0 };
    let key = format!("{alone} {schedule:?} {:?}", definition.windows);
    let group = groups.entry(key).or_insert(Group { definition, next_fire, count: 0, named: Vec::new() });
    group.count += 1;
    if group.named.len() < NAMED {
        group.named.push(name);
    }
}

struct Counted {
    jobs: u64,
    was_cut: bool,
    buckets: Vec<Due>,
    busiest: Vec<Busy>,
}

fn count(groups: &[Group], span: &Span, zones: &Zones) -> Counted {
    let late = clock::instant() + COUNTS_FOR;
    let mut seconds = vec![0_u32; span.seconds];
    let (mut jobs, mut was_cut) = (0, false);
    for group in groups {
        if was_cut {
            break;
        }
        was_cut = !tally(group, span, zones, &mut seconds, late);
        jobs += group.count;
    }
    let busiest = busiest(&seconds).into_iter().map(|index| {
        let jobs = jobs_in(groups, span, zones, index, late);
        Busy { at: span.second(index).to_string(), count: u64::from(seconds[index]), jobs }
    });
    let busiest = busiest.collect();
    let stretches = seconds.chunks(span.step as usize).enumerate().filter_map(|(number, seconds)| {
        let count = seconds.iter().map(|count| u64::from(*count)).sum();
        let at = span.second(number * span.step as usize).to_string();
        (count > 0).then_some(Due { at, count })
    });
    Counted { jobs, was_cut, buckets: stretches.collect(), busiest }
}

/// Counts the fire times of a group; returns whether there was time for all of them.
fn tally(group: &Group, span: &Span, zones: &Zones, seconds: &mut [u32], late: Instant) -> bool {
    let count = u32::try_from(group.count).unwrap_or(u32::MAX);
    let mut add = |index: usize, times: u32| {
        seconds[index] = seconds[index].saturating_add(times.saturating_mul(count));
    };
    if group.definition.schedule.is_delay() {
        group.next_fire.and_then(|at| span.index(at)).into_iter().for_each(|index| add(index, 1));
        return true;
    }
    let Some(job) = compile(group, span, zones) else { return true };
    if let ScheduleKind::Every { interval, .. } = group.definition.schedule.kind
        && interval <= Duration::from_secs(1)
        && group.definition.windows.is_empty()
    {
        let first = span.index(span.now).unwrap_or(0);
        for index in first..span.seconds {
            let (from, to) = (span.second(index).max(span.now), span.second(index + 1).min(span.until));
            add(index, u32::try_from(job.rule.count(from, to)).unwrap_or(u32::MAX));
        }
        return clock::instant() < late;
    }
    let mut steps = 0_u32;
    walk(&job.rule, &job.exclusions, span.now, |at| {
        let Some(index) = span.index(at) else { return false };
        add(index, 1);
        steps += 1;
        !steps.is_multiple_of(256) || clock::instant() < late
    });
    clock::instant() < late
}

fn compile(group: &Group, span: &Span, zones: &Zones) -> Option<Job> {
    let definition = group.definition.clone();
    Job::compile(JobId(0), 1, span.now, JobState::Enabled, definition, vec![], zones).ok()
}

/// The seconds in which the most runs are due, and more than one.
fn busiest(seconds: &[u32]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::with_capacity(BUSIEST + 1);
    for (index, count) in seconds.iter().enumerate().filter(|(_, count)| **count > 1) {
        if best.len() == BUSIEST && best.last().is_some_and(|last| seconds[*last] >= *count) {
            continue;
        }
        let place = best.partition_point(|other| seconds[*other] >= *count);
        best.insert(place, index);
        best.truncate(BUSIEST);
    }
    best
}

/// Some of the jobs that fire in a second, as many as are found in time.
fn jobs_in(groups: &[Group], span: &Span, zones: &Zones, index: usize, late: Instant) -> Vec<DueJob> {
    let (from, to) = (span.second(index).max(span.now), span.second(index + 1));
    let mut found: Vec<DueJob> = Vec::new();
    for group in groups {
        if clock::instant() >= late + COUNTS_FOR {
            break;
        }
        let count = fires_in(group, span, zones, from, to);
        let named = group.named.iter().filter(|_| count > 0);
        found.extend(named.map(|(id, app, name)| DueJob {
            id: id.0,
            app: app.clone(),
            name: name.clone(),
            count,
        }));
    }
    found.sort_by(|one, two| two.count.cmp(&one.count).then(one.id.cmp(&two.id)));
    found.truncate(NAMED);
    found
}

fn fires_in(group: &Group, span: &Span, zones: &Zones, from: Timestamp, to: Timestamp) -> u64 {
    if group.definition.schedule.is_delay() {
        return u64::from(group.next_fire.is_some_and(|at| from <= at && at < to));
    }
    let Some(job) = compile(group, span, zones) else { return 0 };
    if group.definition.windows.is_empty() {
        return job.rule.count(from, to);
    }
    let mut count = 0;
    walk(&job.rule, &job.exclusions, Timestamp::from_millis(from.as_millis() - 1), |at| {
        let is_in = at < to;
        count += u64::from(is_in);
        is_in
    });
    count
}

/// One-shots submitted for the coming days, as the store counts them.
async fn waiting(front: &Front, span: &Span) -> Result<Vec<WaitingDay>, Problem> {
    let days = RunId::day_of(span.now)..=RunId::day_of(span.until);
    let buckets = front.browse.storage().await?;
    let open = buckets.iter().filter(|bucket| days.contains(&bucket.day) && bucket.runs > bucket.closed);
    let day = |day: u32| RunId::day_start(day).to_string().split('T').next().unwrap_or_default().to_owned();
    Ok(open.map(|bucket| WaitingDay { day: day(bucket.day), count: bucket.runs - bucket.closed }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::job::tests::{plain, try_read};
    use serde_json::{Value, json};

    fn group(schedule: &Value, count: u64) -> Group {
        let mut job = plain();
        job["schedule"] = schedule.clone();
        let definition = try_read(&job, None).unwrap().definition;
        let named = vec![(JobId(count as u32), "app".to_owned(), format!("job {count}"))];
        Group { definition, next_fire: None, count, named }
    }

    fn counted(groups: &[Group], hours: u32) -> Counted {
        let now = "2026-03-06T10:00:30Z".parse().unwrap();
        count(groups, &Span::of(now, hours), &Zones::bundled())
    }

    #[tokio::test]
    async fn what_is_due_is_counted_by_stretches_and_the_busiest_seconds_are_named() {
        let groups = [
            group(&json!({"kind": "cron", "expression": "*/15 * * * *"}), 3),
            group(&json!({"kind": "cron", "expression": "0 12 * * *"}), 20),
            group(&json!({"kind": "every", "interval": "100ms", "anchor": "2026-01-01T00:00:00Z"}), 1),
        ];
        let counted = counted(&groups, 24);
        assert!(!counted.was_cut);
        assert_eq!(counted.jobs, 24);
        let due = |at: &str| counted.buckets.iter().find(|due| due.at == at).map(|due| due.count);
        assert_eq!(due("2026-03-06T10:01:00Z"), Some(600));
        assert_eq!(due("2026-03-06T10:15:00Z"), Some(603));
        assert_eq!(due("2026-03-06T12:00:00Z"), Some(623));
        assert_eq!(due("2026-03-06T10:00:00Z"), Some(300), "only what is ahead");
        let busiest = &counted.busiest[0];
        assert_eq!((busiest.at.as_str(), busiest.count), ("2026-03-06T12:00:00Z", 33));
        let named: Vec<(u32, u64)> = busiest.jobs.iter().map(|job| (job.id, job.count)).collect();
        assert_eq!(named, [(1, 10), (3, 1), (20, 1)]);
        assert_eq!(counted.busiest.len(), BUSIEST);
        let total: u64 = counted.buckets.iter().map(|due| due.count).sum();
        assert_eq!(total, 24 * 36_000 + 24 * 4 * 3 + 20);
    }

    #[tokio::test]
    async fn a_week_comes_in_quarters_of_an_hour() {
        let groups = [group(&json!({"kind": "cron", "expression": "0 * * * *"}), 1)];
        let counted = counted(&groups, 168);
        assert_eq!(counted.buckets.len(), 168);
        assert!(counted.busiest.is_empty(), "one at a time is not busy");
    }

    #[tokio::test]
    async fn a_fixed_delay_is_counted_once_and_what_is_manual_never() {
        let mut delay = group(&json!({"kind": "delay", "delay": "10s"}), 1);
        delay.next_fire = Some("2026-03-06T10:05:00Z".parse().unwrap());
        let counted = counted(&[delay], 24);
        assert_eq!(counted.buckets.iter().map(|due| due.count).sum::<u64>(), 1);
    }

    #[tokio::test]
    async fn when_the_time_is_over_the_rest_is_left_out_and_it_says_so() {
        let groups = [group(&json!({"kind": "cron", "expression": "* * * * *"}), 1)];
        let span = Span::of("2026-03-06T10:00:30Z".parse().unwrap(), 24);
        let mut seconds = vec![0; span.seconds];
        assert!(!tally(&groups[0], &span, &Zones::bundled(), &mut seconds, clock::instant()));
        assert!(seconds.iter().sum::<u32>() < 300);
    }
}
