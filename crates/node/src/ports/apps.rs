//! Apps and their executors, as they are kept: registrations, and what people set.

use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::Text;
use punctual_core::registry::{Dialect, Secret};

use super::store::StoreError;

/// An app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppRow {
    /// Its name.
    pub name: Text,
    /// For people.
    pub title: Text,
    /// Where its executors are, in this order; none if they register themselves.
    pub addresses: Option<Vec<Text>>,
    /// What its executors show, and are shown.
    pub access_token: Option<Secret>,
    /// How long its finished runs are kept after their day; none for as long as the node keeps others.
    pub retention: Option<Duration>,
    /// That it is paused; none while it is not. [`Apps::put_app`] does not look at it.
    pub paused: Option<Paused>,
    /// Grows with every change.
    pub version: u64,
}

/// That an app is paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Since when.
    pub since: Timestamp,
    /// The person or program that asked for it.
    pub by: Text,
    /// Why; empty if no reason was given.
    pub reason: Text,
}

/// An executor that registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorRow {
    /// Its app.
    pub app: Text,
    /// Its address, as it was said.
    pub address: Text,
    /// How it speaks.
    pub dialect: Dialect,
    /// When it was last heard of, by the store's clock.
    pub beat_at: Timestamp,
    /// When it was first heard of, by the store's clock.
    pub joined_at: Timestamp,
}

/// An executor says that it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Its app.
    pub app: Text,
    /// Its address, as it says.
    pub address: Text,
    /// How it speaks.
    pub dialect: Dialect,
}

/// Everything that is kept about apps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// By name.
    pub apps: Vec<AppRow>,
    /// By app and address.
    pub executors: Vec<ExecutorRow>,
}

/// Keeping apps and executors.
#[async_trait]
pub trait Apps: Send + Sync {
    /// All of it, in one snapshot.
    async fn registered(&self) -> Result<Registered, StoreError>;

    /// Writes down that executors are there; an app that is not known is created. The time is the store's.
    async fn beat(&self, beats: Vec<Beat>) -> Result<(), StoreError>;

    /// Forgets an executor; whether it was known.
    async fn leave(&self, app: &str, address: &str) -> Result<bool, StoreError>;

    /// Forgets executors that were not heard of for longer than `dead`, by the store's clock; which.
    async fn bury(&self, dead: Duration) -> Result<Vec<(Text, Text)>, StoreError>;

    /// One of the apps. Reads all of them; a store that can find one does better.
    async fn app(&self, name: &str) -> Result<Option<AppRow>, StoreError> {
        Ok(self.registered().await?.apps.into_iter().find(|app| app.name == name))
    }

    /// Creates or replaces an app, if it has this version (0: it must not be there; none: whatever it is). Its version
    /// from now on; a conflict otherwise. Whether it is paused stays as it is.
    async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, StoreError>;

    /// Writes down that an app is paused, or, with none, that it is not. An app that is so already stays as it is, with
    /// its first caller. Returns the app as it is now; none if it is not there.
    async fn pause_app(&self, name: &str, paused: Option<Paused>) -> Result<Option<AppRow>, StoreError>;

    /// Forgets an app with its executors. A conflict if it has jobs that are not deleted. Whether it was there.
    async fn remove_app(&self, name: &str) -> Result<bool, StoreError>;
}
