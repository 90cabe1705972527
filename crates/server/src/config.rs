//! The configuration: a file, then the environment, then flags; checked once, at the start.
//!
//! Every setting has one line in [`SETTINGS`]: its name, its valid values, and where the value goes.

mod shown;
mod size;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_api::{DEFAULT_TOKEN, Proxies};
use punctual_cli::environment::data_folder;
use punctual_core::policy::Classes;
use punctual_core::registry::Secret;
use punctual_protocol::{SettingOrigin, Span};
use toml::{Table, Value};

use crate::keep::Engine;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) node: Option<String>,
    pub(crate) advertise: Option<String>,
    pub(crate) is_insecure: bool,
    pub(crate) connections: usize,
    pub(crate) stop_within: Duration,
    pub(crate) proxies: Proxies,
    /// The same, as they were written.
    pub(crate) proxies_said: Vec<String>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) plan: Duration,
    pub(crate) look_every: Duration,
    pub(crate) load: Duration,
    pub(crate) load_max: usize,
    pub(crate) fast: u32,
    pub(crate) fast_queue: u32,
    pub(crate) slow: u32,
    pub(crate) slow_queue: u32,
    pub(crate) overflow: u32,
    /// The classes of work in their order, and the limits of some, as they were written.
    pub(crate) class_order: Vec<String>,
    pub(crate) class_limits: Vec<String>,
    pub(crate) classes: Classes,
    pub(crate) allow: Vec<String>,
    pub(crate) allows_public: bool,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) keep_runs: Duration,
    pub(crate) keep_keys: Duration,
    pub(crate) payload: usize,
    pub(crate) batch: usize,
    /// Connections without an authenticated caller, in all and of one address.
    pub(crate) strangers: usize,
    pub(crate) strangers_per_address: usize,
    /// Connections of one token.
    pub(crate) connections_per_token: usize,
    /// Connections that are kept for executors and other nodes.
    pub(crate) kept: usize,
    /// Streams of events, logs and lines, in all and of one token.
    pub(crate) streams: usize,
    pub(crate) streams_per_token: usize,
    /// Bytes of bodies in memory, in all and of one caller.
    pub(crate) buffered: usize,
    pub(crate) buffered_per_caller: usize,
    pub(crate) opens_metrics: bool,
    pub(crate) shards: u16,
    /// The address of a database server; it may hold a password.
    pub(crate) database: Option<Secret>,
    /// The database for reads while the main one is away.
    pub(crate) read_database: Option<Secret>,
    pub(crate) database_connections: usize,
    pub(crate) database_readers: usize,
    pub(crate) database_deadline: Duration,
    pub(crate) database_ca: Option<PathBuf>,
    pub(crate) prepared: bool,
    pub(crate) auto_migrate: bool,
    pub(crate) redis: Option<Secret>,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) admin_token: Option<String>,
    pub(crate) executor_token: Option<Secret>,
    pub(crate) trusts_loopback: bool,
    pub(crate) allows_default_token: bool,
    pub(crate) allows_scripts: bool,
    pub(crate) beat: Duration,
    pub(crate) dead: Duration,
    pub(crate) sweep: Duration,
    pub(crate) wait: Duration,
    /// The origin of every value that is not the default.
    origins: BTreeMap<(&'static str, &'static str), SettingOrigin>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Config {
    pub(crate) fn with_data(data: PathBuf) -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            data,
            node: None,
            advertise: None,
            is_insecure: false,
            connections: 10_000,
            stop_within: Duration::from_secs(10),
            proxies: Proxies::default(),
            proxies_said: Vec::new(),
            certificate: None,
            key: None,
            plan: Duration::from_secs(5),
            look_every: Duration::from_secs(1),
            load: Duration::from_secs(30),
            load_max: 10_000,
            fast: 200,
            fast_queue: 2_000,
            slow: 100,
            slow_queue: 5_000,
            overflow: 1_000,
            class_order: Classes::default().names().map(|name| name.clone().into_owned()).collect(),
            class_limits: Vec::new(),
            classes: Classes::default(),
            allow: Vec::new(),
            allows_public: true,
            authorities: None,
            keep_runs: Duration::from_secs(30 * 86_400),
            keep_keys: Duration::from_secs(86_400),
            payload: 1 << 20,
            batch: 64 << 20,
            strangers: 2_000,
            strangers_per_address: 500,
            connections_per_token: 2_000,
            kept: 1_000,
            streams: 1_000,
            streams_per_token: 100,
            buffered: 256 << 20,
            buffered_per_caller: 64 << 20,
            opens_metrics: false,
            shards: 64,
            database: None,
            read_database: None,
            database_connections: 6,
            database_readers: 4,
            database_deadline: Duration::from_secs(5),
            database_ca: None,
            prepared: true,
            auto_migrate: true,
            redis: None,
            log: "info".into(),
            log_format: LogFormat::Text,
            admin_token: None,
            executor_token: None,
            trusts_loopback: true,
            allows_default_token: false,
            allows_scripts: false,
            beat: Duration::from_secs(30),
            dead: Duration::from_secs(90),
            sweep: Duration::from_secs(30),
            wait: Duration::from_secs(60),
            origins: BTreeMap::new(),
        }
    }
}

impl Config {
    /// How many HTTP calls the node makes at the same time at most.
    pub(crate) fn calls_max(&self) -> usize {
        [self.fast, self.slow, self.overflow].iter().map(|places| *places as usize).sum()
    }

    /// Notes where a value comes from.
    fn comes_from(&mut self, section: &str, key: &str, origin: SettingOrigin) {
        let known = SETTINGS.iter().find(|(of, name, _)| *of == section && *name == key);
        if let Some((section, key, _)) = known {
            self.origins.insert((*section, *key), origin);
        }
    }
}

/// Stores a value in the configuration. Its refusal does not repeat the name of the setting.
type Set = fn(&mut Config, &Value) -> Result<(), String>;

/// All settings: section, key, and where the value goes.
#[rustfmt::skip]
const SETTINGS: &[(&str, &str, Set)] = &[
    ("server", "listen", |c, v| { c.listen = address(v)?; Ok(()) }),
    ("server", "data", |c, v| { c.data = PathBuf::from(text(v)?); Ok(()) }),
    ("server", "node", |c, v| { c.node = Some(text(v)?); Ok(()) }),
    ("server", "advertise", |c, v| { c.advertise = Some(text(v)?); Ok(()) }),
    ("server", "insecure", |c, v| { c.is_insecure = flag(v)?; Ok(()) }),
    ("server", "connections", |c, v| { c.connections = number(v, 1, 1_000_000)? as usize; Ok(()) }),
    ("server", "stop_within", |c, v| { c.stop_within = span(v)?; Ok(()) }),
    ("server", "trusted_proxies", |c, v| { c.proxies_said = texts(v)?; c.proxies = Proxies::parse(&c.proxies_said)?; Ok(()) }),
    ("tls", "certificate", |c, v| { c.certificate = Some(PathBuf::from(text(v)?)); Ok(()) }),
    ("tls", "key", |c, v| { c.key = Some(PathBuf::from(text(v)?)); Ok(()) }),
    ("horizon", "plan", |c, v| { c.plan = span(v)?; Ok(()) }),
    ("horizon", "look_every", |c, v| { c.look_every = span(v)?; Ok(()) }),
    ("horizon", "load", |c, v| { c.load = span(v)?; Ok(()) }),
    ("horizon", "load_max", |c, v| { c.load_max = number(v, 1, 1_000_000)? as usize; Ok(()) }),
    ("pool", "fast", |c, v| { c.fast = number(v, 1, 100_000)? as u32; Ok(()) }),
    ("pool", "fast_queue", |c, v| { c.fast_queue = number(v, 1, 10_000_000)? as u32; Ok(()) }),
    ("pool", "slow", |c, v| { c.slow = number(v, 1, 100_000)? as u32; Ok(()) }),
    ("pool", "slow_queue", |c, v| { c.slow_queue = number(v, 1, 10_000_000)? as u32; Ok(()) }),
    ("pool", "overflow", |c, v| { c.overflow = number(v, 0, 100_000)? as u32; Ok(()) }),
    ("classes", "order", |c, v| { c.class_order = texts(v)?; Ok(()) }),
    ("classes", "limits", |c, v| { c.class_limits = texts(v)?; Ok(()) }),
    ("targets", "allow", |c, v| { c.allow = texts(v)?; Ok(()) }),
    ("targets", "public", |c, v| { c.allows_public = flag(v)?; Ok(()) }),
    ("targets", "authorities", |c, v| { c.authorities = Some(PathBuf::from(text(v)?)); Ok(()) }),
    ("executors", "access_token", |c, v| { c.executor_token = Some(secret(v)?); Ok(()) }),
    ("executors", "trust_loopback", |c, v| { c.trusts_loopback = flag(v)?; Ok(()) }),
    ("executors", "allow_default_token", |c, v| { c.allows_default_token = flag(v)?; Ok(()) }),
    ("executors", "scripts", |c, v| { c.allows_scripts = flag(v)?; Ok(()) }),
    ("registry", "beat", |c, v| { c.beat = span(v)?; Ok(()) }),
    ("registry", "dead", |c, v| { c.dead = span(v)?; Ok(()) }),
    ("registry", "sweep", |c, v| { c.sweep = span(v)?; Ok(()) }),
    ("registry", "wait", |c, v| { c.wait = span(v)?; Ok(()) }),
    ("retention", "runs", |c, v| { c.keep_runs = span(v)?; Ok(()) }),
    ("retention", "keys", |c, v| { c.keep_keys = span(v)?; Ok(()) }),
    ("limits", "payload", |c, v| { c.payload = size::parse(v, 1, 1 << 20)?; Ok(()) }),
    ("limits", "batch", |c, v| { c.batch = size::parse(v, 1 << 20, 1 << 30)?; Ok(()) }),
    ("limits", "strangers", |c, v| { c.strangers = number(v, 1, 1_000_000)? as usize; Ok(()) }),
    ("limits", "strangers_per_address", |c, v| { c.strangers_per_address = number(v, 1, 1_000_000)? as usize; Ok(()) }),
    ("limits", "connections_per_token", |c, v| { c.connections_per_token = number(v, 1, 1_000_000)? as usize; Ok(()) }),
    ("limits", "kept", |c, v| { c.kept = number(v, 0, 1_000_000)? as usize; Ok(()) }),
    ("limits", "streams", |c, v| { c.streams = number(v, 1, 1_000_000)? as usize; Ok(()) }),
    ("limits", "streams_per_token", |c, v| { c.streams_per_token = number(v, 1, 1_000_000)? as usize; Ok(()) }),
    ("limits", "buffered", |c, v| { c.buffered = size::parse(v, 1 << 20, 1 << 36)?; Ok(()) }),
    ("limits", "buffered_per_caller", |c, v| { c.buffered_per_caller = size::parse(v, 1 << 20, 1 << 36)?; Ok(()) }),
    ("metrics", "open", |c, v| { c.opens_metrics = flag(v)?; Ok(()) }),
    ("store", "shards", |c, v| { c.shards = number(v, 1, 4_096)? as u16; Ok(()) }),
    ("database", "url", |c, v| { c.database = Some(database(v)?); Ok(()) }),
    ("database", "read_url", |c, v| { c.read_database = Some(database(v)?); Ok(()) }),
    ("database", "connections", |c, v| { c.database_connections = number(v, 2, 64)? as usize; Ok(()) }),
    ("database", "readers", |c, v| { c.database_readers = number(v, 1, 64)? as usize; Ok(()) }),
    ("database", "deadline", |c, v| { c.database_deadline = span(v)?; Ok(()) }),
    ("database", "ca", |c, v| { c.database_ca = Some(PathBuf::from(text(v)?)); Ok(()) }),
    ("database", "prepared", |c, v| { c.prepared = flag(v)?; Ok(()) }),
    ("database", "auto_migrate", |c, v| { c.auto_migrate = flag(v)?; Ok(()) }),
    ("redis", "url", |c, v| { c.redis = Some(redis(v)?); Ok(()) }),
    ("log", "level", |c, v| { c.log = text(v)?; Ok(()) }),
    ("log", "format", |c, v| { c.log_format = format(v)?; Ok(()) }),
];

/// How long the token of the first admin may be, and how long others should be.
const TOKEN_MIN: usize = 16;
const TOKEN_MAX: usize = 256;

/// Our environment variables that name no setting of the file.
const VARIABLES: &[&str] = &[
    "PUNCTUAL_ADMIN_TOKEN",
    "PUNCTUAL_CA",
    "PUNCTUAL_CONFIG",
    "PUNCTUAL_DATA",
    "PUNCTUAL_EXECUTOR_TOKEN",
    "PUNCTUAL_LOG",
    "PUNCTUAL_TOKEN",
    "PUNCTUAL_UI_DIST",
    "PUNCTUAL_URL",
];

/// An invalid configuration: where the value was set, and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The flags of the command line, as settings.
pub(crate) type Flags = Vec<(&'static str, &'static str, Value)>;

/// A configuration, and the warnings about it.
pub(crate) struct Read {
    pub(crate) config: Config,
    pub(crate) warnings: Vec<String>,
}

/// Reads the file if there is one, then the environment, then the flags, and checks the whole.
pub(crate) fn read(
    file: Option<&Path>,
    variables: &BTreeMap<String, String>,
    flags: &Flags,
) -> Result<Read, ConfigError> {
    let mut config = Config::with_data(data_folder(variables));
    if variables.contains_key("PUNCTUAL_DATA") {
        config.comes_from("server", "data", SettingOrigin::Environment);
    }
    if let Some(path) = file {
        read_file(&mut config, path)?;
    }
    let mut warnings = read_environment(&mut config, variables)?;
    for (section, key, value) in flags {
        let set = setting(section, key).expect("a flag names a setting");
        set(&mut config, value)
            .map_err(|reason| ConfigError(format!("--{}: {reason}", flag_of(section, key))))?;
        config.comes_from(section, key, SettingOrigin::Flag);
    }
    config.classes = classes(&config).map_err(ConfigError)?;
    check(&config)?;
    // Users of XXL-JOB bring the token that their executors have, so a short one is not refused.
    if config.executor_token.as_ref().is_some_and(|token| token.expose().len() < TOKEN_MIN) {
        warnings.push(format!(
            "executors.access_token has fewer than {TOKEN_MIN} characters and can be guessed: take a longer one"
        ));
    }
    Ok(Read { config, warnings })
}

/// The classes of work, after order and limits are known.
fn classes(config: &Config) -> Result<Classes, String> {
    let names = config.class_order.iter().map(|name| name.clone().into()).collect();
    let mut classes = Classes::new(names).map_err(|reason| format!("classes.order: {reason}"))?;
    for limit in &config.class_limits {
        let (class, runs) = limit.split_once('=').unwrap_or((limit, ""));
        let runs: u32 = runs.trim().parse().ok().filter(|runs| *runs > 0).ok_or_else(|| {
            format!("classes.limits: {limit:?}: expected a class and a number of runs, such as \"query=20\"")
        })?;
        if !classes.limit(class.trim(), runs) {
            return Err(format!("classes.limits: {:?} is not in classes.order", class.trim()));
        }
    }
    Ok(classes)
}

/// The name of a setting's flag: its key, or its section for the two settings that are called `url`.
fn flag_of<'a>(section: &'a str, key: &'a str) -> &'a str {
    if key == "url" { section } else { key }
}

fn read_file(config: &mut Config, path: &Path) -> Result<(), ConfigError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError(format!("cannot read the configuration {shown}: {error}")))?;
    let table: Table = text.parse().map_err(|error| ConfigError(format!("{shown}: {error}")))?;
    for (section, values) in &table {
        let known: Vec<&str> = SETTINGS.iter().map(|(section, _, _)| *section).collect();
        if !known.contains(&section.as_str()) {
            return Err(ConfigError(format!("{shown}: no section [{section}]{}", near(section, &known))));
        }
        let Value::Table(values) = values else {
            return Err(ConfigError(format!("{shown}: {section} is a section: write [{section}]")));
        };
        for (key, value) in values {
            let Some(set) = setting(section, key) else {
                let of = |(of, key, _): &(&str, &'static str, Set)| (*of == section.as_str()).then_some(*key);
                let known: Vec<&str> = SETTINGS.iter().filter_map(of).collect();
                return Err(ConfigError(format!("{shown}: no key {section}.{key}{}", near(key, &known))));
            };
            set(config, value)
                .map_err(|reason| ConfigError(format!("{shown}: {section}.{key}: {reason}")))?;
            config.comes_from(section, key, SettingOrigin::File);
        }
    }
    Ok(())
}

/// `PUNCTUAL_SECTION__KEY`, and the few variables with a name of their own.
fn read_environment(
    config: &mut Config,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<String>, ConfigError> {
    let mut warnings = Vec::new();
    for (name, said) in variables.iter().filter(|(name, _)| name.starts_with("PUNCTUAL_")) {
        let lower = name["PUNCTUAL_".len()..].to_ascii_lowercase();
        match lower.split_once("__").map(|(section, key)| (section, key, setting(section, key))) {
            Some((section, key, Some(set))) => {
                set(config, &Value::String(said.clone()))
                    .map_err(|reason| ConfigError(format!("{name}: {reason}")))?;
                config.comes_from(section, key, SettingOrigin::Environment);
            }
            Some((_, _, None)) => warnings.push(format!("{name} names no setting and is ignored")),
            None if VARIABLES.contains(&name.as_str()) => {}
            None => warnings.push(format!("{name} is unknown and is ignored{}", near(name, VARIABLES))),
        }
    }
    // Files and mounted secrets add blanks around a token, and a client cannot send those.
    let token = |name: &str| variables.get(name).map(|said| said.trim()).filter(|said| !said.is_empty());
    config.admin_token = token("PUNCTUAL_ADMIN_TOKEN").map(admin_token).transpose()?;
    if let Some(token) = token("PUNCTUAL_EXECUTOR_TOKEN") {
        let token = secret(&Value::String(token.to_owned()));
        config.executor_token =
            Some(token.map_err(|reason| ConfigError(format!("PUNCTUAL_EXECUTOR_TOKEN: {reason}")))?);
        config.comes_from("executors", "access_token", SettingOrigin::Environment);
    }
    if let Some(log) = variables.get("PUNCTUAL_LOG") {
        config.log.clone_from(log);
        config.comes_from("log", "level", SettingOrigin::Environment);
    }
    Ok(warnings)
}

fn check(config: &Config) -> Result<(), ConfigError> {
    let error = |said: String| Err(ConfigError(said));
    if config.load <= config.look_every {
        return error(format!(
            "horizon.load is {} and horizon.look_every is {}: what is loaded must reach beyond the next look; make load larger",
            Span(config.load),
            Span(config.look_every),
        ));
    }
    if config.look_every < Duration::from_millis(10) || config.plan < config.look_every {
        return error(format!(
            "horizon.look_every is {} and horizon.plan is {}: a look comes every 10ms or slower, and plans at least one look ahead",
            Span(config.look_every),
            Span(config.plan),
        ));
    }
    if config.certificate.is_some() != config.key.is_some() {
        return error("tls.certificate and tls.key go together".into());
    }
    let is_public = !config.listen.ip().is_loopback();
    if is_public && config.certificate.is_none() && !config.is_insecure {
        return error(format!(
            "{} can be reached from outside, and tokens would travel in the clear: set tls.certificate and tls.key, or say --insecure \
             (for instance behind a proxy that ends TLS)",
            config.listen
        ));
    }
    if config.keep_runs < Duration::from_secs(3_600) {
        return error(format!("retention.runs is {}: at least 1h", Span(config.keep_runs)));
    }
    if config.buffered_per_caller < config.batch || config.buffered < config.buffered_per_caller {
        return error(format!(
            "limits.batch is {}, limits.buffered_per_caller {} and limits.buffered {}: none may be larger than the next, or a \
             batch that is allowed has no room",
            config.batch, config.buffered_per_caller, config.buffered
        ));
    }
    if config.redis.is_some() && config.database.is_none() {
        return error("--redis is for nodes that share a database: name it with --database".into());
    }
    check_executors(config).map_err(ConfigError)
}

fn check_executors(config: &Config) -> Result<(), String> {
    let Config { beat, dead, sweep, wait, .. } = config;
    if dead <= beat {
        return Err(format!(
            "registry.dead is {} and registry.beat is {}: an executor may miss a beat before it counts as dead; make dead larger",
            Span(*dead),
            Span(*beat),
        ));
    }
    let second = Duration::from_secs(1);
    for (name, span) in [("beat", beat), ("sweep", sweep), ("wait", wait)] {
        if *span < second {
            return Err(format!("registry.{name} is {}: at least 1s", Span(*span)));
        }
    }
    let is_known = config.executor_token.as_ref().is_some_and(|token| token.matches(DEFAULT_TOKEN));
    if is_known && !config.allows_default_token {
        return Err(format!(
            "executors.access_token is `{DEFAULT_TOKEN}`, which XXL-JOB ships with and everybody knows: take another, or set \
             executors.allow_default_token = true while you move"
        ));
    }
    Ok(())
}

fn setting(section: &str, key: &str) -> Option<Set> {
    SETTINGS.iter().find(|(of, name, _)| *of == section && *name == key).map(|(_, _, set)| *set)
}

fn near(name: &str, known: &[&str]) -> String {
    let closeness = |known: &&&str| (strsim::jaro_winkler(name, known) * 1_000.0) as u32;
    match known.iter().max_by_key(closeness).filter(|best| closeness(best) > 750) {
        Some(best) => format!("; did you mean {best}?"),
        None => format!(
            "; there are {}",
            known
                .iter()
                .copied()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

// --- values; those from the environment are always text ---

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(format!("{value} is no text; write \"…\"")),
    }
}

/// The address of a database. Error messages do not repeat it: it may hold a password.
fn database(value: &Value) -> Result<Secret, String> {
    let url = value.as_str().unwrap_or_default();
    Engine::of(url).map(|_| Secret::new(url))
}

/// The address of a Redis server; error messages do not repeat it either.
fn redis(value: &Value) -> Result<Secret, String> {
    let url = value.as_str().unwrap_or_default();
    match url.starts_with("redis://") || url.starts_with("rediss://") {
        true => Ok(Secret::new(url)),
        false => Err("expected redis://host:6379 or rediss://host:6379".into()),
    }
}

/// The token of the first admin. It opens everything, so it must not be easy to guess.
fn admin_token(token: &str) -> Result<String, ConfigError> {
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    match is_plain && (TOKEN_MIN..=TOKEN_MAX).contains(&token.len()) {
        true => Ok(token.to_owned()),
        false => Err(ConfigError(format!(
            "PUNCTUAL_ADMIN_TOKEN: expected {TOKEN_MIN} to {TOKEN_MAX} visible ASCII characters without blanks, because it grants \
             every permission and must be hard to guess: use the output of `openssl rand -hex 32`, or leave it out and the server \
             draws one"
        ))),
    }
}

/// A secret for a header; error messages do not repeat it.
fn secret(value: &Value) -> Result<Secret, String> {
    let text = value.as_str().unwrap_or_default();
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text;
    match is_plain && (1..=256).contains(&text.len()) {
        true => Ok(Secret::new(text)),
        false => Err("expected 1 to 256 visible ASCII characters, without blanks around them".into()),
    }
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        Value::String(list) => {
            Ok(list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect())
        }
        _ => Err(format!("{value} is no list of texts")),
    }
}

fn span(value: &Value) -> Result<Duration, String> {
    let span: Span = text(value)?.parse().map_err(|error: punctual_protocol::SpanError| error.to_string())?;
    Ok(span.0)
}

fn flag(value: &Value) -> Result<bool, String> {
    match value {
        Value::Boolean(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(format!("{value} is neither true nor false")),
    }
}

fn number(value: &Value, least: i64, most: i64) -> Result<i64, String> {
    let number = match value {
        Value::Integer(number) => Some(*number),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{value} is no number from {least} to {most}"))
}

fn address(value: &Value) -> Result<SocketAddr, String> {
    let said = text(value)?;
    let said = said.replacen("localhost:", "127.0.0.1:", 1);
    said.parse().map_err(|_| format!("`{said}` is no address; write it like 127.0.0.1:7070 or [::1]:7070"))
}

fn format(value: &Value) -> Result<LogFormat, String> {
    match text(value)?.as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("`{other}` is no format of logs; there are text and json")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn refusal(pairs: &[(&str, &str)], flags: Flags, said: &str) {
        let error = read(None, &environment(pairs), &flags).map(|_| ()).unwrap_err();
        assert!(error.0.contains(said), "{error}");
    }

    #[test]
    fn flags_stand_over_the_environment() {
        let variables = environment(&[("PUNCTUAL_SERVER__LISTEN", "127.0.0.1:1"), ("HOME", "/users/a")]);
        let read = |flags| read(None, &variables, &flags).unwrap().config;
        assert_eq!(read(vec![]).listen.port(), 1);
        assert_eq!(read(vec![("server", "listen", Value::String("[::1]:2".into()))]).listen.port(), 2);
        assert_eq!(read(vec![]).data, PathBuf::from("/users/a/.local/share/punctual"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_way_out() {
        refusal(&[("PUNCTUAL_HORIZON__LOAD", "1s")], vec![], "make load larger");
        refusal(&[("PUNCTUAL_HORIZON__LOAD", "1")], vec![], "a unit is missing");
        refusal(&[("PUNCTUAL_SERVER__LISTEN", "0.0.0.0:7070")], vec![], "--insecure");
        refusal(&[("PUNCTUAL_SERVER__LISTEN", "7070")], vec![], "127.0.0.1:7070");
        refusal(&[("PUNCTUAL_TLS__KEY", "/k")], vec![], "go together");
        refusal(&[("PUNCTUAL_SERVER__TRUSTED_PROXIES", "proxy.example")], vec![], "is no network");
        refusal(&[("PUNCTUAL_LIMITS__PAYLOAD", "2GiB")], vec![], "at most");
        refusal(&[("PUNCTUAL_LIMITS__BATCH", "65MiB")], vec![], "limits.buffered_per_caller");
        refusal(&[("PUNCTUAL_LIMITS__BUFFERED", "63MiB")], vec![], "none may be larger than the next");
        refusal(&[("PUNCTUAL_LIMITS__STREAMS", "0")], vec![], "no number from 1");
        refusal(&[("PUNCTUAL_REGISTRY__DEAD", "30s")], vec![], "make dead larger");
        refusal(&[("PUNCTUAL_REGISTRY__WAIT", "10ms")], vec![], "at least 1s");
        refusal(&[("PUNCTUAL_EXECUTOR_TOKEN", "default_token")], vec![], "allow_default_token");
        refusal(&[("PUNCTUAL_EXECUTORS__ACCESS_TOKEN", "a\nb")], vec![], "visible ASCII");
        for token in ["fifteen-letters", "sixteen letters and blanks", "sixteen-lettérs-é", &"x".repeat(257)]
        {
            refusal(&[("PUNCTUAL_ADMIN_TOKEN", token)], vec![], "PUNCTUAL_ADMIN_TOKEN: expected 16 to 256");
        }
        let text = |text: &str| Value::String(text.into());
        refusal(&[], vec![("log", "format", text("xml"))], "text and json");
    }

    #[test]
    fn the_token_of_executors_has_two_names_and_shows_itself_nowhere() {
        for name in ["PUNCTUAL_EXECUTOR_TOKEN", "PUNCTUAL_EXECUTORS__ACCESS_TOKEN"] {
            let config = read(None, &environment(&[(name, "s3cret")]), &vec![]).unwrap().config;
            assert!(config.executor_token.as_ref().is_some_and(|token| token.matches("s3cret")), "{name}");
            assert!(!format!("{config:?}").contains("s3cret"));
        }
        let known = [
            ("PUNCTUAL_EXECUTOR_TOKEN", "default_token"),
            ("PUNCTUAL_EXECUTORS__ALLOW_DEFAULT_TOKEN", "true"),
        ];
        assert!(read(None, &environment(&known), &vec![]).is_ok());
        assert!(
            read(None, &environment(&[("PUNCTUAL_EXECUTOR_TOKEN", "")]), &vec![])
                .unwrap()
                .config
                .executor_token
                .is_none()
        );
    }

    #[test]
    fn blanks_around_a_token_are_not_part_of_it() {
        let (admin, executors) = ("an-admin-of-sixteen", "all-executors-of-ours");
        let variables = environment(&[
            ("PUNCTUAL_ADMIN_TOKEN", "\tan-admin-of-sixteen\n"),
            ("PUNCTUAL_EXECUTOR_TOKEN", "all-executors-of-ours\r\n"),
        ]);
        let Read { config, warnings } = read(None, &variables, &vec![]).unwrap();
        assert_eq!((config.admin_token.as_deref(), warnings.len()), (Some(admin), 0));
        assert!(config.executor_token.is_some_and(|token| token.matches(executors)));
        let blank = environment(&[("PUNCTUAL_ADMIN_TOKEN", " \n")]);
        assert_eq!(read(None, &blank, &vec![]).unwrap().config.admin_token, None);
    }

    #[test]
    fn a_token_of_executors_that_can_be_guessed_is_told() {
        let variables = environment(&[("PUNCTUAL_EXECUTOR_TOKEN", "s3cret")]);
        let warnings = read(None, &variables, &vec![]).unwrap().warnings;
        assert!(warnings.len() == 1 && warnings[0].contains("fewer than 16"), "{warnings:?}");
    }

    #[test]
    fn unknown_variables_are_only_told() {
        let variables = environment(&[("PUNCTUAL_HORIZON__PLAM", "1s"), ("PUNCTUAL_TOKENN", "x")]);
        let warnings = read(None, &variables, &vec![]).unwrap().warnings;
        assert!(
            warnings[0].contains("HORIZON__PLAM") && warnings[1].contains("did you mean PUNCTUAL_TOKEN?")
        );
    }

    #[test]
    fn unknown_keys_of_a_file_are_errors_with_a_suggestion() {
        let folder = std::env::temp_dir().join(format!("punctual-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("punctual.toml");
        for (text, said) in [
            ("[server]\nlisen = \"127.0.0.1:1\"", "did you mean listen?"),
            ("[sever]\nlisten = \"127.0.0.1:1\"", "did you mean server?"),
            ("server = 1", "is a section"),
            ("[server]\nlisten = 7", "server.listen: 7 is no text"),
            ("[server", "TOML parse error"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(Some(&path), &BTreeMap::new(), &vec![]).map(|_| ()).unwrap_err();
            assert!(error.0.contains(said), "{error}");
        }
        std::fs::write(&path, "[targets]\nallow = [\"10.0.0.0/8\"]\n[limits]\npayload = \"64KiB\"").unwrap();
        let config = read(Some(&path), &BTreeMap::new(), &vec![]).unwrap().config;
        assert_eq!((config.allow.as_slice(), config.payload), (["10.0.0.0/8".to_owned()].as_slice(), 65_536));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
