//! Clocks on the wall that go wrong. What counts on, without a wall, goes right.

use crate::campaign::Campaign;

/// An hour.
const HOUR: i64 = 3_600;

/// Moves the clock of a node forward by an hour, back by two, and home, while work goes on.
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

/// Starts a node again whose clock is wrong from the beginning.
pub async fn start_wrong(campaign: &mut Campaign, seconds: i64) -> Result<(), String> {
    let index = campaign.dice.below(campaign.cluster.nodes.len() as u64) as usize;
    campaign.note(&format!("{} starts {seconds} s off", campaign.cluster.nodes[index].name()));
    let node = &mut campaign.cluster.nodes[index];
    node.move_clock(seconds)?;
    crate::campaign::blocking(|| node.stopped())?;
    node.start()?;
    campaign.cluster.whole().await?;
    campaign.received(200).await?;
    campaign.cluster.nodes[index].move_clock(0)
}
