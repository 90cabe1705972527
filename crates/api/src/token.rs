//! Tokens: how they are drawn, what is stored of them, and how an admin without one gets in.

use aws_lc_rs::digest::{SHA256, digest as sum};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use calendar::Timestamp;
use punctual_core::model::Text;
use punctual_node::ports::{Digest, Door, Entropy, StoreError, TokenRow};
use punctual_protocol::Role;

/// Tells people and secret scanners what this is.
const PREFIX: &str = "pct_";

/// How many characters of the checksum end a token.
const CHECK: usize = 6;

/// A new token: the prefix, 32 random bytes, and a checksum over both by which scanners recognize it.
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

/// The digest of a token, which is stored in its place.
pub fn digest(token: &str) -> Digest {
    let mut kept = Digest::default();
    kept.copy_from_slice(sum(&SHA256, token.as_bytes()).as_ref());
    kept
}

/// Stores a token as an admin's if there is no token at all, and returns whether it did.
pub async fn add_first_admin(door: &dyn Door, token: &str, now: Timestamp) -> Result<bool, StoreError> {
    door.add_first_token(admin("admin", token, now)).await
}

/// Stores a token as an admin's, whatever tokens there are, and returns its number.
pub async fn add_admin(
    door: &dyn Door,
    name: &'static str,
    token: &str,
    now: Timestamp,
) -> Result<u32, StoreError> {
    door.add_token(admin(name, token, now)).await
}

fn admin(name: &'static str, token: &str, now: Timestamp) -> TokenRow {
    TokenRow {
        id: 0,
        name: Text::Borrowed(name),
        digest: digest(token),
        role: Text::Borrowed(Role::Admin.name()),
        apps: vec!["*".into()],
        created_at: now,
        expires_at: None,
    }
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
