//! The ports whose verbs are all written once, for each of the three stores: a trait of another crate cannot be implemented
//! for every type that runs such verbs.

use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{Attempt, RunId, Text};
use punctual_node::ports::{
    AppRow, Apps, Beat, Begun, Digest, Door, KeptAnswer, KeptLog, KillNote, Logs, Paused, Registered, Remain,
    RequestKey, StoreError, TokenRow,
};

use super::RunsCold;
use super::apps::{AllApps, BeatAll, Bury, Leave, OneApp, PauseApp, PutApp, RemoveApp};
use super::logs::{KeepLog, KillsOf, LogOf, NoteKill};
use super::requests::{Answer, Begin, ForgetRequests};
use super::tokens::{AddToken, PeerSecret, RevokeToken, Tokens};

macro_rules! ports_of {
    ($store:ty) => {
        #[async_trait]
        impl Apps for $store {
            async fn registered(&self) -> Result<Registered, StoreError> {
                self.cold(AllApps).await
            }

            async fn beat(&self, beats: Vec<Beat>) -> Result<(), StoreError> {
                self.cold(BeatAll(beats)).await
            }

            async fn leave(&self, app: &str, address: &str) -> Result<bool, StoreError> {
                self.cold(Leave { app: app.to_owned(), address: address.to_owned() }).await
            }

            async fn bury(&self, dead: Duration) -> Result<Vec<(Text, Text)>, StoreError> {
                self.cold(Bury(dead)).await
            }

            async fn app(&self, name: &str) -> Result<Option<AppRow>, StoreError> {
                self.cold(OneApp(name.to_owned())).await
            }

            async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, StoreError> {
                self.cold(PutApp { app, expected }).await
            }

            async fn pause_app(
                &self,
                name: &str,
                paused: Option<Paused>,
            ) -> Result<Option<AppRow>, StoreError> {
                self.cold(PauseApp { name: name.to_owned(), paused }).await
            }

            async fn remove_app(&self, name: &str) -> Result<bool, StoreError> {
                self.cold(RemoveApp(name.to_owned())).await
            }
        }

        #[async_trait]
        impl Door for $store {
            async fn peer_secret(&self, drawn: Digest) -> Result<Digest, StoreError> {
                self.cold(PeerSecret(drawn)).await
            }

            async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
                self.cold(Tokens).await
            }

            async fn add_token(&self, token: TokenRow) -> Result<u32, StoreError> {
                let kept = self.cold(AddToken { token, is_first: false }).await?;
                kept.ok_or_else(|| StoreError::Unknown("the token was not kept".into()))
            }

            async fn add_first_token(&self, token: TokenRow) -> Result<bool, StoreError> {
                Ok(self.cold(AddToken { token, is_first: true }).await?.is_some())
            }

            async fn revoke_token(&self, id: u32, remain: Option<&Remain>) -> Result<bool, StoreError> {
                self.cold(RevokeToken { id, remain: remain.cloned() }).await
            }

            async fn begin(
                &self,
                key: RequestKey,
                digest: Digest,
                now: Timestamp,
            ) -> Result<Begun, StoreError> {
                self.cold(Begin { key, digest, now }).await
            }

            async fn answer(&self, key: RequestKey, answer: Option<KeptAnswer>) -> Result<(), StoreError> {
                self.cold(Answer { key, answer }).await
            }

            async fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError> {
                while self.cold(ForgetRequests(before)).await? {}
                Ok(())
            }
        }

        #[async_trait]
        impl Logs for $store {
            async fn log(&self, run: RunId, attempt: Attempt) -> Result<Option<KeptLog>, StoreError> {
                self.cold(LogOf { run, attempt }).await
            }

            async fn keep_log(&self, run: RunId, attempt: Attempt, log: KeptLog) -> Result<(), StoreError> {
                self.cold(KeepLog { run, attempt, log }).await
            }

            async fn note_kill(&self, run: RunId, note: KillNote) -> Result<(), StoreError> {
                self.cold(NoteKill { run, note }).await
            }

            async fn kills(&self, run: RunId) -> Result<Vec<KillNote>, StoreError> {
                self.cold(KillsOf(run)).await
            }
        }
    };
}

ports_of!(crate::Sqlite);
ports_of!(crate::Postgres);
ports_of!(crate::mysql::MySql);
