//! A command that is run for a handler: its input, its output, and how it ends.
//!
//! Each has a process group of its own, so that its children end with it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_executor::{Context, Failure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::environment;

/// How long a command may take to end when it is told to.
pub(super) const END_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait for output of a child after the command itself has ended.
const LINGER: Duration = Duration::from_secs(1);
/// The longest line; longer ones are split.
const LINE_MAX: usize = 64 << 10;
/// The longest variable that Linux passes on is 128 KiB; a payload beyond this is on stdin only.
const VARIABLE_MAX: usize = 120 << 10;

/// A program with its arguments, and where it is run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Command {
    program: String,
    arguments: Vec<String>,
    pub(super) dir: Option<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
}

/// Commands that are being ended although their run no longer waits for them.
#[derive(Clone, Default)]
pub(super) struct Endings(Arc<Mutex<JoinSet<()>>>);

impl Endings {
    fn add(&self, ending: impl Future<Output = ()> + Send + 'static) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while all.try_join_next().is_some() {}
        all.spawn(ending);
    }

    /// Waits until they all have ended.
    pub(super) async fn wait(&self) {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        while all.join_next().await.is_some() {}
    }
}

impl Command {
    pub(super) fn of(words: Vec<String>) -> Result<Command, NoProgram> {
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or(NoProgram)?;
        Ok(Command { program, arguments: words.collect(), ..Command::default() })
    }

    /// Runs it for a run.
    pub(super) async fn run(&self, context: Context, endings: Endings) -> Result<String, Failure> {
        let mut running = Running::start(self, &context, endings)?;
        let output = running.hear(&context);
        tokio::select! {
            heard = output => heard?.result(),
            () = context.cancelled() => {
                running.end().await;
                Err(Failure::cancelled())
            }
        }
    }

    fn prepare(&self, context: &Context) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        // Our variables hold tokens and addresses of databases, which the command must not see.
        for name in environment::own_names() {
            command.env_remove(name);
        }
        command.envs(&self.env).envs(variables(context));
        command
    }
}

/// There is nothing to run.
#[derive(Debug)]
pub(super) struct NoProgram;

impl std::fmt::Display for NoProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it has no program")
    }
}

impl std::error::Error for NoProgram {}

/// The variables that tell a command about its run.
fn variables(context: &Context) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("PUNCTUAL_RUN_ID", context.run().to_string()),
        ("PUNCTUAL_JOB", context.job().to_string()),
        ("PUNCTUAL_JOB_NAME", context.job_name().to_owned()),
        ("PUNCTUAL_FIRE_TIME", context.fire_time().to_owned()),
        ("PUNCTUAL_ATTEMPT", context.attempt().to_string()),
        ("PUNCTUAL_FENCING_TOKEN", context.token().to_string()),
        ("PUNCTUAL_POSSIBLE_DUPLICATE", context.possible_duplicate().to_string()),
    ];
    if context.payload_text().len() <= VARIABLE_MAX {
        variables.push(("PUNCTUAL_PAYLOAD", context.payload_text().to_owned()));
    }
    if let Some(part) = context.part() {
        variables.push(("PUNCTUAL_PART_INDEX", part.index.to_string()));
        variables.push(("PUNCTUAL_PART_TOTAL", part.total.to_string()));
    }
    variables
}

/// A command that was started. If it is dropped before its end, because its time is over, it is ended all the same.
struct Running {
    child: Option<Child>,
    endings: Endings,
}

impl Running {
    fn start(command: &Command, context: &Context, endings: Endings) -> Result<Running, Failure> {
        let child = command.prepare(context).spawn();
        let child =
            child.map_err(|error| Failure::new(format!("cannot start `{}`: {error}", command.program)))?;
        Ok(Running { child: Some(child), endings })
    }

    /// Reads its output until its end.
    async fn hear(&mut self, context: &Context) -> io::Result<Heard> {
        let child = self.child.as_mut().expect("it is there until it has ended");
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut heard = Heard::default();
        let status = {
            let mut output = std::pin::pin!(async {
                tokio::join!(
                    feed(stdin, context.payload_text()),
                    listen(stdout.map(BufReader::new), context, &mut heard.stdout),
                    listen(stderr.map(BufReader::new), context, &mut heard.stderr),
                )
            });
            // Output is read while the command runs. Once it has ended, only what is left is read, because its
            // children may go on for ever.
            tokio::select! {
                _ = &mut output => child.wait().await?,
                status = child.wait() => {
                    let _ = timeout(LINGER, output).await;
                    status?
                }
            }
        };
        self.child = None;
        heard.status = Some(status);
        Ok(heard)
    }

    async fn end(&mut self) {
        if let Some(child) = self.child.take() {
            // In a task of its own, so that the command is ended even if the caller stops waiting.
            let (done, is_done) = tokio::sync::oneshot::channel();
            self.endings.add(async move {
                end(child).await;
                let _ = done.send(());
            });
            let _ = is_done.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            self.endings.add(end(child));
        }
    }
}

/// Asks a process group to end, then kills it.
async fn end(mut child: Child) {
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let Some(group) = group else { return };
    // If the group has ended already, the signal fails and is not needed.
    let _ = kill_process_group(group, Signal::TERM);
    let _ = timeout(END_WITHIN, child.wait()).await;
    // Kills what is left of the group, be it the command or a child that it left behind.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait().await;
}

async fn feed(stdin: Option<ChildStdin>, payload: &str) {
    if let Some(mut stdin) = stdin {
        // A command that does not read its input may close it.
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
}

/// Logs each line, and keeps the last that is not blank.
async fn listen(source: Option<impl AsyncBufRead + Unpin>, context: &Context, last: &mut String) {
    let Some(mut source) = source else { return };
    let mut line = Vec::new();
    loop {
        let Ok(bytes) = source.fill_buf().await else { return };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let is_over = bytes.is_empty();
        let room = LINE_MAX - line.len();
        let taken = end.unwrap_or(bytes.len()).min(room);
        line.extend_from_slice(&bytes[..taken]);
        let is_ended = end == Some(taken);
        source.consume(taken + usize::from(is_ended));
        if is_ended || line.len() == LINE_MAX || (is_over && !line.is_empty()) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            line.clear();
            context.log(text.as_str());
            if !text.trim().is_empty() {
                *last = text;
            }
        }
        if is_over {
            return;
        }
    }
}

/// The output of a command.
#[derive(Default)]
struct Heard {
    status: Option<ExitStatus>,
    stdout: String,
    stderr: String,
}

impl Heard {
    fn result(self) -> Result<String, Failure> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.status.unwrap_or_default();
        if status.success() {
            return Ok(self.stdout);
        }
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended in an unknown way".into(),
        };
        let said = self.stderr.trim();
        Err(Failure::new(if said.is_empty() { how } else { format!("{how}: {said}") }))
    }
}

#[cfg(test)]
mod tests {
    use punctual_executor::testing::{Ran, Run};
    use punctual_executor::{Executor, Outcome};
    use serde_json::json;

    use super::*;
    use crate::clock;

    async fn run(run: Run, script: &str) -> Ran {
        let endings = Endings::default();
        let command = Command::of(["sh", "-c", script].map(String::from).into()).unwrap();
        let command = Arc::new(command);
        let ended = endings.clone();
        let executor = Executor::new("ops").handler("h", move |context: Context| {
            let (command, endings) = (command.clone(), ended.clone());
            async move { command.run(context, endings).await }
        });
        let ran = run.run(&executor).await;
        endings.wait().await;
        ran
    }

    async fn check(script: &str, outcome: Outcome, message: &str) -> Ran {
        let ran = run(Run::new("h").payload(json!({"day": "2026-11-14"})), script).await;
        assert_eq!((ran.outcome, ran.message.as_str()), (outcome, message), "{script}");
        ran
    }

    #[tokio::test]
    async fn the_exit_code_and_the_last_lines_say_how_it_ended() {
        check("true", Outcome::Succeeded, "").await;
        check("echo one; echo two; echo; echo warning >&2", Outcome::Succeeded, "two").await;
        check("printf three", Outcome::Succeeded, "three").await;
        check("echo out; exit 3", Outcome::Failed, "exit code 3").await;
        check(
            "echo first >&2; echo no space left >&2; exit 1",
            Outcome::Failed,
            "exit code 1: no space left",
        )
        .await;
        check("kill -9 $$", Outcome::Failed, "ended by signal 9").await;
    }

    #[tokio::test]
    async fn all_output_is_in_the_log() {
        let ran = check("echo one; echo; echo three", Outcome::Succeeded, "three").await;
        assert_eq!(ran.log, ["one", "", "three"]);
        let ran = run(Run::new("h"), "head -c 200000 /dev/zero | tr '\\0' x").await;
        assert_eq!(ran.log.iter().map(String::len).sum::<usize>(), 200_000);
        assert!(ran.log.iter().all(|line| line.len() <= LINE_MAX));
    }

    #[tokio::test]
    async fn a_run_is_told_in_the_environment_and_on_stdin() {
        let script = "echo $PUNCTUAL_RUN_ID $PUNCTUAL_JOB $PUNCTUAL_JOB_NAME $PUNCTUAL_FIRE_TIME $PUNCTUAL_ATTEMPT \
                      $PUNCTUAL_FENCING_TOKEN $PUNCTUAL_PART_INDEX/$PUNCTUAL_PART_TOTAL $PUNCTUAL_POSSIBLE_DUPLICATE \
                      $PUNCTUAL_PAYLOAD $(cat)";
        let asked = Run::new("h").payload(json!([1])).attempt(2, 9).part(0, 3).possible_duplicate();
        let ran = run(asked, script).await;
        assert_eq!(ran.message, "1 1 h 2026-11-15T09:00:00.000Z 2 9 0/3 true [1] [1]");
        let long = run(Run::new("h").payload("x".repeat(300_000)), "cat | wc -c").await;
        assert_eq!((long.outcome, long.message.trim()), (Outcome::Succeeded, "300002"));
    }

    #[tokio::test]
    async fn what_is_not_there_fails() {
        let command = Command::of(vec!["/nowhere/at/all".into()]).unwrap();
        let command = Arc::new(command);
        let executor = Executor::new("ops").handler("h", move |context: Context| {
            let command = command.clone();
            async move { command.run(context, Endings::default()).await }
        });
        let ran = Run::new("h").run(&executor).await;
        assert!(ran.outcome == Outcome::Failed && ran.message.starts_with("cannot start `/nowhere/at/all`"));
    }

    /// A script whose child holds the pipes open: only ending the whole group ends it.
    const GROUP: &str = "sleep 1000 & echo $!; wait";

    /// Waits for a process that is not our child: it was sent a signal, and ends soon after.
    async fn is_gone(process: &str) -> bool {
        let is_there = || {
            let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
            status.is_ok_and(|status| !status.contains(") Z "))
        };
        let gone = async {
            while is_there() {
                clock::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(10), gone).await.is_ok()
    }

    #[tokio::test]
    async fn the_whole_group_ends_when_its_time_is_over() {
        let ran = run(Run::new("h").timeout(Duration::from_secs(1)), GROUP).await;
        assert_eq!(ran.outcome, Outcome::TimedOut);
        assert!(is_gone(&ran.log[0]).await, "{}", ran.log[0]);
    }

    #[tokio::test]
    async fn the_whole_group_ends_when_it_is_cancelled() {
        let ran = run(Run::new("h").cancel_after(Duration::from_secs(1)), GROUP).await;
        assert_eq!(ran.outcome, Outcome::Cancelled);
        assert!(is_gone(&ran.log[0]).await, "{}", ran.log[0]);
    }

    #[tokio::test]
    async fn a_child_that_stays_behind_holds_nothing_up() {
        check("sleep 3 & echo done", Outcome::Succeeded, "done").await;
    }
}
