//! The database and Redis: restarted, killed, or frozen for a while.

use std::time::Duration;

use punctual_scratch::Signal;

use crate::campaign::{Campaign, blocking};
use crate::clock::pass;

/// How a database goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// It is stopped in order, and started again at once.
    Restarted,
    /// It is killed, and recovers at once.
    Killed,
    /// It is killed, and stays away for longer than a lease.
    KilledForLong,
    /// It is frozen with every connection open, for longer than a lease, and then carries out what it was sent.
    Frozen,
}

/// How long a killed database stays away, and how long a frozen one is frozen.
const AWAY: Duration = Duration::from_secs(3);
const AWAY_FOR_LONG: Duration = Duration::from_secs(10);
const FROZEN: Duration = Duration::from_secs(8);

/// Takes the database away, and brings it back.
pub async fn database(campaign: &mut Campaign, how: Away) -> Result<(), String> {
    campaign.had_pauses = true;
    campaign.note(&format!("the database is {how:?}"));
    let server = campaign.database.as_mut().ok_or("there is no database")?;
    match how {
        Away::Restarted => blocking(|| server.restart())?,
        Away::Killed | Away::KilledForLong => {
            blocking(|| server.kill());
            pass(if how == Away::Killed { AWAY } else { AWAY_FOR_LONG }).await;
            blocking(|| server.start())?;
        }
        Away::Frozen => {
            blocking(|| server.freeze());
            pass(FROZEN).await;
            blocking(|| server.thaw());
        }
    }
    campaign.note("the database is back");
    let whole = campaign.cluster.whole().await?;
    campaign.measured("whole after the database came back", whole);
    let went_on = campaign.received(100).await?;
    campaign.measured("work goes on after the database came back", went_on);
    Ok(())
}

/// Freezes Redis, which then accepts commands and answers none, until work has gone on without it.
pub async fn hold_redis(campaign: &mut Campaign) -> Result<(), String> {
    campaign.note("redis is held");
    campaign.redis.as_ref().ok_or("there is no redis")?.signal(Signal::STOP);
    let went_on = campaign.received(300).await;
    campaign.note("redis goes on");
    campaign.redis.as_ref().ok_or("there is no redis")?.signal(Signal::CONT);
    campaign.measured("work while redis is held", went_on?);
    campaign.cluster.whole().await?;
    Ok(())
}

/// Kills Redis until work has gone on without it, and starts it again.
pub async fn kill_redis(campaign: &mut Campaign) -> Result<(), String> {
    campaign.note("redis is killed");
    blocking(|| campaign.redis.as_mut().ok_or("there is no redis").map(|server| server.kill()))?;
    let whole = campaign.cluster.whole().await?;
    campaign.measured("whole without redis", whole);
    campaign.received(500).await?;
    campaign.note("redis is back");
    blocking(|| campaign.redis.as_mut().ok_or("there is no redis".into()).and_then(|server| server.start()))?;
    campaign.cluster.whole().await?;
    campaign.received(300).await?;
    Ok(())
}
