//! What is kept beside runs, for people: what attempts wrote, and what came of kills. What is said of a run that is not
//! there is not kept, since nothing would ever drop it.

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::{KeptLog, KillNote};

use super::state::State;

impl State {
    pub(super) fn log(&self, run: RunId, attempt: Attempt) -> Option<KeptLog> {
        self.runs.get(&run)?.logs.get(&attempt).cloned()
    }

    pub(super) fn keep_log(&mut self, run: RunId, attempt: Attempt, log: KeptLog) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.logs.insert(attempt, log);
        }
    }

    pub(super) fn note_kill(&mut self, run: RunId, note: KillNote) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.kills.insert(note.attempt, note);
        }
    }

    pub(super) fn kills(&self, run: RunId) -> Vec<KillNote> {
        self.runs.get(&run).map_or(Vec::new(), |run| run.kills.values().cloned().collect())
    }
}
