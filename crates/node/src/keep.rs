//! Keeping reports: the senders of reports learn when these are kept, and may forget them then. Executors with a session learn it
//! through dispatch; a caller of [`Node::keep`] waits for it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_channel::oneshot;
use punctual_core::model::Text;

use crate::Node;
use crate::desk::DeskError;
use crate::ports::{Receipt, Report};

/// Where a report came from, which is where its acknowledgement goes.
#[derive(Clone, Debug)]
pub(crate) enum ReportOrigin {
    /// Dispatch brought it, or the node made it itself.
    Dispatch(Receipt),
    /// A caller of [`Node::keep`] brought it.
    Caller(KeptSignal),
}

/// Tells a caller once that its report is kept. A report may be acknowledged again, because what follows from it is written
/// after it.
#[derive(Clone, Debug)]
pub(crate) struct KeptSignal(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl KeptSignal {
    fn new() -> (KeptSignal, oneshot::Receiver<()>) {
        let (tell, told) = oneshot::channel();
        (KeptSignal(Arc::new(Mutex::new(Some(tell)))), told)
    }

    fn tell(&self) {
        if let Some(tell) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The caller may have gone.
            let _ = tell.send(());
        }
    }
}

impl Node {
    /// Takes reports, and answers when all of them are kept, or come too late, or are refused. They are taken at once: dropping
    /// the future takes none of them back. It fails only if the node ends first; the reports should then be brought again.
    pub fn keep(&self, reports: Vec<Report>) -> impl Future<Output = Result<(), DeskError>> + Send + use<> {
        let boot = self.boot();
        let mut memory = self.memory();
        let at = memory.time.now(boot);
        let mut all = Vec::with_capacity(reports.len());
        for report in reports {
            let (signal, kept) = KeptSignal::new();
            memory.receive_from(ReportOrigin::Caller(signal), report, at);
            all.push(kept);
        }
        drop(memory);
        async move {
            for kept in all {
                let ended =
                    |_| DeskError::Unknown(Text::Borrowed("the node ended before the reports were kept"));
                kept.await.map_err(ended)?;
            }
            Ok(())
        }
    }

    /// Says that reports are kept, so that their senders may forget them.
    pub(crate) fn acknowledge<'a>(&self, origins: impl IntoIterator<Item = &'a ReportOrigin>) {
        let mut receipts = Vec::new();
        for origin in origins {
            match origin {
                ReportOrigin::Dispatch(receipt) => receipts.push(*receipt),
                ReportOrigin::Caller(signal) => signal.tell(),
            }
        }
        if !receipts.is_empty() {
            self.ports.dispatch.acknowledge(receipts);
        }
    }
}
