//! What is never shown: the values that open somebody's door, and what stands in their place.
//!
//! Whoever sends the mask back means the value that is stored, so a job can be read, changed and written without anybody
//! seeing its secrets.

/// What stands in the place of a signing secret that is set.
pub const MASKED_SECRET: &str = "whsec_\u{2026}";

/// What stands in the place of a header's value. No value can be it: they are ASCII.
pub const MASKED_HEADER: &str = "\u{2026}";

/// Words in a header's name that say that its value is for one receiver only.
const WORDS: &[&str] = &["auth", "cookie", "key", "password", "secret", "session", "token"];

/// Whether a header's value is for one receiver only, by its name. A secret under a name that does not say so is the
/// job's to know.
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
