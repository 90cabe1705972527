//! The first job of an app makes the app.

use super::DeskError;
use crate::Node;
use crate::ports::AppRow;

impl Node {
    /// An app that a job names is there from then on. A job is good without it: an executor that registers makes it too.
    pub async fn know_app(&self, name: &str) -> Result<(), DeskError> {
        if self.app(name).is_some() {
            return Ok(());
        }
        let row = AppRow {
            name: name.to_owned().into(),
            title: "".into(),
            addresses: None,
            access_token: None,
            retention: None,
            paused: None,
            version: 0,
        };
        match self.put_app(row, Some(0)).await {
            // It was made meanwhile, and is as it should be.
            Ok(_) | Err(DeskError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
