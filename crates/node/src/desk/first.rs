//! The first job of an app makes the app: the store writes it with the job, and this node takes note of it.

use crate::Node;

impl Node {
    /// Takes note of the app of a job that was written. If the store does not answer, the app is found with the next look at
    /// the registry.
    pub(super) async fn meet_app(&self, name: &str) {
        if self.app(name).is_some() {
            return;
        }
        if let Ok(Some(row)) = self.ports.apps.app(name).await {
            self.note_app(&row);
        }
    }
}
