//! Serving: opens the store, starts the node and its listener, and ends them in order.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use calendar::{Timestamp, Zones};
use punctual_core::event::Event;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::chores;
use crate::config::Config;
use crate::first::{self, First};
use crate::keep::{self, Kept};
use crate::listen::{self, Listener, PlaceLimits, Places};
use crate::logs::LineBudget;
use crate::loops::Rounds;
use crate::private;
use crate::wiring::{self, Assembly, NodeIdentity};

/// How long requests and connections may take to end, after the runs.
const DOOR_CLOSES_WITHIN: Duration = Duration::from_secs(2);

/// How long executors may take to read that the node stops.
const GOODBYE_WITHIN: Duration = Duration::from_secs(2);

/// How long giving back the shards may take.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);

/// How often old answers are forgotten.
const FORGETS_EVERY: Duration = Duration::from_secs(600);

/// How long an answer to a repeated request is kept.
const ANSWERS_KEPT: Duration = Duration::from_secs(86_400);

/// Files that are used neither by connections of clients nor by calls to agents, but by calls to executors, the
/// database and the data folder.
const FILES_KEPT: usize = 1_024;

const PANICKED: &str =
    "a step of the node panicked, so this process stops; the log says where. Start it again";

const DOOR_PANICKED: &str = "the listener, or what writes logs and forgets answers, panicked, so this process stops; the log says \
                             where. Start it again";

/// Serves until a signal stops it, or something fails for good.
pub(crate) fn run(config: Config, lines: LineBudget) -> Result<(), String> {
    run_after(config, lines, Vec::new())
}

/// The same, with events that have happened already.
pub(crate) fn run_after(
    config: Config,
    lines: LineBudget,
    past: Vec<(Timestamp, Vec<Event>)>,
) -> Result<(), String> {
    private::begin();
    let files = raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("punctual")
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    let served = runtime.block_on(serve(&config, lines, past, files));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

async fn serve(
    config: &Config,
    lines: LineBudget,
    past: Vec<(Timestamp, Vec<Event>)>,
    files: Option<u64>,
) -> Result<(), String> {
    let tls = match (&config.certificate, &config.key) {
        (Some(certificate), Some(key)) => Some(listen::load_tls(certificate, key)?),
        _ => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = Listener::bind(config.listen, tls)?;
    let address = listener.address().map_err(|error| error.to_string())?;
    let kept = keep::open(config).await?;
    let first = first::ensure(&*kept.door, config).await?;
    let url = format!("{scheme}://{address}");
    let identity = identity(config, &kept, address, &url).await?;
    let places = Places::new(limits(config, files));
    let assembly = wiring::build(config, &kept, &identity, &places)?;
    for (at, happened) in past {
        assembly.events.push(&happened, at);
    }
    greet(&url, config, &first);
    let served = live(config, lines, (listener, places), assembly, broken(&kept)).await;
    if served.is_ok() {
        tracing::info!("stopped");
    }
    served
}

/// Runs the node from the first step to the last.
async fn live(
    config: &Config,
    lines: LineBudget,
    (listener, places): (Listener, Arc<Places>),
    assembly: Assembly,
    broken: impl Future<Output = String>,
) -> Result<(), String> {
    let Assembly { node, rounds, site, switch, door, events, archive, logs, logbook, browse } = assembly;
    let (stop, stopped) = watch::channel(false);
    let (end, ended) = watch::channel(false);
    let (mut beginning, mut steps) = (JoinSet::new(), JoinSet::new());
    rounds.start(&mut beginning, &mut steps, &stopped, &ended);
    let mut doors = JoinSet::new();
    doors.spawn(listener.serve(site, places, ended.clone(), DOOR_CLOSES_WITHIN));
    doors.spawn(chores::watch_clock(node, ended.clone()));
    doors.spawn(chores::tell_left_out(lines, ended.clone()));
    doors.spawn(chores::finish_pauses(Arc::clone(&rounds), browse, ended.clone()));
    doors.spawn(chores::forget_answers(door, FORGETS_EVERY, ANSWERS_KEPT, ended.clone()));
    doors.spawn(archive.write(logs, logbook, Arc::clone(&switch.natives), ended.clone()));
    let broken = wait_for_end([&mut beginning, &mut steps], &mut doors, broken).await?;
    tracing::info!("stopping: no new work is begun");
    stop.send_replace(true);
    rounds.nudge();
    // First this node begins nothing more, and only then do other nodes take over: no run can begin on both.
    while beginning.join_next().await.is_some() {}
    rounds.leave(LEAVES_WITHIN).await;
    // Attempts that are on their way may end, and their reports are kept, for at most the configured time.
    let left = switch.drain(config.stop_within).await;
    if left > 0 {
        tracing::warn!(left, "some calls are still on their way and are given up; the next start finds them");
    }
    switch.natives.close(GOODBYE_WITHIN).await;
    events.close();
    close(&rounds, &end, steps, doors).await;
    broken.map_or(Ok(()), Err)
}

async fn close(
    rounds: &Arc<Rounds>,
    end: &watch::Sender<bool>,
    mut steps: JoinSet<()>,
    mut doors: JoinSet<()>,
) {
    end.send_replace(true);
    rounds.nudge();
    while steps.join_next().await.is_some() {}
    rounds.finish(LEAVES_WITHIN).await;
    while doors.join_next().await.is_some() {}
}

/// Resolves with a message when a thread of the embedded store has panicked.
fn broken(kept: &Kept) -> impl Future<Output = String> + use<> {
    let embedded = kept.embedded.as_ref().map(|store| store.broken());
    async move {
        let Some(embedded) = embedded else { return std::future::pending().await };
        let thread = embedded.await;
        format!(
            "the thread that {thread} the embedded store panicked, so this process stops; the log says where. Start it again"
        )
    }
}

/// Waits for a signal. A step, a listener or a thread of the store that ends by itself has panicked; a node without
/// it would only look alive, so that ends the wait too.
async fn wait_for_end(
    [beginning, steps]: [&mut JoinSet<()>; 2],
    doors: &mut JoinSet<()>,
    broken: impl Future<Output = String>,
) -> Result<Option<String>, String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => Ok(None),
        _ = interrupt.recv() => Ok(None),
        _ = beginning.join_next() => Ok(Some(PANICKED.into())),
        _ = steps.join_next() => Ok(Some(PANICKED.into())),
        _ = doors.join_next() => Ok(Some(DOOR_PANICKED.into())),
        said = broken => Ok(Some(said)),
    }
}

/// This node's addresses, and the secret that it shares with the other nodes.
async fn identity(
    config: &Config,
    kept: &Kept,
    listens_on: SocketAddr,
    url: &str,
) -> Result<NodeIdentity, String> {
    let is_anywhere = config.listen.ip().is_unspecified();
    let address = config.advertise.clone().or_else(|| (!is_anywhere).then(|| url.to_owned()));
    if !kept.is_shared {
        return Ok(NodeIdentity { listens_on, address: address.unwrap_or_default(), peer_secret: None });
    }
    if address.is_none() {
        tracing::warn!(
            "other nodes cannot be told where this one is reached, so it hears of changes later: say --advertise"
        );
    }
    let secret = kept.door.peer_secret(keep::drawn_secret()).await;
    let secret = secret.map_err(|error| format!("cannot join the cluster: {error}"))?;
    Ok(NodeIdentity { listens_on, address: address.unwrap_or_default(), peer_secret: Some(secret) })
}

#[expect(clippy::print_stdout, reason = "it talks to whoever started it")]
fn greet(url: &str, config: &Config, first: &First) {
    let zone_data = Zones::version();
    println!("punctual {} (zone data {zone_data})", env!("CARGO_PKG_VERSION"));
    println!("  address  {url}");
    println!("  data     {}", config.data.display());
    let file = first::file(config);
    match first {
        First::Kept => {}
        First::Given => println!("  token    as PUNCTUAL_ADMIN_TOKEN says, and in {}", file.display()),
        First::Drawn(token) => {
            println!("  token    {token}");
            println!("           for the first admin; shown once, and kept in {}", file.display());
        }
    }
    let _ = std::io::stdout().flush();
    tracing::info!(url, data = %config.data.display(), node = config.node.as_deref().unwrap_or(""), "serving");
}

/// How many connections may be open, by what is known about their clients. Each takes a file descriptor, and the rest
/// of the node needs some: a client that waits for a descriptor that is not there is shut out together with all
/// others.
fn limits(config: &Config, files: Option<u64>) -> PlaceLimits {
    let room = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let room = room.saturating_sub(FILES_KEPT + config.calls_max()).max(room / 2);
    if room < config.connections {
        tracing::warn!(
            connections = room,
            "the system allows fewer open files than server.connections asks for: raise the limit (ulimit -n)"
        );
    }
    let all = config.connections.min(room);
    PlaceLimits::of(
        all,
        config.strangers,
        config.strangers_per_address,
        config.connections_per_token,
        config.kept,
    )
}

/// Raises the limit of open files to what the system allows, because the default is often 1,024. Returns the new
/// limit; none if there is no limit.
fn raise_file_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_a_door_or_a_thread_that_panics_ends_the_process() {
        let never = std::future::pending::<String>;
        let panicking = || {
            let mut tasks = JoinSet::new();
            tasks.spawn(async { panic!("a bug of ours") });
            tasks
        };
        let living = || {
            let mut tasks = JoinSet::new();
            tasks.spawn(std::future::pending());
            tasks
        };
        let said = wait_for_end([&mut living(), &mut panicking()], &mut living(), never()).await;
        assert_eq!(said.unwrap().as_deref(), Some(PANICKED));
        let said = wait_for_end([&mut living(), &mut living()], &mut panicking(), never()).await;
        assert_eq!(said.unwrap().as_deref(), Some(DOOR_PANICKED));
        let told = async { "the thread that writes".to_owned() };
        let said = wait_for_end([&mut living(), &mut living()], &mut living(), told).await;
        assert_eq!(said.unwrap().as_deref(), Some("the thread that writes"));
    }
}
