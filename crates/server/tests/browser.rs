//! The console in a real browser: the binary serves, its own executor works for it, and the scripts in
//! `crates/console/ui/e2e` click, type and look.
//!
//! `PUNCTUAL_TEST_CONSOLE` says where the test command put them, with what npm brings; without it they are run where
//! they lie, after `npm install` there.
#![cfg(feature = "console")]
#![expect(clippy::disallowed_methods, clippy::print_stderr, reason = "real programs live in real time")]

#[allow(dead_code, reason = "the tests of clusters use all of it")]
#[path = "all/cluster/database.rs"]
mod database;

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use database::{Database, Engine};

const BINARY: &str = env!("CARGO_BIN_EXE_punctual");

/// What opens every server of these tests.
const TOKEN: &str = "pct_browser_test_0123456789abcdefghi";

/// How many jobs there are when a filter is acted upon as a whole.
const JOBS: &str = "10000";

/// A server that stays at its address when it is restarted.
struct Server {
    child: Child,
    address: String,
    data: PathBuf,
    more: Vec<String>,
}

impl Server {
    fn start(name: &str, more: &[&str]) -> Server {
        let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&data).expect("a folder");
        let address = format!("127.0.0.1:{}", punctual_scratch::free_port());
        let more: Vec<String> = more.iter().map(ToString::to_string).collect();
        let child = serve(&address, &data, &more);
        Server { child, address, data, more }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it as an operator would, and starts it where it was.
    fn restart(&mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
        assert!(self.child.wait().expect("it ends").success());
        self.child = serve(&self.address, &self.data, &self.more);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// Starts the server, and waits until it has said where it listens.
fn serve(address: &str, data: &Path, more: &[String]) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join("log")).expect("a log");
    let mut command = Command::new(BINARY);
    command.args(["serve", "--listen", address, "--data"]).arg(data).args(more);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PUNCTUAL_")) {
        command.env_remove(name);
    }
    command.env("PUNCTUAL_ADMIN_TOKEN", TOKEN);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.trim_start().starts_with("address") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("text") > 0, "it ended before it listened");
    }
    std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
    child
}

/// Where the scripts and their packages are.
fn scripts() -> PathBuf {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../console/ui");
    let room = std::env::var_os("PUNCTUAL_TEST_CONSOLE").map_or(home, PathBuf::from);
    assert!(
        room.join("node_modules/playwright-core").is_dir(),
        "{} has no packages for the browser tests: run `cargo xtask test`, or `npm install` in crates/console/ui",
        room.display()
    );
    room
}

/// Says what a program says, as it says it.
fn told(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(&mut from).lines().map_while(Result::ok) {
            eprintln!("{line}");
        }
    })
}

/// Starts the scripts against a server, and says what they say.
fn browser(
    server: &Server,
    script: &str,
    more: &[(&str, String)],
) -> (Child, [std::thread::JoinHandle<()>; 2]) {
    let mut browser = Command::new("node")
        .arg(script)
        .current_dir(scripts())
        .env("PUNCTUAL_URL", server.url())
        .env("PUNCTUAL_TOKEN", TOKEN)
        .env("PUNCTUAL_BINARY", BINARY)
        .env("PUNCTUAL_WHOLE", "yes")
        .envs(more.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node can be started; it runs the browser tests");
    let said = [told(browser.stdout.take().expect("piped")), told(browser.stderr.take().expect("piped"))];
    (browser, said)
}

/// What the test waits for.
enum Word {
    /// The scripts want the server restarted; they wait until the connection ends.
    Restart(TcpStream),
    Ended(std::io::Result<ExitStatus>),
}

/// Hears both the scripts' wishes, which come to the door, and their end.
fn listen(mut browser: Child, door: TcpListener) -> mpsc::Receiver<Word> {
    let (say, hear) = mpsc::channel();
    let wish = say.clone();
    std::thread::spawn(move || {
        let is_heard = |stream| wish.send(Word::Restart(stream)).is_ok();
        door.incoming().map_while(Result::ok).all(is_heard);
    });
    std::thread::spawn(move || say.send(Word::Ended(browser.wait())));
    hear
}

#[test]
fn people_can_see_trust_and_mend_everything_in_a_browser() {
    let mut server = Server::start("browser", &[]);
    let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = door.local_addr().expect("an address").port();
    let restart = format!("node -e 'require(\"net\").connect({port}, \"127.0.0.1\").resume()'");
    let more = [("PUNCTUAL_BULK", JOBS.to_owned()), ("PUNCTUAL_RESTART", restart)];
    let (browser, said) = browser(&server, "e2e/all.mjs", &more);
    let mut status = None;
    for word in listen(browser, door) {
        match word {
            Word::Restart(_until_dropped) => server.restart(),
            Word::Ended(ended) => {
                status = Some(ended.expect("it was started"));
                break;
            }
        }
    }
    said.into_iter().for_each(|one| one.join().expect("it only reads"));
    let is_well = status.is_some_and(|status| status.success());
    assert!(is_well, "the browser tests ended with {status:?}; what failed is said above");
}

#[test]
fn a_console_of_one_node_shows_what_happens_on_all_of_them() {
    if !Engine::Postgres.is_wanted() {
        return;
    }
    let database = Database::new(Engine::Postgres);
    let node = |name: &str| Server::start(name, &["--database", database.url(), "--node", name]);
    let nodes = [node("berlin"), node("toronto")];
    let other = nodes[1].child.id().to_string();
    let more = [("PUNCTUAL_OTHER_URL", nodes[1].url()), ("PUNCTUAL_OTHER_PID", other)];
    let (mut browser, said) = browser(&nodes[0], "e2e/cluster.mjs", &more);
    let status = browser.wait().expect("it was started");
    said.into_iter().for_each(|one| one.join().expect("it only reads"));
    // The database cannot be dropped while a node uses it.
    drop(nodes);
    assert!(status.success(), "the browser test ended with {status:?}; what failed is said above");
}
