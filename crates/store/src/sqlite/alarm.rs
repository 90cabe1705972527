//! Threads that end before their time: a watcher is told of one that panics, because without it the store would
//! only say, for ever, that it has ended.

use tokio::sync::watch;

/// Which thread has panicked, if one has.
pub(super) type Watched = watch::Receiver<Option<&'static str>>;

/// What a thread holds while it works. Dropped by a panic, it raises the alarm.
#[derive(Clone)]
pub(super) struct Alarm {
    name: &'static str,
    raised: watch::Sender<Option<&'static str>>,
}

impl Alarm {
    pub(super) fn new() -> (Alarm, Watched) {
        let (raised, watched) = watch::channel(None);
        (Alarm { name: "", raised }, watched)
    }

    /// The same for a thread by this name.
    pub(super) fn of(&self, name: &'static str) -> Alarm {
        Alarm { name, raised: self.raised.clone() }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.raised.send_replace(Some(self.name));
        }
    }
}
