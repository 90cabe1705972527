//! Seeking: runs that wait for an executor, because none is there or because those that are there were asked which of
//! them may have it. And the parts of broadcast runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::engine::fire::Rank;
use punctual_core::model::{JobId, Part, RunId, Text};
use punctual_core::rank_set::RankSet;
use punctual_core::registry::{App, Dialect, Secret};
use rustc_hash::FxHashMap;

use crate::memory::{Memory, RunLocation};
use crate::natives::NATIVE;
use crate::ports::Address;

/// Executors of an app, in the order in which they are chosen from.
pub(crate) type Crew = Arc<[Arc<Address>]>;

/// A run that waits for an executor.
#[derive(Clone, Debug)]
pub(crate) struct Seeking {
    app: Text,
    /// Whether executors were asked and have not answered yet.
    is_asking: bool,
    /// Where it waits until an executor takes more.
    stalled: Option<(Post, Rank, JobId)>,
}

/// Where runs wait for an executor to take more: one executor, or any that offers the handler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Post {
    app: Text,
    handler: Text,
    only: Option<Text>,
}

/// All of those.
#[derive(Debug, Default)]
pub(crate) struct Seekers {
    waiting: FxHashMap<RunId, Seeking>,
    /// Runs that wait for an executor and have no question outstanding, by app.
    by_app: BTreeMap<Text, BTreeSet<RunId>>,
    /// Until when each run is patient; kept while it asks again and again, until it has found an executor.
    patience: FxHashMap<RunId, Timestamp>,
    /// Why each run has found no executor, as far as the answers said.
    reasons: FxHashMap<RunId, Text>,
    deadlines: BTreeSet<(Timestamp, RunId)>,
    stalled: BTreeMap<Post, RankSet>,
    stalled_count: usize,
    stalled_by_job: FxHashMap<JobId, usize>,
}

impl Seekers {
    /// Lets a run wait. Its patience counts from the first time.
    fn add(&mut self, id: RunId, app: Text, is_asking: bool, until: Timestamp) {
        let until = *self.patience.entry(id).or_insert(until);
        self.deadlines.insert((until, id));
        if !is_asking {
            self.by_app.entry(app.clone()).or_default().insert(id);
        }
        self.waiting.insert(id, Seeking { app, is_asking, stalled: None });
    }

    /// Lets a run wait until an executor takes more. Its patience has no end, because an executor is there.
    pub(crate) fn stall(&mut self, job: JobId, app: Text, handler: Text, only: Option<Text>, rank: Rank) {
        let id = rank.run;
        self.remove(id);
        let post = Post { app: app.clone(), handler, only };
        self.stalled.entry(post.clone()).or_default().insert(rank);
        self.stalled_count += 1;
        *self.stalled_by_job.entry(job).or_default() += 1;
        self.waiting.insert(id, Seeking { app, is_asking: false, stalled: Some((post, rank, job)) });
    }

    /// How many runs wait, for any reason.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Of the runs whose patience ends, the one whose patience ends first: it has waited longest.
    pub(crate) fn longest(&self) -> Option<RunId> {
        self.deadlines.first().map(|(_, id)| *id)
    }

    /// When the oldest of the runs became due that wait until an executor takes more.
    pub(crate) fn earliest_stalled(&self) -> Option<Timestamp> {
        self.stalled.values().filter_map(RankSet::oldest).min()
    }

    /// How many runs wait until an executor takes more.
    pub(crate) fn stalled_count(&self) -> usize {
        self.stalled_count
    }

    /// How many of those belong to a job.
    pub(crate) fn stalled_of(&self, job: JobId) -> usize {
        self.stalled_by_job.get(&job).copied().unwrap_or(0)
    }

    /// The first of those that may go to this executor, at most `many`.
    pub(crate) fn first_stalled(
        &self,
        app: &Text,
        url: &Text,
        many: u32,
        offers: impl Fn(&str) -> bool,
    ) -> Vec<RunId> {
        let many = many as usize;
        let may = |post: &Post| post.only.as_ref().is_none_or(|only| only == url) && offers(&post.handler);
        let posts = self.posts_of(app).filter(|(post, _)| may(post));
        let mut first: Vec<Rank> = posts.flat_map(|(_, ranks)| ranks.iter().take(many)).copied().collect();
        first.sort_unstable();
        first.into_iter().take(many).map(|rank| rank.run).collect()
    }

    /// How many may go to this executor.
    pub(crate) fn count_stalled(&self, app: &Text, url: &Text, offers: impl Fn(&str) -> bool) -> u64 {
        let may = |post: &Post| post.only.as_ref().is_none_or(|only| only == url) && offers(&post.handler);
        self.posts_of(app).filter(|(post, _)| may(post)).map(|(_, ranks)| ranks.len() as u64).sum()
    }

    /// All of an app.
    pub(crate) fn all_stalled(&self, app: &Text) -> Vec<RunId> {
        self.posts_of(app).flat_map(|(_, ranks)| ranks.iter().map(|rank| rank.run)).collect()
    }

    /// All of every app, in no order.
    pub(crate) fn stalled(&self) -> impl Iterator<Item = Rank> {
        self.stalled.values().flat_map(RankSet::iter).copied()
    }

    fn posts_of<'a>(&'a self, app: &'a Text) -> impl Iterator<Item = (&'a Post, &'a RankSet)> {
        let first = Post { app: app.clone(), handler: Text::Borrowed(""), only: None };
        self.stalled.range(first..).take_while(move |(post, _)| post.app == *app)
    }

    fn unstall(&mut self, post: &Post, rank: &Rank, job: JobId) {
        let Some(ranks) = self.stalled.get_mut(post) else { return };
        if ranks.remove(rank) {
            self.stalled_count -= 1;
            if let Some(count) = self.stalled_by_job.get_mut(&job) {
                *count -= 1;
            }
            if self.stalled_of(job) == 0 {
                self.stalled_by_job.remove(&job);
            }
        }
        let Some(ranks) = self.stalled.get(post) else { return };
        if ranks.is_empty() {
            self.stalled.remove(post);
        }
    }

    /// The run waits no longer, but may come back.
    pub(crate) fn take(&mut self, id: RunId) -> Option<Seeking> {
        let seeking = self.waiting.remove(&id)?;
        if let Some((post, rank, job)) = &seeking.stalled {
            self.unstall(post, rank, *job);
        }
        if let Some(until) = self.patience.get(&id) {
            self.deadlines.remove(&(*until, id));
        }
        if let Some(ids) = self.by_app.get_mut(&seeking.app) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_app.remove(&seeking.app);
            }
        }
        Some(seeking)
    }

    /// The run waits no longer, and counts as never having waited.
    pub(crate) fn remove(&mut self, id: RunId) {
        self.take(id);
        self.patience.remove(&id);
        self.reasons.remove(&id);
    }

    /// Notes why a run has found no executor.
    pub(crate) fn note_reason(&mut self, id: RunId, reason: Text) {
        self.reasons.insert(id, reason);
    }

    /// Why a run has found no executor.
    pub(crate) fn reason(&self, id: RunId) -> Option<&Text> {
        self.reasons.get(&id)
    }

    /// The runs that wait.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RunId> {
        self.waiting.keys().copied()
    }

    /// Whether executors were asked for the run and have not answered yet.
    pub(crate) fn is_asking(&self, id: RunId) -> bool {
        self.waiting.get(&id).is_some_and(|seeking| seeking.is_asking)
    }

    /// Apps that have such runs: waiting for an executor, with no question outstanding.
    pub(crate) fn apps(&self) -> Vec<Text> {
        self.by_app.keys().cloned().collect()
    }

    /// The runs whose patience has ended, at most `max`.
    pub(crate) fn impatient(&self, now: Timestamp, max: usize) -> Vec<RunId> {
        self.deadlines.iter().take_while(|(until, _)| *until <= now).take(max).map(|(_, id)| *id).collect()
    }

    /// When the patience of a run ends next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(until, _)| *until)
    }
}

/// A part that is in memory.
#[derive(Clone, Debug)]
pub(crate) struct PartOf {
    pub(crate) whole: RunId,
    pub(crate) part: Part,
}

/// The parts that are in memory, and whose they are.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    known: FxHashMap<RunId, PartOf>,
    /// Wholes that are being ended by wish: their parts end with them, and bring nothing about.
    ending: BTreeSet<RunId>,
}

impl Parts {
    pub(crate) fn note(&mut self, id: RunId, whole: RunId, part: Part) {
        self.known.insert(id, PartOf { whole, part });
    }

    pub(crate) fn get(&self, id: RunId) -> Option<&PartOf> {
        self.known.get(&id)
    }

    pub(crate) fn end(&mut self, whole: RunId) {
        self.ending.insert(whole);
    }

    pub(crate) fn is_ending(&self, whole: RunId) -> bool {
        self.ending.contains(&whole)
    }

    /// Forgets a part, or a whole.
    pub(crate) fn forget(&mut self, id: RunId) {
        self.ending.remove(&id);
        self.known.remove(&id);
    }
}

impl Memory {
    /// The executors of an app that runs may be sent to now, in their order. Every run asks, so the list is kept for as
    /// long as it is true.
    pub(crate) fn executors_of(&mut self, app: &str) -> Crew {
        let version = self.executors.registry.version(app);
        match self.executors.crews.get(app) {
            Some((of, crew)) if *of == version => Arc::clone(crew),
            _ => {
                let crew: Crew = self.list_executors(app).into_iter().map(Arc::new).collect();
                self.executors.crews.insert(Text::Owned(app.to_owned()), (version, Arc::clone(&crew)));
                crew
            }
        }
    }

    fn list_executors(&self, app: &str) -> Vec<Address> {
        let access_token = self.access_token(app);
        let address = |(url, dialect): (&Arc<str>, Dialect)| Address {
            url: url.to_string().into(),
            dialect,
            app: app.to_owned().into(),
            access_token: access_token.clone(),
            is_known: true,
            is_listed: self.executors.registry.executor(app, url).is_some_and(|executor| executor.is_listed),
        };
        self.executors.registry.routable(app).map(address).collect()
    }

    /// An executor by its address, for any message about an attempt that it may have. One that is neither registered
    /// nor set by people is shown no token.
    pub(crate) fn executor_at(&self, app: &str, url: &Text) -> Address {
        let executor = self.executors.registry.executor(app, url);
        let dialect = executor.map(|executor| executor.dialect);
        let spoken = if url.starts_with(NATIVE) { Dialect::Native } else { Dialect::default() };
        Address {
            url: url.clone(),
            dialect: dialect.unwrap_or(spoken),
            app: app.to_owned().into(),
            access_token: dialect.and_then(|_| self.access_token(app)),
            is_known: dialect.is_some(),
            is_listed: executor.is_some_and(|executor| executor.is_listed),
        }
    }

    /// How an executor that has an attempt is addressed by now: one that was not registered when the attempt was taken
    /// over may be since. One that is no longer registered is addressed as before.
    pub(crate) fn address_now(&self, address: &Address) -> Address {
        let now = self.executor_at(&address.app, &address.url);
        if now.is_known { now } else { address.clone() }
    }

    /// Notes which apps have tokens of their own, after any of them may have changed.
    pub(crate) fn note_tokens(&mut self) {
        let own = |app: &App| Some((Text::Owned(app.name.to_string()), app.access_token.clone()?));
        self.executors.tokens = Some(Arc::new(self.executors.registry.apps().filter_map(own).collect()));
        self.executors.crews.clear();
    }

    /// The same after one of them changed here. As long as the others are not known, nothing is.
    pub(crate) fn renew_tokens(&mut self) {
        if self.executors.tokens.is_some() {
            self.note_tokens();
        }
    }

    fn access_token(&self, app: &str) -> Option<Arc<Secret>> {
        self.executors.registry.app(app).and_then(|app| app.access_token.clone()).map(Arc::new)
    }

    /// Lets a run wait for an executor: for one to come, or for the answer of those that were asked.
    pub(crate) fn seek(&mut self, id: RunId, app: Text, is_asking: bool, now: Timestamp, patience: Duration) {
        if !self.loaded.runs.contains_key(&id) {
            return;
        }
        self.move_to(id, RunLocation::Seeking);
        self.loaded.seekers.add(id, app, is_asking, now.saturating_add(patience));
        self.outbox.wakes.watch = true;
    }

    /// A run that was waiting for an executor asks again.
    pub(crate) fn seek_again(&mut self, id: RunId) {
        if self.loaded.seekers.take(id).is_some() {
            self.move_to(id, RunLocation::Ready);
            self.outbox.wakes.fire = true;
        }
    }

    /// Lets every run ask again that waits for an executor of this app and has no question outstanding.
    pub(crate) fn recall(&mut self, app: &str) {
        let ids: Vec<RunId> = self.loaded.seekers.by_app.get(app).into_iter().flatten().copied().collect();
        ids.into_iter().for_each(|id| self.seek_again(id));
    }

    /// Takes the answer of the executors that were asked.
    pub(crate) fn choose(&mut self, id: RunId, url: Option<Text>, now: Timestamp, patience: Duration) {
        let Some(seeking) = self.loaded.seekers.take(id) else { return };
        match url {
            Some(url) => {
                let address = self.executor_at(&seeking.app, &url);
                self.loaded.chosen.insert(id, Arc::new(address));
                self.move_to(id, RunLocation::Ready);
                self.outbox.wakes.fire = true;
            }
            None => self.seek(id, seeking.app, false, now, patience),
        }
    }
}
