//! What the front door keeps: access tokens, and the answers to requests that may be repeated.

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::Text;

use super::store::StoreError;

/// A SHA-256 sum.
pub type Digest = [u8; 32];

/// A token as it is kept: never the token itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Its number.
    pub id: u32,
    /// For people.
    pub name: Text,
    /// The sum of the token.
    pub digest: Digest,
    /// What it may do, as a word that the front door understands.
    pub role: Text,
    /// Whose jobs it may see and touch; `*` stands for all.
    pub apps: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it opens nothing any more.
    pub expires_at: Option<Timestamp>,
}

/// Which tokens are never all revoked: without one of them no further token could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remain {
    /// Tokens with this role, for all apps,
    pub role: Text,
    /// that have not expired at this instant.
    pub at: Timestamp,
}

impl Remain {
    /// Refuses to let a token go that is the last of its kind.
    pub fn check(&self, tokens: &[TokenRow], id: u32) -> Result<(), StoreError> {
        let mut kept = tokens.iter().filter(|row| self.is_met_by(row)).map(|row| row.id);
        if kept.next() == Some(id) && kept.next().is_none() {
            return Err(StoreError::Conflict(format!("token {id} is the last of its kind").into()));
        }
        Ok(())
    }

    fn is_met_by(&self, row: &TokenRow) -> bool {
        let lasts = row.expires_at.is_none_or(|at| self.at < at);
        lasts && row.role == self.role && row.apps.iter().any(|app| app == "*")
    }
}

/// What makes a repeated request the same: its caller, and the key that came with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// The caller: a token's number, or any other name that the front door gives to people.
    pub by: Text,
    /// The key.
    pub key: Text,
}

/// An answer that is kept to be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Its HTTP status.
    pub status: u16,
    /// Its body.
    pub body: Text,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: the request may be carried out, and a repetition finds it open.
    New,
    /// It was begun and not answered: it is being carried out, or the node that did so was stopped in the middle.
    Open,
    /// It was answered.
    Answered(KeptAnswer),
    /// The key came with another request.
    Other,
}

/// What the front door keeps.
#[async_trait]
pub trait Door: Send + Sync {
    /// The secret that nodes show each other: `drawn`, if there was none yet. Of several that come together one wins,
    /// for good.
    async fn peer_secret(&self, drawn: Digest) -> Result<Digest, StoreError>;

    /// All tokens, expired ones too, by number.
    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError>;

    /// Keeps a token; `id` is not looked at, the next free number is given. Numbers are never given again.
    async fn add_token(&self, token: TokenRow) -> Result<u32, StoreError>;

    /// Keeps a token if there is none at all, and says whether it did. Of several that come together one wins.
    async fn add_first_token(&self, token: TokenRow) -> Result<bool, StoreError>;

    /// Forgets a token, and says whether it was there. Conflict if it is the last of those that have to remain; of several
    /// revocations that come together one finds the others' tokens gone.
    async fn revoke_token(&self, id: u32, remain: Option<&Remain>) -> Result<bool, StoreError>;

    /// Begins a request, or says what is known of it. `digest` is the sum of what was asked.
    async fn begin(&self, key: RequestKey, digest: Digest, now: Timestamp) -> Result<Begun, StoreError>;

    /// Keeps the answer of a request that was begun; without an answer it is forgotten, because nothing was done.
    async fn answer(&self, key: RequestKey, answer: Option<KeptAnswer>) -> Result<(), StoreError>;

    /// Forgets requests that were begun before `before`.
    async fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError>;
}
