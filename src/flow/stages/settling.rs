//! The count of reports of workers that are being recorded tells the walk that the ends of tasks are not complete yet.

use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Settling(AtomicUsize);

/// Counts a report as long as it is held.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl Settling {
    /// Counts a report.
    pub(super) fn begin(&self) -> Counted<'_> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Counted(&self.0)
    }

    /// Tells whether any is being recorded.
    pub(super) fn is_under_way(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
