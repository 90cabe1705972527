//! Tokens: how they are made, and how the first of all comes to be.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest as sum};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use calendar::Timestamp;
use punctual_core::model::Text;
use punctual_node::ports::{Digest, Door, Entropy, StoreError, TokenRow};
use punctual_protocol::Role;

/// Says to people and secret scanners what this is.
const PREFIX: &str = "pct_";

/// How many characters of the sum end a token.
const CHECK: usize = 6;

/// A new token: the prefix, 32 random bytes, and a sum over both by which a scanner knows it from other text.
pub fn mint(entropy: &dyn Entropy) -> String {
    let random: Vec<u8> = (0..4).flat_map(|_| entropy.bits().to_le_bytes()).collect();
    let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
    let check = checksum(&text);
    text + &check
}

fn checksum(text: &str) -> String {
    let mut check = URL_SAFE_NO_PAD.encode(digest(text));
    check.truncate(CHECK);
    check
}

/// What is kept of a token.
pub fn digest(token: &str) -> Digest {
    let mut kept = Digest::default();
    kept.copy_from_slice(sum(&SHA256, token.as_bytes()).as_ref());
    kept
}

/// Where the first admin token came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstAdmin {
    /// There were tokens already.
    Kept,
    /// The one that was given is the first.
    Given,
    /// This one was made; nobody has seen it yet.
    Made(String),
}

/// Makes sure that somebody can come in: on an empty store, with the token that was given or with a new one.
pub async fn first_admin(
    door: &Arc<dyn Door>,
    entropy: &dyn Entropy,
    now: Timestamp,
    given: Option<&str>,
) -> Result<FirstAdmin, StoreError> {
    let made = given.is_none().then(|| mint(entropy));
    let token = given.or(made.as_deref()).unwrap_or_default();
    let row = TokenRow {
        id: 0,
        name: Text::Borrowed("admin"),
        digest: digest(token),
        role: Text::Borrowed(Role::Admin.name()),
        apps: vec!["*".into()],
        created_at: now,
        expires_at: None,
    };
    if !door.add_first_token(row).await? {
        return Ok(FirstAdmin::Kept);
    }
    Ok(made.map_or(FirstAdmin::Given, FirstAdmin::Made))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(std::sync::atomic::AtomicU64);

    impl Entropy for Counting {
        fn bits(&self) -> u64 {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        }
    }

    #[test]
    fn a_token_has_its_prefix_its_length_and_a_sum_that_holds() {
        let entropy = Counting(7.into());
        let token = mint(&entropy);
        assert!(token.starts_with("pct_") && token.len() == 4 + 43 + 6, "{token}");
        let (text, check) = token.split_at(4 + 43);
        assert_eq!(checksum(text), check);
        assert_ne!(mint(&entropy), token);
    }
}
