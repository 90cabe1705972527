//! What the front door keeps: tokens, and answers to requests that may be repeated.

use std::collections::btree_map::Entry;

use calendar::Timestamp;
use punctual_node::ports::{Begun, Digest, KeptAnswer, Remain, RequestKey, StoreError, TokenRow};

use super::state::{Request, State};

impl State {
    pub(super) fn add_token(&mut self, token: TokenRow) -> Result<u32, StoreError> {
        let id = self.last_token.checked_add(1);
        let id = id.ok_or_else(|| StoreError::Full("no more token numbers".into()))?;
        self.last_token = id;
        self.tokens.insert(id, TokenRow { id, ..token });
        Ok(id)
    }

    pub(super) fn add_first_token(&mut self, token: TokenRow) -> Result<bool, StoreError> {
        if !self.tokens.is_empty() {
            return Ok(false);
        }
        self.add_token(token).map(|_| true)
    }

    pub(super) fn revoke_token(&mut self, id: u32, remain: Option<&Remain>) -> Result<bool, StoreError> {
        if let Some(remain) = remain {
            remain.check(&Vec::from_iter(self.tokens.values().cloned()), id)?;
        }
        Ok(self.tokens.remove(&id).is_some())
    }

    pub(super) fn begin(&mut self, key: RequestKey, digest: Digest, now: Timestamp) -> Begun {
        match self.requests.entry(key) {
            Entry::Vacant(gap) => {
                gap.insert(Request { digest, begun_at: now, answer: None });
                Begun::New
            }
            Entry::Occupied(there) if there.get().digest != digest => Begun::Other,
            Entry::Occupied(there) => there.get().answer.clone().map_or(Begun::Open, Begun::Answered),
        }
    }

    /// The first answer stands: a late one, or a late request without one, changes nothing.
    pub(super) fn answer(&mut self, key: RequestKey, answer: Option<KeptAnswer>) {
        let Entry::Occupied(mut open) = self.requests.entry(key) else { return };
        if open.get().answer.is_some() {
            return;
        }
        match answer {
            Some(answer) => open.get_mut().answer = Some(answer),
            None => drop(open.remove()),
        }
    }

    pub(super) fn forget_requests(&mut self, before: Timestamp) {
        self.requests.retain(|_, request| request.begun_at >= before);
    }
}
