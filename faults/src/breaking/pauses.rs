//! Nodes that are paused at any moment, like a machine that is suspended or starved.

use std::time::Duration;

use super::kills::{life_of, taken_over};
use crate::campaign::Campaign;
use crate::clock::pass;

/// Pauses a node for `duration`.
pub async fn pause(campaign: &mut Campaign, duration: Duration) -> Result<(), String> {
    let index = campaign.dice.below(campaign.cluster.nodes.len() as u64) as usize;
    let life = life_of(campaign, index).await?;
    (campaign.had_pauses, campaign.had_losses, campaign.had_holds) = (true, true, true);
    campaign.note(&format!("pause {} for {duration:?}", campaign.cluster.nodes[index].name()));
    campaign.cluster.nodes[index].pause();
    let taken_over = async {
        match &life {
            Some(life) => taken_over(campaign, index, life).await.map(Some),
            None => Ok(None),
        }
    };
    let (taken_over, ()) = tokio::join!(taken_over, pass(duration));
    campaign.note("resume");
    campaign.cluster.nodes[index].resume();
    if let Some(took) = taken_over? {
        campaign.measured("takeover from a paused node", took);
    }
    let whole = campaign.cluster.whole().await?;
    campaign.measured("whole after a pause", whole);
    Ok(())
}
