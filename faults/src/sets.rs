//! What is broken in which order: the short sets of the test command, and the long one that goes on and on.

use std::time::{Duration, Instant};

use crate::breaking::cuts::{self, Cut};
use crate::breaking::servers::{self, Away};
use crate::breaking::{clocks, kills, pauses};
use crate::campaign::{Campaign, Database, Report, Setup};

/// The two lengths of a pause: longer than a lease, and much longer.
pub const PAUSE: Duration = Duration::from_secs(8);
pub const LONG_PAUSE: Duration = Duration::from_secs(30);

/// One node on its own: it is killed, held and stopped, and loses nothing.
pub async fn alone(setup: &Setup) -> Result<Report, String> {
    let mut campaign = Campaign::start(setup).await?;
    kills::kill(&mut campaign, 5).await?;
    pauses::pause(&mut campaign, PAUSE).await?;
    kills::stop(&mut campaign, 1).await?;
    campaign.finish().await
}

/// Nodes are killed so often, and asked to stop so often.
pub async fn deaths(setup: &Setup, killed: usize, stopped: usize) -> Result<Report, String> {
    let mut campaign = Campaign::start(setup).await?;
    kills::kill(&mut campaign, killed).await?;
    kills::stop(&mut campaign, stopped).await?;
    campaign.finish().await
}

/// Nodes are held, and their clocks go wrong.
pub async fn times(setup: &Setup) -> Result<Report, String> {
    let mut campaign = Campaign::start(setup).await?;
    pauses::pause(&mut campaign, PAUSE).await?;
    pauses::pause(&mut campaign, LONG_PAUSE).await?;
    clocks::shift(&mut campaign).await?;
    campaign.finish().await
}

/// Nodes are cut off, and servers go away.
pub async fn absences(setup: &Setup) -> Result<Report, String> {
    let mut campaign = Campaign::start(setup).await?;
    for how in Cut::ALL {
        cuts::cut(&mut campaign, how).await?;
    }
    servers::database(&mut campaign, Away::Restarted).await?;
    servers::database(&mut campaign, Away::Killed).await?;
    if setup.has_redis {
        servers::redis(&mut campaign).await?;
    }
    campaign.finish().await
}

/// A little of everything.
pub async fn some(setup: &Setup) -> Result<Report, String> {
    let mut campaign = Campaign::start(setup).await?;
    kills::kill(&mut campaign, 4).await?;
    kills::stop(&mut campaign, 1).await?;
    pauses::pause(&mut campaign, PAUSE).await?;
    cuts::cut(&mut campaign, Cut::Answers).await?;
    servers::database(&mut campaign, Away::Killed).await?;
    campaign.finish().await
}

/// Whatever the dice say, for so long. The dice start from the seed.
pub async fn long(setup: &Setup, duration: Duration) -> Result<Report, String> {
    let started = Instant::now();
    let mut campaign = Campaign::start(setup).await?;
    while started.elapsed() < duration {
        let is_alone = setup.database == Database::Embedded;
        let kinds = if is_alone { 3 } else { 11 };
        match campaign.dice.below(kinds) {
            0 => kills::kill(&mut campaign, 3).await?,
            1 => kills::stop(&mut campaign, 1).await?,
            2 => pauses::pause(&mut campaign, PAUSE).await?,
            3 => pauses::pause(&mut campaign, LONG_PAUSE).await?,
            4 => clocks::shift(&mut campaign).await?,
            5 => servers::database(&mut campaign, Away::Restarted).await?,
            6 => servers::database(&mut campaign, Away::Killed).await?,
            7 if setup.has_redis => servers::redis(&mut campaign).await?,
            8 => cuts::slow(&mut campaign, Duration::from_millis(200), 500).await?,
            _ => {
                let how = *campaign.dice.one_of(&Cut::ALL);
                cuts::cut(&mut campaign, how).await?;
            }
        }
    }
    campaign.finish().await
}
