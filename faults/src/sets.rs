//! Sets of faults in order: the short ones of the test command, and the long one, which repeats.

use std::time::{Duration, Instant};

use crate::breaking::cuts::{self, Cut};
use crate::breaking::servers::{self, Away};
use crate::breaking::{clocks, kills, pauses, switches};
use crate::campaign::{Campaign, CampaignSetup, Database, run};
use crate::clock::{now, pass};
use crate::flood::Flood;
use crate::report::CampaignReport;

/// The two lengths of a pause: longer than a lease, and much longer.
pub const PAUSE: Duration = Duration::from_secs(8);
pub const LONG_PAUSE: Duration = Duration::from_secs(30);

/// How long no node reaches the database: longer than one lease term, for which nodes go on, plus the 5 s that count as on
/// time.
pub const OUTAGE: Duration = Duration::from_secs(14);

/// The time between the submission of a flood and its first due time: this much at least, plus this much for each run.
const FLOOD_AHEAD: Duration = Duration::from_secs(10);
const FLOOD_MICROS: u64 = 120;

/// A single node is killed, paused and stopped, and loses nothing.
pub async fn alone(setup: &CampaignSetup) -> Result<CampaignReport, String> {
    run(setup, async |campaign: &mut Campaign| {
        kills::kill(campaign, 5).await?;
        pauses::pause(campaign, PAUSE).await?;
        kills::stop(campaign, 1).await?;
        Ok(())
    })
    .await
}

/// Nodes are killed and stopped, this many times each.
pub async fn deaths(setup: &CampaignSetup, killed: usize, stopped: usize) -> Result<CampaignReport, String> {
    run(setup, async |campaign: &mut Campaign| {
        kills::kill(campaign, killed).await?;
        kills::stop(campaign, stopped).await?;
        Ok(())
    })
    .await
}

/// Nodes are paused, and their clocks are set wrong.
pub async fn times(setup: &CampaignSetup) -> Result<CampaignReport, String> {
    run(setup, async |campaign: &mut Campaign| {
        pauses::pause(campaign, PAUSE).await?;
        pauses::pause(campaign, LONG_PAUSE).await?;
        clocks::shift(campaign).await?;
        Ok(())
    })
    .await
}

/// Nodes are cut off, and servers are stopped.
pub async fn absences(setup: &CampaignSetup) -> Result<CampaignReport, String> {
    run(setup, async |campaign: &mut Campaign| {
        for how in Cut::ALL {
            cuts::cut(campaign, how).await?;
        }
        // Longer than what counts as on time, so that every job's own policy decides about late runs.
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

/// The database is killed for long, frozen, and replaced by another server, `rounds` times each. No node is touched, so no
/// result that a node knows may be lost.
pub async fn outages(setup: &CampaignSetup, rounds: usize) -> Result<CampaignReport, String> {
    run(setup, async |campaign: &mut Campaign| {
        for _ in 0..rounds {
            servers::database(campaign, Away::KilledForLong).await?;
            servers::database(campaign, Away::Frozen).await?;
            switches::switch_over(campaign).await?;
        }
        Ok(())
    })
    .await
}

/// Two switch-overs to another database server while the old one lives on, one of them while nodes die.
pub async fn switch_overs(setup: &CampaignSetup) -> Result<CampaignReport, String> {
    run(setup, async |campaign: &mut Campaign| {
        switches::switch_over(campaign).await?;
        kills::kill(campaign, 1).await?;
        switches::switch_over(campaign).await?;
        Ok(())
    })
    .await
}

/// `count` one-shots are due evenly over some minutes, while nodes are killed.
pub async fn million(
    setup: &CampaignSetup,
    count: usize,
    over: Duration,
    killed: usize,
) -> Result<CampaignReport, String> {
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
pub async fn some(setup: &CampaignSetup) -> Result<CampaignReport, String> {
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

/// Random faults for `duration`, drawn from the seed.
pub async fn long(setup: &CampaignSetup, duration: Duration) -> Result<CampaignReport, String> {
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
