//! What is broken in which order: the short sets of the test command, and the long one that goes on and on.

use std::time::{Duration, Instant};

use crate::breaking::cuts::{self, Cut};
use crate::breaking::servers::{self, Away};
use crate::breaking::{clocks, kills, pauses, switches};
use crate::campaign::{Campaign, Database, Setup, run};
use crate::clock::{now, pass};
use crate::flood::Flood;
use crate::report::Report;

/// The two lengths of a pause: longer than a lease, and much longer.
pub const PAUSE: Duration = Duration::from_secs(8);
pub const LONG_PAUSE: Duration = Duration::from_secs(30);

/// How long nobody reaches the database: a node goes on with what it has for one term, and then 5 s are on time.
pub const OUTAGE: Duration = Duration::from_secs(14);

/// How long before it comes due a flood is handed over: so long at least, and so long for each of it.
const FLOOD_AHEAD: Duration = Duration::from_secs(10);
const FLOOD_MICROS: u64 = 120;

/// One node on its own: it is killed, held and stopped, and loses nothing.
pub async fn alone(setup: &Setup) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        kills::kill(campaign, 5).await?;
        pauses::pause(campaign, PAUSE).await?;
        kills::stop(campaign, 1).await?;
        Ok(())
    })
    .await
}

/// Nodes are killed so often, and asked to stop so often.
pub async fn deaths(setup: &Setup, killed: usize, stopped: usize) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        kills::kill(campaign, killed).await?;
        kills::stop(campaign, stopped).await?;
        Ok(())
    })
    .await
}

/// Nodes are held, and their clocks go wrong.
pub async fn times(setup: &Setup) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        pauses::pause(campaign, PAUSE).await?;
        pauses::pause(campaign, LONG_PAUSE).await?;
        clocks::shift(campaign).await?;
        Ok(())
    })
    .await
}

/// Nodes are cut off, and servers go away.
pub async fn absences(setup: &Setup) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        for how in Cut::ALL {
            cuts::cut(campaign, how).await?;
        }
        // Longer than what still counts as on time, so that what is late is late by every job's own policy.
        cuts::cut_all(campaign, Cut::Both, OUTAGE).await?;
        servers::database(campaign, Away::Restarted).await?;
        servers::database(campaign, Away::Killed).await?;
        if setup.has_redis {
            servers::kill_redis(campaign).await?;
            servers::hold_redis(campaign).await?;
        }
        Ok(())
    })
    .await
}

/// The database is killed for long and stands still, so many times each; where it is more than once, another server takes
/// over between the rounds. No node is touched, so nothing that a node knows may be forgotten.
pub async fn outages(setup: &Setup, rounds: usize) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        for round in 0..rounds {
            if round > 0 {
                switches::switch_over(campaign).await?;
            }
            servers::database(campaign, Away::KilledForLong).await?;
            servers::database(campaign, Away::Frozen).await?;
        }
        Ok(())
    })
    .await
}

/// Another database server takes over, twice, while the old one lives on; once with nodes that die meanwhile.
pub async fn switch_overs(setup: &Setup) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        switches::switch_over(campaign).await?;
        kills::kill(campaign, 1).await?;
        switches::switch_over(campaign).await?;
        Ok(())
    })
    .await
}

/// So many one-shots come due evenly over some minutes, while nodes are killed so often.
pub async fn million(setup: &Setup, count: usize, over: Duration, killed: usize) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        let ahead = FLOOD_AHEAD + Duration::from_micros(count as u64 * FLOOD_MICROS);
        let from = now() + ahead.as_millis() as i64;
        let flood = Flood { count, from, over };
        campaign.flood(flood).await?;
        for turn in 0..killed {
            pass(flood.until((turn as f64 + 0.5) / killed as f64)).await;
            kills::kill(campaign, 1).await?;
        }
        pass(flood.until(1.0)).await;
        Ok(())
    })
    .await
}

/// A little of everything.
pub async fn some(setup: &Setup) -> Result<Report, String> {
    run(setup, async |campaign: &mut Campaign| {
        kills::kill(campaign, 4).await?;
        kills::stop(campaign, 1).await?;
        pauses::pause(campaign, PAUSE).await?;
        cuts::cut(campaign, Cut::Answers).await?;
        servers::database(campaign, Away::Killed).await?;
        Ok(())
    })
    .await
}

/// Whatever the dice say, for so long. The dice start from the seed.
pub async fn long(setup: &Setup, duration: Duration) -> Result<Report, String> {
    let started = Instant::now();
    run(setup, async |campaign: &mut Campaign| {
        while started.elapsed() < duration {
            let is_alone = setup.database == Database::Embedded;
            let kinds = if is_alone { 3 } else { 17 };
            match campaign.dice.below(kinds) {
                0 => kills::kill(campaign, 3).await?,
                1 => kills::stop(campaign, 1).await?,
                2 => pauses::pause(campaign, PAUSE).await?,
                3 => pauses::pause(campaign, LONG_PAUSE).await?,
                4 => clocks::shift(campaign).await?,
                5 => servers::database(campaign, Away::Restarted).await?,
                6 => servers::database(campaign, Away::Killed).await?,
                7 if setup.has_redis => servers::kill_redis(campaign).await?,
                8 if setup.has_redis => servers::hold_redis(campaign).await?,
                9 => cuts::slow(campaign, Duration::from_millis(200), 500).await?,
                10 => cuts::cut_all(campaign, Cut::Both, Duration::from_secs(3)).await?,
                11 => cuts::cut_all(campaign, Cut::Reset, OUTAGE).await?,
                12 => switches::switch_over(campaign).await?,
                13 => servers::database(campaign, Away::KilledForLong).await?,
                14 => servers::database(campaign, Away::Frozen).await?,
                _ => {
                    let how = *campaign.dice.one_of(&Cut::ALL);
                    cuts::cut(campaign, how).await?;
                }
            }
        }
        Ok(())
    })
    .await
}
