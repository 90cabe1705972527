//! Secrets in jobs: which values are never shown, and the masks shown in their place.
//!
//! A request with the mask keeps the stored value, so a caller can read, change and write a job without seeing its
//! secrets.

/// The mask of a signing secret.
pub const MASKED_SECRET: &str = "whsec_\u{2026}";

/// The mask of a header's value. No value can equal it, because values are ASCII.
pub const MASKED_HEADER: &str = "\u{2026}";

/// Words in a header's name that mark its value as a secret.
const WORDS: &[&str] = &["auth", "cookie", "key", "password", "secret", "session", "token"];

/// Whether a header's value is a secret, by the header's name. Secrets under other names are not recognised.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_are_for() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "COOKIE",
            "X-Api-Key",
            "apikey",
            "X-GitLab-Token",
            "Client-Secret",
            "X-Password",
            "X-Session-Id",
        ] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in ["Accept", "Content-Type", "X-Tenant", "User-Agent"] {
            assert!(!is_secret_header(name), "{name}");
        }
    }
}
