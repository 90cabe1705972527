//! Redis beside the database: claims that others can see, leases that are asked for before the database is, and hints that
//! travel faster than a look. Nothing here is ever the truth. A lease that was won in Redis is held when the database has
//! raised its epoch, a claim stops no node, and while Redis is away everything goes on through the database alone.
//!
//! Several clusters may share a Redis: every key and channel carries the cluster's id. And should Redis refuse a shard that
//! the database has no holder for, it is believed for one lease term (`refusals`).

mod hints;
mod link;
mod refusals;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{ChangeId, JobId, LogId, NewRun, NodeId, RunId, Settlement, ShardId, Text};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, Acquired, Adopted, Arrival, ArrivalKind, Change, Changed, ClockRow, Enqueued, Gate, Gated,
    JobRow, Keep, Lease, Loaded, OpenRuns, Plan, Planned, Pruned, Renewal, Renewed, RunRow, SentRow, Settled,
    Split, Store, StoreError, Thinned, Unpark,
};

use tokio::time::Instant;

pub use hints::{Heed, RedisPeers};
use link::Link;
use refusals::Refusals;

use crate::clock;

/// How long a claim is seen: longer than any two nodes may disagree about who plans.
const CLAIM_MS: usize = 30_000;

/// How long a lease lives before the node has said its own term.
const TERM: Duration = Duration::from_secs(4);

/// Keeps what is still ours, and takes back what Redis forgot: what another has by now stays with them.
const KEEP: &str = "
for _, key in ipairs(KEYS) do
    local owner = redis.call('GET', key)
    if owner == ARGV[1] then
        redis.call('PEXPIRE', key, ARGV[2])
    elseif not owner then
        redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    end
end
return 1";

/// Lets go of what is still ours.
const LET_GO: &str = "
for _, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[1] then
        redis.call('DEL', key)
    end
end
return 1";

/// How many steps a look through all keys takes at most, with a thousand keys each.
const SCANS_MAX: usize = 1_000;

/// How many leases without an end are named.
const ENDLESS_MAX: usize = 10;

/// What `TTL` says of a key that does not expire.
const NO_END: i64 = -1;

/// What nodes have in Redis.
pub struct Redis {
    link: Link,
    /// What its keys begin with.
    prefix: String,
    held: Mutex<Held>,
    refusals: Mutex<Refusals>,
    claims: AtomicU64,
    contended: AtomicU64,
    overruled: AtomicU64,
    on_overruled: OnOverruled,
}

/// Told the shards when the database is asked for them against the word of Redis; once, until Redis agrees again.
pub type OnOverruled = Box<dyn Fn(&[ShardId]) + Send + Sync>;

/// What this node has there.
#[derive(Default)]
struct Held {
    node: NodeId,
    term: Option<Duration>,
    shards: BTreeSet<ShardId>,
}

/// What has happened in Redis so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedisFigures {
    /// Fire times that were claimed.
    pub claims: u64,
    /// Those that another node had claimed before.
    pub contended: u64,
    /// Shards that the database was asked for although Redis refused them.
    pub overruled: u64,
    /// Whether it answers.
    pub is_up: bool,
}

impl Redis {
    /// The way to a server, which need not be there yet; a conflict if the address is none. `cluster` tells the keys of
    /// clusters apart that share it.
    pub fn new(url: &str, cluster: &str, on_overruled: OnOverruled) -> Result<Arc<Redis>, StoreError> {
        Ok(Arc::new(Redis {
            link: Link::new(url)?,
            prefix: format!("punctual:{cluster}"),
            held: Mutex::default(),
            refusals: Mutex::default(),
            claims: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            overruled: AtomicU64::new(0),
            on_overruled,
        }))
    }

    /// A store that coordinates through it before it asks the database.
    pub fn beside(self: &Arc<Self>, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Coordinated { store, redis: Arc::clone(self) })
    }

    /// Whether it answers now.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut ping = ::redis::pipe();
        ping.cmd("PING").ignore();
        match self.link.ask::<()>(&ping).await {
            Some(()) => Ok(()),
            None => Err(StoreError::Unknown("Redis does not answer".into())),
        }
    }

    /// Leases of any cluster without an end, by their keys: no node writes such a key, and it would keep nodes from a
    /// shard. At most a few are named.
    pub async fn endless_leases(&self) -> Result<Vec<String>, StoreError> {
        let away = || StoreError::Unknown("Redis does not answer".into());
        let (mut cursor, mut endless) = (0_u64, Vec::new());
        for _ in 0..SCANS_MAX {
            let mut scan = ::redis::pipe();
            scan.cmd("SCAN").arg(cursor).arg("MATCH").arg("punctual:*:lease:*").arg("COUNT").arg(1_000);
            let ((next, keys),): ((u64, Vec<String>),) = self.link.ask(&scan).await.ok_or_else(away)?;
            let mut ends = ::redis::pipe();
            keys.iter().for_each(|key| _ = ends.cmd("TTL").arg(key));
            let ends: Vec<i64> = match keys.is_empty() {
                true => Vec::new(),
                false => self.link.ask(&ends).await.ok_or_else(away)?,
            };
            endless.extend(keys.into_iter().zip(ends).filter(|(_, ttl)| *ttl == NO_END).map(|(key, _)| key));
            cursor = next;
            if cursor == 0 || endless.len() >= ENDLESS_MAX {
                break;
            }
        }
        endless.truncate(ENDLESS_MAX);
        Ok(endless)
    }

    /// What has happened so far.
    pub fn figures(&self) -> RedisFigures {
        RedisFigures {
            claims: self.claims.load(Ordering::Relaxed),
            contended: self.contended.load(Ordering::Relaxed),
            overruled: self.overruled.load(Ordering::Relaxed),
            is_up: self.link.is_up(),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims what is about to be planned, in one round trip. A node that claimed it before may have died on the way to the
    /// database, so a claim stops no other node: the unique key decides.
    async fn claim(&self, plans: &[Plan]) {
        let node = self.held().node.to_string();
        let runs = plans.iter().flat_map(|plan| &plan.runs);
        let mut pipe = ::redis::pipe();
        let mut count = 0;
        for run in runs {
            pipe.cmd("SET").arg(self.claim_key(run)).arg(&node).arg("NX").arg("PX").arg(CLAIM_MS);
            count += 1;
        }
        if count == 0 {
            return;
        }
        if let Some(won) = self.link.ask::<Vec<Option<String>>>(&pipe).await {
            let lost = won.iter().filter(|won| won.is_none()).count();
            self.claims.fetch_add(count, Ordering::Relaxed);
            self.contended.fetch_add(lost as u64, Ordering::Relaxed);
        }
    }

    /// Which of these shards the database is asked for: those that are ours in Redis for a term, those that Redis has refused
    /// for longer than that, and all of them if it cannot say.
    async fn take(&self, node: NodeId, shards: Vec<ShardId>) -> Vec<ShardId> {
        let (me, term) = (node.to_string(), self.held().term.unwrap_or(TERM));
        let mut pipe = ::redis::pipe();
        for shard in &shards {
            let key = self.lease_key(*shard);
            pipe.cmd("SET").arg(&key).arg(&me).arg("NX").arg("PX").arg(millis(term)).ignore();
            pipe.cmd("GET").arg(&key);
        }
        let Some(owners) = self.link.ask::<Vec<Option<String>>>(&pipe).await else { return shards };
        let is_ours = |owner: Option<String>| owner.as_ref() == Some(&me);
        let answers = shards.into_iter().zip(owners.into_iter().map(is_ours)).collect();
        self.weigh(answers, term, clock::instant())
    }

    /// Puts the answers of Redis together with how long it has given them.
    fn weigh(&self, answers: Vec<(ShardId, bool)>, term: Duration, now: Instant) -> Vec<ShardId> {
        let weighed = self.refusals.lock().unwrap_or_else(PoisonError::into_inner).weigh(answers, term, now);
        self.overruled.fetch_add(weighed.overruled.len() as u64, Ordering::Relaxed);
        if weighed.is_news {
            (self.on_overruled)(&weighed.overruled);
        }
        weighed.won.into_iter().chain(weighed.overruled).collect()
    }

    /// Renews what is held.
    async fn keep(&self) {
        let (me, term, keys) = {
            let held = self.held();
            let keys: Vec<String> = held.shards.iter().map(|shard| self.lease_key(*shard)).collect();
            (held.node.to_string(), held.term.unwrap_or(TERM), keys)
        };
        self.run(KEEP, &keys, &[me, millis(term).to_string()]).await;
    }

    async fn let_go(&self, node: NodeId, shards: impl Iterator<Item = ShardId>) {
        let keys: Vec<String> = shards.map(|shard| self.lease_key(shard)).collect();
        self.run(LET_GO, &keys, &[node.to_string()]).await;
    }

    fn claim_key(&self, run: &NewRun) -> String {
        format!("{}:execution:{}:{}", self.prefix, run.job, run.fire_time.as_millis())
    }

    fn lease_key(&self, shard: ShardId) -> String {
        format!("{}:lease:{}", self.prefix, shard.0)
    }

    fn channel(&self, address: &str) -> String {
        format!("{}:hints:{address}", self.prefix)
    }

    async fn run(&self, script: &str, keys: &[String], arguments: &[String]) {
        if keys.is_empty() {
            return;
        }
        let mut pipe = ::redis::pipe();
        pipe.cmd("EVAL").arg(script).arg(keys.len()).arg(keys).arg(arguments).ignore();
        self.link.ask::<()>(&pipe).await;
    }
}

fn millis(time: Duration) -> usize {
    usize::try_from(time.as_millis()).unwrap_or(usize::MAX)
}

/// A store in front of which Redis stands.
struct Coordinated {
    store: Arc<dyn Store>,
    redis: Arc<Redis>,
}

#[async_trait]
impl Store for Coordinated {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        let (node, term) = (renewal.node, renewal.term);
        let renewed = self.store.renew(renewal).await?;
        {
            let mut held = self.redis.held();
            let owned = renewed.shards.iter().filter(|row| row.owner == Some(node)).map(|row| row.shard);
            *held = Held { node, term: Some(term).filter(|term| !term.is_zero()), shards: owned.collect() };
        }
        self.redis.keep().await;
        Ok(renewed)
    }

    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        let won = self.redis.take(node, shards).await;
        if won.is_empty() {
            return Ok(Vec::new());
        }
        self.store.acquire(node, won).await
    }

    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError> {
        let shards: Vec<ShardId> = leases.iter().map(|lease| lease.shard).collect();
        self.store.release(node, leases, mark).await?;
        self.redis.let_go(node, shards.into_iter()).await;
        Ok(())
    }

    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError> {
        self.store.due(leases, until, max).await
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError> {
        self.store.jobs(ids).await
    }

    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        self.redis.claim(&plans).await;
        self.store.plan(plans).await
    }

    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        self.store.load(leases, from, until, max).await
    }

    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError> {
        self.store.adopt(leases).await
    }

    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        self.store.unpark(unpark).await
    }

    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.store.fetch(runs).await
    }

    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.store.outline(runs).await
    }

    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        self.store.gate(gates).await
    }

    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        self.store.split(splits).await
    }

    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        self.store.sent(logs).await
    }

    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        self.store.open_parts(run).await
    }

    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError> {
        self.store.open_runs(job, after, max).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        self.store.settle(settlements).await
    }

    fn birth_day(&self, day: u32, today: u32) -> u32 {
        self.store.birth_day(day, today)
    }

    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError> {
        self.store.allot(day, count).await
    }

    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        self.store.accept(runs, left).await
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError> {
        self.store.arrivals(leases, max).await
    }

    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError> {
        self.store.consume(arrivals).await
    }

    async fn enqueued(&self, max: usize) -> Result<Vec<Enqueued>, StoreError> {
        self.store.enqueued(max).await
    }

    async fn refuse(&self, refused: Vec<(u64, Text)>) -> Result<(), StoreError> {
        self.store.refuse(refused).await
    }

    async fn change(&self, change: Change) -> Result<Changed, StoreError> {
        self.store.change(change).await
    }

    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError> {
        self.store.is_in_force(change).await
    }

    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError> {
        self.store.prune(keep).await
    }

    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError> {
        self.store.thin(keep, day, from, max).await
    }
}
