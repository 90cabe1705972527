//! The token of the first admin: drawn or given at the first start, and a new one when it is lost.

use std::fs;
use std::path::PathBuf;

use punctual_api::{add_admin, add_first_admin, digest, mint};
use punctual_node::ports::{Door, StoreError};

use crate::clock::{self, Machine};
use crate::config::Config;
use crate::private;

/// What a start did about the first token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// There were tokens already.
    Kept,
    /// The token that the operator gave. It is known to the operator, so it is not shown.
    Given,
    /// This token was drawn, and was never shown yet.
    Drawn(String),
}

/// Where the token is kept for the command line of this machine.
pub(crate) fn file(config: &Config) -> PathBuf {
    config.data.join("admin-token")
}

/// Makes sure that there is a token for an admin. The file is written before the store knows the token: whenever the
/// process dies, there is no token at all, or the file holds a valid one.
pub(crate) async fn ensure(door: &dyn Door, config: &Config) -> Result<First, String> {
    let told = |error: StoreError| format!("cannot keep the first token: {error}");
    let rows = door.tokens().await.map_err(told)?;
    let given = config.admin_token.as_deref();
    if !rows.is_empty() {
        if given.is_some_and(|given| rows.iter().all(|row| row.digest != digest(given))) {
            tracing::warn!(
                "PUNCTUAL_ADMIN_TOKEN is ignored: it counts at the first start only, and there are tokens"
            );
        }
        return Ok(First::Kept);
    }
    let token = given.map_or_else(|| mint(&Machine), str::to_owned);
    let path = file(config);
    private::write(&path, &token).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    if !add_first_admin(door, &token, clock::now()).await.map_err(told)? {
        // Another node was first; the valid token is in that node's folder.
        let _ = fs::remove_file(&path);
        return Ok(First::Kept);
    }
    Ok(if given.is_some() { First::Given } else { First::Drawn(token) })
}

/// A new token for an admin.
pub(crate) struct Reset {
    pub(crate) id: u32,
    pub(crate) token: String,
    /// How many other tokens were revoked.
    pub(crate) revoked: usize,
}

/// Makes a new token for an admin, and revokes all others on request.
pub(crate) async fn reset(door: &dyn Door, config: &Config, revokes_others: bool) -> Result<Reset, String> {
    let (token, path) = (mint(&Machine), file(config));
    let unwritten = |error| format!("cannot write {}: {error}", path.display());
    // The old file stays until the new token is valid.
    private::prepare(&path, &token).map_err(unwritten)?;
    let id = match add_admin(door, "reset", &token, clock::now()).await {
        Ok(id) => id,
        Err(error) => {
            private::give_up(&path);
            return Err(format!("cannot keep the new token: {error}"));
        }
    };
    private::put_in_place(&path).map_err(unwritten)?;
    let mut revoked = 0;
    if revokes_others {
        let told = |error| format!("token {id} is made, but not all others are revoked: {error}");
        for row in door.tokens().await.map_err(told)?.iter().filter(|row| row.id != id) {
            revoked += usize::from(door.revoke_token(row.id, None).await.map_err(told)?);
        }
    }
    Ok(Reset { id, token, revoked })
}
