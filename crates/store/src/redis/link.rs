//! The line to Redis: asked with little patience, and left alone for a while after it did not answer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::{Client, FromRedisValue, Pipeline, RedisError};
use punctual_node::ports::StoreError;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::clock;

/// How long an answer may take. Redis is asked on the way to the database, so no caller may wait long for it.
const WITHIN: Duration = Duration::from_millis(250);

/// How long it is left alone after it did not answer.
const REST: Duration = Duration::from_secs(2);

/// A line that is made again when it breaks.
pub(super) struct Link {
    client: Client,
    manager: OnceCell<ConnectionManager>,
    /// When it may be asked again, if it did not answer last.
    resting: Mutex<Option<Instant>>,
}

impl Link {
    pub(super) fn new(url: &str) -> Result<Link, StoreError> {
        // The message of the library may repeat the address, and the address a password.
        let wrong =
            |_| StoreError::Conflict("the address of Redis cannot be read: write redis://host:6379".into());
        let client = Client::open(url).map_err(wrong)?;
        Ok(Link { client, manager: OnceCell::new(), resting: Mutex::default() })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether it answered when it was last asked.
    pub(super) fn is_up(&self) -> bool {
        self.resting().is_none()
    }

    /// Asks, unless it rests; none if it did not answer.
    pub(super) async fn ask<T: FromRedisValue>(&self, pipe: &Pipeline) -> Option<T> {
        if self.resting().is_some_and(|until| clock::instant() < until) {
            return None;
        }
        let answer = tokio::time::timeout(WITHIN, async {
            let mut manager = self.manager().await?.clone();
            pipe.query_async(&mut manager).await
        });
        let answer: Result<T, RedisError> = match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))),
        };
        match answer {
            Ok(answer) => {
                *self.resting() = None;
                Some(answer)
            }
            Err(_) => {
                *self.resting() = Some(clock::instant() + REST);
                None
            }
        }
    }

    async fn manager(&self) -> Result<&ConnectionManager, RedisError> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_max_delay(WITHIN)
            .set_connection_timeout(Some(WITHIN))
            .set_response_timeout(Some(WITHIN));
        self.manager.get_or_try_init(|| ConnectionManager::new_with_config(self.client.clone(), config)).await
    }

    fn resting(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
