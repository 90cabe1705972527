//! Nodes whose wall clock is wrong. Their monotonic clock stays right.

use crate::campaign::Campaign;

/// An hour.
const HOUR: i64 = 3_600;

/// Moves the clock of a node forward by an hour, back by two, and back to normal, while work goes on.
pub async fn shift(campaign: &mut Campaign) -> Result<(), String> {
    let index = campaign.dice.below(campaign.cluster.nodes.len() as u64) as usize;
    for seconds in [HOUR, -HOUR, 0] {
        campaign.note(&format!("{}: the clock is {seconds} s off", campaign.cluster.nodes[index].name()));
        campaign.cluster.nodes[index].move_clock(seconds)?;
        campaign.received(300).await?;
        campaign.cluster.whole().await?;
    }
    Ok(())
}
