//! Access tokens in memory: compared and sent, and never printed.

use std::fmt;

/// A text that `Debug` does not print.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: &str) -> Secret {
        Secret(text.into())
    }

    /// The text, for the one place that sends or stores it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the shown text is the same. The time that the comparison takes reveals its length and nothing else.
    pub fn matches(&self, shown: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), shown.as_bytes());
        let differing = ours.iter().zip(theirs).fold(0, |bits, (a, b)| std::hint::black_box(bits | (a ^ b)));
        ours.len() == theirs.len() && differing == 0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::super::App;
    use super::*;

    #[test]
    fn a_secret_is_compared_and_never_printed() {
        let secret = Secret::new("default_token");
        for (shown, is_same) in
            [("default_token", true), ("default_tokem", false), ("default_toke", false), ("", false)]
        {
            assert_eq!(secret.matches(shown), is_same, "{shown}");
        }
        assert!(!secret.matches("default_token "));
        let app = App { access_token: Some(secret.clone()), ..App::auto("reports") };
        assert_eq!(format!("{secret} {secret:?}"), "[secret] [secret]");
        assert!(!format!("{app:?} {app:#?}").contains("default"), "{app:?}");
    }
}
