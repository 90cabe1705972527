//! Nodes that are killed, and nodes that are stopped.

use std::time::Duration;

use crate::campaign::{Campaign, blocking};
use crate::clock::{now, pass, until};

/// The other nodes have to hold all shards of a lost node within this time. The promise is shorter, and measured.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(30);

/// Nothing is broken for this time after a node has returned, so that late runs in it are late because of the return.
const CALM: Duration = Duration::from_secs(3);

/// Kills one node after another, each at a random moment.
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

/// Stops one node after another.
pub async fn stop(campaign: &mut Campaign, times: usize) -> Result<(), String> {
    for turn in 0..times {
        let index = turn % campaign.cluster.nodes.len();
        let life = life_of(campaign, index).await?;
        campaign.note(&format!("stop {}", campaign.cluster.nodes[index].name()));
        let asked = now();
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
        // The cluster counts as healthy when the first shards have moved; the others follow.
        pass(CALM).await;
        campaign.returned(started);
        if !campaign.cluster.is_single() {
            campaign.moved_as_planned(asked);
        }
    }
    Ok(())
}

/// The id of a node's process, as another node knows it; none where there is no other.
pub(super) async fn life_of(campaign: &Campaign, index: usize) -> Result<Option<String>, String> {
    if campaign.cluster.is_single() {
        return Ok(None);
    }
    let name = campaign.cluster.nodes[index].name();
    let view = campaign.cluster.view_beside(index).await.ok_or("no other node answers")?;
    let life = view.life_of(name).ok_or_else(|| format!("nobody knows {name}"))?;
    Ok(Some(life.to_owned()))
}

/// Waits until another node lists no shard for this process and a holder for every shard. Returns how long that took.
pub(super) async fn taken_over(campaign: &Campaign, index: usize, life: &str) -> Result<Duration, String> {
    until(&format!("{life} has no shard"), TAKEN_OVER_WITHIN, async || {
        let view = campaign.cluster.view_beside(index).await;
        view.is_some_and(|view| view.shards_of(life) == 0 && view.has_no_orphans())
    })
    .await
}
