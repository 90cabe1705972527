//! PostgreSQL: many nodes over one database.
//!
//! A run is a row that is written once, in the table of its day (`day`); its end is another row. A verb that writes locks the
//! rows it touches and reads them in one flight (`gather`), decides by `rules/`, and writes what has changed
//! with the commit in a second (`flush`). Only single statements that compare and set, unique keys and row locks at READ
//! COMMITTED are relied on. Time is the database's own, judged in its statements.

mod accept;
mod address;
mod ask;
mod browse;
mod change;
mod code;
mod day;
mod flush;
mod gate;
mod gather;
mod insert;
mod inspect;
mod lease;
mod line;
mod listen;
mod load;
mod migrate;
mod plan;
mod ports;
mod prune;
mod run_row;
mod session;
mod settle;
mod split;
mod text;
mod thin;
mod trouble;
mod view;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use punctual_node::ports::StoreError;

pub use self::listen::{Hark, PostgresPeers};

use self::address::{Access, Address, unreachable};
use self::day::Days;
use self::line::{Line, Pool};
use self::trouble::Trouble;
use crate::StoreClock;
use crate::idle::Era;
use crate::sql::{Detour, Inspection, Migrated, Options};
use crate::together::Together;

/// How often a verb begins again when others were faster.
const TRIES: u32 = 10;

/// A store in a PostgreSQL database.
pub struct Postgres {
    clock: Option<StoreClock>,
    key_ttl: Duration,
    shards: u16,
    engine: Arc<Pool>,
    readers: Arc<Pool>,
    replica: Option<Arc<Pool>>,
    /// While the primary is away, people's questions go to the copy.
    detour: Detour,
    days: Days,
    /// Small calls that come at the same time are written together.
    together: Together,
    /// Whether tables can be detached without a wait for readers and writers.
    is_concurrent: bool,
}

impl Postgres {
    /// Opens the store in a database, or says what is wrong with that.
    pub async fn open(url: &str, options: Options) -> Result<Postgres, StoreError> {
        let address = Address::of(url, &options, Access::Write)?;
        let replica = options.read_url.as_deref().map(|url| Address::of(url, &options, Access::Read));
        let (replica, era) = (replica.transpose()?, Era::default());
        let patience = 2 * options.deadline;
        let mut store = Postgres {
            clock: options.clock.clone(),
            key_ttl: options.key_ttl,
            shards: options.shards,
            engine: address.pool(options.connections, options.deadline, &era),
            readers: address.pool(options.readers, patience, &era),
            replica: replica.map(|replica| replica.pool(options.readers, patience, &Era::default())),
            detour: Detour::default(),
            days: Days::default(),
            together: Together::default(),
            is_concurrent: false,
        };
        let engine = Arc::clone(&store.engine);
        let line = engine.line().await.map_err(opening)?;
        let server = inspect::check_server(&line).await.map_err(opening)?;
        store.is_concurrent = options.prepared && server >= 140_000;
        if options.auto_migrate {
            migrate::migrate(&line).await.map_err(opening)?;
        }
        let schema = migrate::schema(&line).await.map_err(opening)?;
        schema.check_is_enough().map_err(opening)?;
        migrate::fix_shards(&line, options.shards).await.map_err(opening)?;
        store.learn_days(&line).await.map_err(opening)?;
        line.give_back();
        Ok(store)
    }

    /// Brings the schema of a database up to date; what was done.
    pub async fn migrate(url: &str, options: &Options) -> Result<Migrated, StoreError> {
        let pool = alone(url, options, Access::Write)?;
        let line = pool.line().await.map_err(opening)?;
        inspect::check_server(&line).await.map_err(opening)?;
        migrate::migrate(&line).await.map_err(opening)
    }

    /// Looks at a database without changing it.
    pub async fn inspect(url: &str, options: &Options) -> Result<Inspection, StoreError> {
        let (primary, any) = (alone(url, options, Access::Write)?, alone(url, options, Access::Read)?);
        let line = match primary.line().await {
            // Looked at all the same, to say everything that is wrong with it.
            Err(trouble) if trouble.is_read_only() => any.line().await,
            line => line,
        };
        inspect::inspect(&line.map_err(opening)?).await.map_err(opening)
    }

    /// The statements that say what is due, what is to be loaded, and what a day is thinned by, for operators who look at how the
    /// server finds it.
    #[doc(hidden)]
    pub fn statements() -> [&'static str; 3] {
        [plan::DUE, load::DUE, thin::NEXT]
    }

    /// The statement that a list of one job's runs is read with.
    #[doc(hidden)]
    pub fn list_of_job() -> String {
        browse::runs_below(true, "true")
    }

    /// The told clock in milliseconds; none where the database's own decides.
    fn told_now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock().as_millis())
    }

    /// Tries a verb of the engine until it has an answer.
    async fn engine<'s, T: Send>(
        &'s self,
        attempt: impl for<'l> Fn(&'l Line<'s>) -> BoxFuture<'l, Result<T, Trouble>> + Send + Sync,
    ) -> Result<T, StoreError> {
        let mut tries = 0;
        loop {
            let line = self.engine.line().await.map_err(Trouble::told_undone)?;
            let answer = attempt(&line).await;
            if let Some(answer) = self.judge(line, answer, &mut tries).await {
                return answer;
            }
        }
    }

    /// Asks a person's question of the primary, and of the copy while the primary is away.
    async fn people<'s, T: Send>(
        &'s self,
        attempt: impl for<'l> Fn(&'l Line<'s>) -> BoxFuture<'l, Result<T, Trouble>> + Send + Sync,
    ) -> Result<T, StoreError> {
        if let Some(replica) = self.replica.as_ref().filter(|_| self.detour.is_next()) {
            return self.read_from(replica, &attempt).await.unwrap_or_else(|away| Err(away.told()));
        }
        match (self.read_from(&self.readers, &attempt).await, &self.replica) {
            (Ok(answer), _) => {
                self.detour.end();
                answer
            }
            (Err(trouble), Some(replica)) if trouble.is_away() => {
                self.detour.begin();
                self.read_from(replica, &attempt).await.unwrap_or_else(|away| Err(away.told()))
            }
            (Err(trouble), _) => Err(trouble.told()),
        }
    }

    /// Tries to read from one server. The outer error says that the server is away, or cannot be connected to.
    async fn read_from<'s, T: Send>(
        &'s self,
        pool: &'s Pool,
        attempt: &(impl for<'l> Fn(&'l Line<'s>) -> BoxFuture<'l, Result<T, Trouble>> + Send + Sync),
    ) -> Result<Result<T, StoreError>, Trouble> {
        let mut tries = 0;
        loop {
            let line = pool.line().await?;
            let answer = match attempt(&line).await {
                Err(trouble) if trouble.is_away() => return Err(trouble),
                answer => self.judge(line, answer, &mut tries).await,
            };
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    /// What follows from the outcome of a try: an answer, or another try.
    async fn judge<T>(
        &self,
        line: Line<'_>,
        answer: Result<T, Trouble>,
        tries: &mut u32,
    ) -> Option<Result<T, StoreError>> {
        let trouble = match answer {
            Ok(answer) => {
                line.give_back();
                return Some(Ok(answer));
            }
            Err(trouble) => trouble,
        };
        *tries += 1;
        if trouble.is_read_only() {
            // A new connection is refused, or leads to the server that takes writes by now.
            line.give_up();
            return (*tries > 1).then(|| Err(trouble.told_undone()));
        }
        // Without a session, the connection goes with the line, and what it began goes with the connection.
        let may_be_done = line.may_be_done();
        if !trouble.leaves_a_session() || line.run("rollback").await.is_err() {
            return Some(Err(if may_be_done { trouble.told() } else { trouble.told_undone() }));
        }
        if trouble.is_of_statements() {
            line.forget_statements();
        }
        let is_over = *tries >= TRIES || !trouble.is_worth_another_try();
        if let Trouble::Lacks(days) = &trouble {
            if let Err(trouble) = self.ensure_beside(&line, days).await {
                return Some(Err(trouble.told()));
            }
        } else if !is_over {
            self.days.forget();
        }
        line.give_back();
        is_over.then(|| Err(trouble.told()))
    }
}

/// A single connection, for what is done once.
fn alone(url: &str, options: &Options, access: Access) -> Result<Arc<Pool>, StoreError> {
    Ok(Address::of(url, options, access)?.pool(1, options.deadline, &Era::default()))
}

/// Trouble while opening, said to a person.
fn opening(trouble: Trouble) -> StoreError {
    match trouble {
        Trouble::Sql(error) => unreachable(&error),
        other => other.told(),
    }
}
