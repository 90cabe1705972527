//! Nodes that cannot reach the database, in each way in which a network can fail.

use std::time::{Duration, Instant};

use serde_json::json;

use super::kills::{life_of, taken_over};
use crate::campaign::Campaign;
use crate::client::ask;
use crate::clock::pass;
use crate::node::TOKEN;
use crate::proxy::{Proxy, Way};

/// The way in which a node is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Its requests do not arrive.
    Questions,
    /// The answers do not arrive: its request was carried out, and it does not know.
    Answers,
    /// Nothing arrives either way, and the sockets stay open.
    Both,
    /// Its connections are reset, and new ones are refused.
    Reset,
}

impl Cut {
    /// All of them.
    pub const ALL: [Cut; 4] = [Cut::Questions, Cut::Answers, Cut::Both, Cut::Reset];

    fn apply(self, proxy: &Proxy) {
        match self {
            Cut::Questions => proxy.set(Way::Silent, Way::Open),
            Cut::Answers => proxy.set(Way::Open, Way::Silent),
            Cut::Both => proxy.set(Way::Silent, Way::Silent),
            Cut::Reset => {
                proxy.take_new(false);
                proxy.cut();
            }
        }
    }
}

/// A node that is cut off has to answer 503 within this time.
const SAYS_SO_WITHIN: Duration = Duration::from_secs(20);

/// Cuts a node off until the others have taken over and it answers that it is not ready, then reconnects it.
pub async fn cut(campaign: &mut Campaign, how: Cut) -> Result<(), String> {
    let index = campaign.dice.below(campaign.cluster.nodes.len() as u64) as usize;
    let Some(life) = life_of(campaign, index).await? else {
        return Err("there is no other node to take over".into());
    };
    (campaign.had_pauses, campaign.had_losses) = (true, true);
    campaign.note(&format!("cut {} off: {how:?}", campaign.cluster.nodes[index].name()));
    with_proxy(campaign, index, |proxy| how.apply(proxy))?;
    let took = taken_over(campaign, index, &life).await?;
    campaign.measured("takeover from a node that is cut off", took);
    let took = refuses(campaign, index).await?;
    campaign.measured("answer of a node that is cut off", took);
    campaign.note("let it back");
    with_proxy(campaign, index, Proxy::heal)?;
    let whole = campaign.cluster.whole().await?;
    campaign.measured("whole after a cut", whole);
    Ok(())
}

/// Slows every node's connection to the database for a while.
pub async fn slow(campaign: &mut Campaign, delay: Duration, receipts: usize) -> Result<(), String> {
    campaign.note(&format!("every way to the database takes {delay:?} longer"));
    each_proxy(campaign, |proxy| proxy.set(Way::Slow(delay), Way::Slow(delay)));
    let went_on = campaign.received(receipts).await;
    each_proxy(campaign, Proxy::heal);
    went_on?;
    let whole = campaign.cluster.whole().await?;
    campaign.measured("whole after a slow database", whole);
    Ok(())
}

/// Cuts every node off: no node can take over, and afterwards all of them want to.
pub async fn cut_all(campaign: &mut Campaign, how: Cut, duration: Duration) -> Result<(), String> {
    campaign.had_pauses = true;
    campaign.note(&format!("cut every node off: {how:?}, for {duration:?}"));
    each_proxy(campaign, |proxy| how.apply(proxy));
    pass(duration).await;
    campaign.note("let them back");
    each_proxy(campaign, Proxy::heal);
    let whole = campaign.cluster.whole().await?;
    campaign.measured("whole after a cut of all", whole);
    Ok(())
}

fn each_proxy(campaign: &Campaign, act: impl Fn(&Proxy)) {
    campaign.cluster.nodes.iter().filter_map(|node| node.proxy.as_ref()).for_each(act);
}

fn with_proxy(campaign: &Campaign, index: usize, act: impl Fn(&Proxy)) -> Result<(), String> {
    let proxy = campaign.cluster.nodes[index].proxy.as_ref();
    proxy.map(act).ok_or_else(|| "the node has no proxy".into())
}

/// Checks that a node without its database answers 503 with `Retry-After`. Returns how long the answer took.
async fn refuses(campaign: &Campaign, index: usize) -> Result<Duration, String> {
    let started = Instant::now();
    let address = campaign.cluster.nodes[index].address();
    // A job that does not exist: nothing is written even if it gets through.
    let body = json!({"runs": [{"job": 2_000_000_000, "key": "nobody"}]}).to_string();
    let authorization = format!("Bearer {TOKEN}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let answer = ask(&address, "POST", "/api/v1/runs", &headers, &body, SAYS_SO_WITHIN).await?;
    match answer.status {
        503 => Ok(started.elapsed()),
        status => Err(format!("a node that is cut off said {status}: {}", answer.text())),
    }
}
