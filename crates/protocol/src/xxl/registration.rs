//! `registry` and `registryRemove`: an executor registers its address, or removes it.

use serde_json::Value;

use super::{answer, value};

/// A registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// `EXECUTOR`.
    pub group: String,
    /// The name of its app.
    pub app: String,
    /// Its address exactly as it was sent, which is its identity.
    pub address: String,
}

impl Registration {
    /// Reads a body; the error is the answer to send.
    pub fn read(body: &[u8]) -> Result<Registration, String> {
        if body.trim_ascii().is_empty() {
            return Err(answer::NO_BODY.to_owned());
        }
        let said = value::read(body).map_err(|error| format!("the body is no JSON: {error}"))?;
        let field = |name| word(&said, name).ok_or_else(|| answer::ILLEGAL_ARGUMENT.to_owned());
        Ok(Registration {
            group: field("registryGroup")?,
            app: field("registryKey")?,
            address: field("registryValue")?,
        })
    }
}

/// A text that is not empty and has no control characters.
fn word(said: &Value, name: &str) -> Option<String> {
    let text = said.get(name)?.as_str()?;
    let is_fit = !text.trim().is_empty() && !text.chars().any(char::is_control);
    is_fit.then(|| text.to_owned())
}
