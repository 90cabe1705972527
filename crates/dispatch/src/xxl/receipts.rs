//! Receipts: reports that somebody waits for to be kept.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use punctual_node::ports::{Receipt, Report};
use tokio::sync::Notify;

use crate::http::ledger::locked;

/// Agents number their reports from 1. What the inbox acknowledges is told both, so ours begin where theirs never get.
const FIRST: u64 = 1 << 63;

/// Reports were not kept in time. They may still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unkept;

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reports were not kept in time")
    }
}

impl std::error::Error for Unkept {}

#[derive(Default)]
pub(super) struct Receipts {
    given: AtomicU64,
    awaited: Mutex<BTreeMap<Receipt, Arc<Pending>>>,
}

struct Pending {
    left: AtomicUsize,
    kept: Notify,
}

impl Receipts {
    /// One that nobody waits for.
    pub(super) fn fresh(&self) -> Receipt {
        Receipt(FIRST + self.given.fetch_add(1, Ordering::Relaxed))
    }

    /// Gives each report a receipt, and waits for it.
    pub(super) fn expect(&self, reports: &mut [Report]) -> Waiting<'_> {
        let count = reports.len();
        let first = FIRST + self.given.fetch_add(count as u64, Ordering::Relaxed);
        let pending = Arc::new(Pending { left: AtomicUsize::new(count), kept: Notify::new() });
        let mut awaited = locked(&self.awaited);
        for (report, number) in reports.iter_mut().zip(first..) {
            report.receipt = Receipt(number);
            awaited.insert(report.receipt, pending.clone());
        }
        Waiting { receipts: self, numbers: first..first + count as u64, pending }
    }

    pub(super) fn acknowledge(&self, receipts: &[Receipt]) {
        let mut awaited = locked(&self.awaited);
        let kept = receipts.iter().filter(|receipt| receipt.0 >= FIRST);
        for pending in kept.filter_map(|receipt| awaited.remove(receipt)) {
            if pending.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                pending.kept.notify_one();
            }
        }
    }
}

/// Somebody waits for receipts; forgotten when it is dropped.
pub(super) struct Waiting<'a> {
    receipts: &'a Receipts,
    numbers: Range<u64>,
    pending: Arc<Pending>,
}

impl Waiting<'_> {
    /// Waits until all of them are acknowledged.
    pub(super) async fn kept(&self) {
        if !self.numbers.is_empty() {
            self.pending.kept.notified().await;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.pending.left.load(Ordering::Acquire) > 0 {
            let mut awaited = locked(&self.receipts.awaited);
            self.numbers.clone().for_each(|number| drop(awaited.remove(&Receipt(number))));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let receipts = Receipts::default();
        drop(receipts.expect(&mut []));
        let mut reports = vec![super::super::ledger::tests::report(); 3];
        let waiting = receipts.expect(&mut reports);
        assert_eq!(locked(&receipts.awaited).len(), 3);
        receipts.acknowledge(&[reports[1].receipt, reports[1].receipt, Receipt(1)]);
        assert_eq!((locked(&receipts.awaited).len(), waiting.pending.left.load(Ordering::SeqCst)), (2, 2));
        drop(waiting);
        assert!(locked(&receipts.awaited).is_empty());
        receipts.acknowledge(&[reports[0].receipt]);
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_last_receipt() {
        let receipts = Receipts::default();
        let mut reports = vec![super::super::ledger::tests::report(); 2];
        let waiting = receipts.expect(&mut reports);
        let mut kept = pin!(waiting.kept());
        for report in &reports {
            let is_kept =
                std::future::poll_fn(|cx| std::task::Poll::Ready(kept.as_mut().poll(cx).is_ready())).await;
            assert!(!is_kept);
            receipts.acknowledge(&[report.receipt]);
        }
        kept.await;
        assert_ne!(reports[0].receipt, reports[1].receipt);
    }
}
