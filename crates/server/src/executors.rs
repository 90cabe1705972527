//! Executors, as the front door asks for them: the node knows who is there, dispatch knows how to reach them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use punctual_api::{LogPage, MayReport, Pass};
use punctual_core::model::{Attempt, LogId, RunId, Text, Token};
use punctual_dispatch::stream::Reception;
use punctual_dispatch::{Executors, Guard, Natives};
use punctual_node::ports::{Address, AppRow, Beat};
use punctual_node::{AccessTokens, AppView, Callback, Claim, DeskError, Node, SessionId};
use punctual_protocol::native::{Code, Held, Hello, Refusal};
use punctual_protocol::xxl;
use tokio::time::timeout;
use url::Url;

use crate::loops::Rounds;

/// How long whoever brings results waits for them to be kept. Several executors make a failure of a success when they are
/// told that it could not be kept, so they rather wait; those with less patience bring it again.
const KEPT_WITHIN: Duration = Duration::from_secs(20);

/// How the addresses of native executors begin.
const NATIVE: &str = "native:";

/// The node and the way to executors.
pub(crate) struct Crew {
    pub(crate) node: Arc<Node>,
    pub(crate) rounds: Arc<Rounds>,
    pub(crate) executors: Arc<Executors>,
    pub(crate) natives: Arc<Natives>,
    /// Which addresses people may set.
    pub(crate) guard: Guard,
    /// Which executors may have.
    pub(crate) near: Guard,
}

#[async_trait]
impl punctual_api::Executors for Crew {
    fn apps(&self) -> Vec<AppView> {
        self.node.apps()
    }

    fn app(&self, name: &str) -> Option<AppView> {
        self.node.app(name)
    }

    async fn access_tokens(&self) -> Result<Arc<AccessTokens>, DeskError> {
        self.node.access_tokens().await
    }

    async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, DeskError> {
        self.node.put_app(app, expected).await
    }

    async fn remove_app(&self, name: &str) -> Result<bool, DeskError> {
        self.node.remove_app(name).await
    }

    fn check_address(&self, address: &str) -> Result<(), String> {
        judge(&self.guard, address)
    }

    fn check_registered(&self, address: &str) -> Result<(), String> {
        judge(&self.near, address)
    }

    async fn beat(&self, beat: Beat) -> Result<(), DeskError> {
        self.node.beat(beat).await
    }

    async fn leave(&self, app: &str, address: &str) -> Result<bool, DeskError> {
        self.node.executor_left(app, address).await
    }

    fn tell_refused(&self, app: &str, address: &str, reason: &str) {
        self.node.tell_refused(app, address, reason);
    }

    async fn call_back(&self, callbacks: Vec<Callback>, may: MayReport<'_>) -> Result<(), DeskError> {
        let kept = self.node.keep(self.node.reports_of(&callbacks, may).await?);
        self.rounds.nudge();
        let late = || Err(DeskError::Unknown(Text::Borrowed("the reports were not kept in time")));
        timeout(KEPT_WITHIN, kept).await.unwrap_or_else(|_| late())
    }

    async fn log(
        &self,
        address: &Address,
        log: LogId,
        sent_at: Timestamp,
        from: u64,
    ) -> Result<LogPage, String> {
        if address.url.starts_with(NATIVE) {
            // What it wrote is here, or nowhere.
            return Ok(LogPage { text: String::new(), next: from, is_end: true });
        }
        let page = self.executors.log(address, log, sent_at, from).await?;
        if !may_leave_out(&page, from) {
            return Ok(read(page, from));
        }
        let earlier = self.executors.log(address, log, sent_at, from.saturating_sub(1)).await?;
        let is_so = !earlier.content.is_empty() && may_leave_out(&earlier, from.saturating_sub(1));
        Ok(read(if is_so { earlier } else { page }, from))
    }

    fn has_room(&self) -> bool {
        self.natives.has_room()
    }

    fn attend(&self, socket: Upgraded, pass: Arc<dyn Pass>) {
        let (node, rounds) = (Arc::clone(&self.node), Arc::clone(&self.rounds));
        let desk = Desk { node, rounds, pass, session: OnceLock::new() };
        self.natives.attend(TokioIo::new(socket), Arc::new(desk));
    }

    fn running_log(&self, run: RunId, attempt: Attempt, from: u64) -> Option<(String, u64)> {
        self.natives.log(run, attempt, from)
    }
}

/// Where native executors are let in and seen off.
struct Desk {
    node: Arc<Node>,
    rounds: Arc<Rounds>,
    pass: Arc<dyn Pass>,
    /// The session that was opened here.
    session: OnceLock<SessionId>,
}

#[async_trait]
impl Reception for Desk {
    async fn welcome(&self, hello: &Hello) -> Result<Vec<Held>, Refusal> {
        let url = hello.address();
        match self.pass.opens(&hello.app).await {
            Ok(true) => {}
            Ok(false) => {
                let reason = format!("the token does not reach the app {}", hello.app);
                self.node.tell_refused(&hello.app, &url, &reason);
                return Err(Refusal { code: Code::Refused, reason });
            }
            Err(reason) => return Err(Refusal { code: Code::Unavailable, reason }),
        }
        let handlers = hello.handlers.iter().map(|name| name.clone().into()).collect();
        let holds = hello.holds.iter().map(claim).collect();
        let came = self.node.native_came(&hello.app, &url, handlers, holds, self.is_carrier()).await;
        self.rounds.nudge();
        let (session, stale) = came.map_err(refusal)?;
        let _ = self.session.set(session);
        Ok(stale.iter().map(held).collect())
    }

    fn is_carrier(&self) -> bool {
        self.pass.is_peer()
    }

    async fn is_welcome(&self, app: &str) -> bool {
        // Who cannot be asked has not said no.
        self.pass.opens(app).await.unwrap_or(true)
    }

    async fn farewell(&self, app: &str, url: &str, is_final: bool) {
        let Some(session) = self.session.get() else { return };
        if let Err(error) = self.node.native_went(app, url, *session, is_final).await {
            tracing::warn!(%error, url, "that an executor left could not be written down; its beats end");
        }
        self.rounds.nudge();
    }
}

fn refusal(error: DeskError) -> Refusal {
    let code = if matches!(error, DeskError::Conflict(_)) { Code::Refused } else { Code::Unavailable };
    Refusal { code, reason: error.to_string() }
}

fn claim(held: &Held) -> Claim {
    Claim { run: RunId(held.run), attempt: Attempt(held.attempt), token: Token(held.token) }
}

fn held(claim: &Claim) -> Held {
    Held { run: claim.run.0, attempt: claim.attempt.0, token: claim.token.0 }
}

/// Whether an executor seems to take the line that was asked for as the number of lines to leave out, as the npm package
/// xxl-job does. Then the last line is one further than there are lines. One that has nothing more may look the same, so
/// it is asked for one line less: whoever leaves lines out then looks so again, and has lines.
fn may_leave_out(page: &xxl::LogPage, from: u64) -> bool {
    page.to_line == from.saturating_add(page.content.lines().count() as u64)
}

/// What is new on a page. One that ends before it begins repeats what was read, or says that there is nothing yet.
fn read(page: xxl::LogPage, from: u64) -> LogPage {
    let count = page.content.lines().count() as u64;
    // Some begin every page with an empty line that they do not count.
    let has_blank =
        page.content.starts_with('\n') && from.saturating_add(count) == page.to_line.saturating_add(2);
    let mut text = if has_blank { page.content[1..].to_owned() } else { page.content };
    if text.is_empty() || page.to_line < from {
        return LogPage { text: String::new(), next: from, is_end: page.is_end };
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    LogPage { text, next: page.to_line.saturating_add(1), is_end: page.is_end }
}

/// Names are not resolved here: what they lead to is judged when they are called.
fn judge(guard: &Guard, address: &str) -> Result<(), String> {
    let url = Url::parse(address.trim())
        .map_err(|error| format!("{error}; expected an address such as http://10.0.0.5:9999"))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a ? or #, behind which no path can follow; leave them out".into());
    }
    guard.judge_url(&url).map_err(|refusal| refusal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content: &str, to_line: u64) -> xxl::LogPage {
        xxl::LogPage { from_line: 5, to_line, content: content.into(), is_end: false }
    }

    #[test]
    fn the_next_line_comes_after_the_last_and_what_was_read_is_not_read_again() {
        for (content, to_line, text, next) in [
            ("a\nb\n", 6, "a\nb\n", 7),
            ("a\nb", 6, "a\nb\n", 7),
            ("", 4, "", 5),
            ("", 0, "", 5),
            ("again\n", 2, "", 5),
            ("\na\nb", 6, "a\nb\n", 7),
            ("\na\n", 6, "\na\n", 7),
            ("\n", 4, "", 5),
        ] {
            let read = read(page(content, to_line), 5);
            assert_eq!((read.text.as_str(), read.next), (text, next), "{content:?} {to_line}");
        }
    }

    #[test]
    fn whoever_leaves_lines_out_is_told_by_the_last_one() {
        assert!(may_leave_out(&page("six\nseven\n", 7), 5));
        assert!(may_leave_out(&page("", 5), 5), "there is a line, but it was left out");
        assert!(!may_leave_out(&page("five\nsix\n", 6), 5));
        assert!(!may_leave_out(&page("", 4), 5));
    }
}
