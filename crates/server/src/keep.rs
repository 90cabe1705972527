//! Opens the store that the configuration names, and provides it as the ports that the other crates use.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use punctual_core::model::ShardId;
use punctual_node::ports::{Apps, Browse, Digest, Door, Entropy, Logs, Store};
use punctual_store::mysql::MySql;
use punctual_store::postgres::Postgres;
use punctual_store::redis::Redis;
use punctual_store::sqlite::Limits;
use punctual_store::{Options, Sqlite, StoreClock, sqlite};

use crate::clock::{self, Machine};
use crate::config::Config;
use crate::private;

/// A store, as each of the ports that it implements.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) apps: Arc<dyn Apps>,
    pub(crate) browse: Arc<dyn Browse>,
    pub(crate) door: Arc<dyn Door>,
    pub(crate) logs: Arc<dyn Logs>,
    /// Whether other nodes may use it too.
    pub(crate) is_shared: bool,
    /// Redis, if nodes coordinate through it beside the store.
    pub(crate) redis: Option<Arc<Redis>>,
    /// The database, if it can be listened to.
    pub(crate) listened: Option<Arc<Postgres>>,
    /// The embedded store, whose threads have to be watched.
    pub(crate) embedded: Option<Arc<Sqlite>>,
}

impl Kept {
    fn of<S: Store + Apps + Browse + Door + Logs + 'static>(store: Arc<S>, is_shared: bool) -> Kept {
        Kept {
            store: Arc::clone(&store) as _,
            apps: Arc::clone(&store) as _,
            browse: Arc::clone(&store) as _,
            door: Arc::clone(&store) as _,
            logs: store,
            is_shared,
            redis: None,
            listened: None,
            embedded: None,
        }
    }

    /// The same store, with Redis in front of the engine's port.
    fn beside(self, redis: Arc<Redis>) -> Kept {
        Kept { store: redis.beside(self.store), redis: Some(redis), ..self }
    }
}

/// The kind of a database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    MySql,
}

impl Engine {
    /// The kind of database that an address names.
    pub(crate) fn of(url: &str) -> Result<Engine, String> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme.to_ascii_lowercase().as_str() {
            "postgres" | "postgresql" => Ok(Engine::Postgres),
            "mysql" | "mariadb" => Ok(Engine::MySql),
            _ => Err("expected postgres://user@host/database or mysql://user@host/database".into()),
        }
    }
}

/// Opens what the configuration names: a database server, or the file in the data folder.
pub(crate) async fn open(config: &Config) -> Result<Kept, String> {
    make_folder(config)?;
    let Some(url) = config.database.as_ref().map(|url| url.expose().to_owned()) else {
        return embedded(config);
    };
    let said = |error| format!("cannot use the database: {error}");
    let kept = match Engine::of(&url)? {
        Engine::Postgres => {
            let store = Arc::new(Postgres::open(&url, options(config)).await.map_err(said)?);
            // Behind a pooler, a session cannot be assigned to a client, so the database cannot be listened to.
            let listened = config.prepared.then(|| Arc::clone(&store));
            Kept { listened, ..Kept::of(store, true) }
        }
        Engine::MySql => Kept::of(Arc::new(MySql::open(&url, options(config)).await.map_err(said)?), true),
    };
    let Some(url) = &config.redis else { return Ok(kept) };
    let cluster = cluster_id(&*kept.door).await?;
    let redis = Redis::new(url.expose(), &cluster, Box::new(overruled));
    let redis = redis.map_err(|error| format!("cannot use Redis: {error}"))?;
    if let Err(error) = redis.ping().await {
        tracing::warn!(%error, "nodes coordinate through the database alone until it does");
    }
    Ok(kept.beside(redis))
}

/// Tells this cluster from others on the same Redis: a digest of the secret that its nodes share, which does not
/// reveal it.
async fn cluster_id(door: &dyn Door) -> Result<String, String> {
    let secret = door.peer_secret(drawn_secret()).await;
    let secret = secret.map_err(|error| format!("cannot read the cluster's id: {error}"))?;
    let mut sum = Context::new(&SHA256);
    sum.update(b"punctual cluster id");
    sum.update(&secret);
    Ok(sum.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A random secret, used if this is the first node of the cluster.
pub(crate) fn drawn_secret() -> Digest {
    let drawn: Vec<u8> = (0..4).flat_map(|_| Machine.bits().to_le_bytes()).collect();
    Digest::try_from(drawn).expect("four times eight bytes")
}

fn overruled(shards: &[ShardId]) {
    tracing::warn!(
        shards = shards.len(),
        first = %shards[0],
        "Redis has refused shards for a lease term that have no holder in the database; the database decides. Look for keys punctual:*:lease:* without an expiry, or another cluster made from a copy of this database"
    );
}

/// Creates the data folder. With a database server it holds only the first token.
fn make_folder(config: &Config) -> Result<(), String> {
    let shown = config.data.display();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data).map_err(|error| {
        format!("cannot make the data folder {shown}: {error}; choose another with --data")
    })?;
    for warning in private::tighten(&config.data) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

fn embedded(config: &Config) -> Result<Kept, String> {
    let clock: StoreClock = Arc::new(clock::now);
    let options = sqlite::Options {
        shards: config.shards,
        key_ttl: config.keep_keys,
        clock,
        ends_leases: true,
        limits: Limits::default(),
    };
    let store = Sqlite::open(&config.data.join("punctual.db"), options)
        .map_err(|error| format!("cannot open the data folder {}: {error}", config.data.display()))?;
    let store = Arc::new(store);
    Ok(Kept { embedded: Some(Arc::clone(&store)), ..Kept::of(store, false) })
}

/// The options with which a store in a database server is opened, checked or migrated.
pub(crate) fn options(config: &Config) -> Options {
    Options {
        shards: config.shards,
        key_ttl: config.keep_keys,
        clock: None,
        auto_migrate: config.auto_migrate,
        deadline: config.database_deadline,
        read_url: config.read_database.as_ref().map(|url| url.expose().to_owned()),
        connections: config.database_connections,
        readers: config.database_readers,
        prepared: config.prepared,
        ca_file: config.database_ca.as_ref().map(|path| path.display().to_string()),
        application: match &config.node {
            Some(name) => format!("punctual {name}"),
            None => "punctual".into(),
        },
    }
}
