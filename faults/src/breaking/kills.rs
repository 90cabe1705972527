//! Nodes that are killed, and nodes that are asked to stop.

use std::time::Duration;

use crate::campaign::{Campaign, blocking};
use crate::clock::{now, pass, until};

/// How long the others may take to act for everything that a lost node had. What is promised is less, and measured.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(30);

/// How long nothing is broken after a node has returned, so that what is late in this time is late by its return.
const CALM: Duration = Duration::from_secs(3);

/// Kills one node after another, each at a moment that nobody can foresee.
pub async fn kill(campaign: &mut Campaign, times: usize) -> Result<(), String> {
    for _ in 0..times {
        let index = campaign.dice.below(campaign.cluster.nodes.len() as u64) as usize;
        pass(Duration::from_millis(campaign.dice.below(1_000))).await;
        let life = life_of(campaign, index).await?;
        campaign.note(&format!("kill {}", campaign.cluster.nodes[index].name()));
        campaign.killed();
        blocking(|| campaign.cluster.nodes[index].kill());
        if let Some(life) = life {
            let took = taken_over(campaign, index, &life).await?;
            campaign.measured("takeover", took);
        }
        let started = now();
        campaign.cluster.nodes[index].start()?;
        let whole = campaign.cluster.whole().await?;
        campaign.returned(started);
        campaign.measured("whole after a kill", whole);
    }
    Ok(())
}

/// Asks one node after another to stop.
pub async fn stop(campaign: &mut Campaign, times: usize) -> Result<(), String> {
    for turn in 0..times {
        let index = turn % campaign.cluster.nodes.len();
        let life = life_of(campaign, index).await?;
        campaign.note(&format!("stop {}", campaign.cluster.nodes[index].name()));
        campaign.asked_to_stop();
        campaign.cluster.nodes[index].ask_to_stop();
        if let Some(life) = life {
            let took = taken_over(campaign, index, &life).await?;
            campaign.measured("hand-over", took);
        }
        let status = blocking(|| campaign.cluster.nodes[index].stopped())?;
        if !status.success() {
            return Err(format!("a node that was asked to stop ended with {status}"));
        }
        let started = now();
        campaign.cluster.nodes[index].start()?;
        let whole = campaign.cluster.whole().await?;
        campaign.measured("whole after a stop", whole);
        // The cluster is whole when the first shards have moved; the others follow.
        pass(CALM).await;
        campaign.returned(started);
    }
    Ok(())
}

/// The name of a node's present life, as another node knows it; none where there is no other.
pub(super) async fn life_of(campaign: &Campaign, index: usize) -> Result<Option<String>, String> {
    if campaign.cluster.is_single() {
        return Ok(None);
    }
    let name = campaign.cluster.nodes[index].name();
    let view = campaign.cluster.view_beside(index).await.ok_or("no other node answers")?;
    let life = view.life_of(name).ok_or_else(|| format!("nobody knows {name}"))?;
    Ok(Some(life.to_owned()))
}

/// Waits until another node says that this life acts for nothing any more and somebody does for everything; says how
/// long that took.
pub(super) async fn taken_over(campaign: &Campaign, index: usize, life: &str) -> Result<Duration, String> {
    until(&format!("{life} has no shard"), TAKEN_OVER_WITHIN, async || {
        let view = campaign.cluster.view_beside(index).await;
        view.is_some_and(|view| view.shards_of(life) == 0 && view.has_no_orphans())
    })
    .await
}
