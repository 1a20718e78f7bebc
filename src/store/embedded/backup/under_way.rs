//! The count of copies under way tells the eraser of a store that rows may still be read for a backup.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Copies of a store that are being made. While there are any, no table is dropped: erased rows may be rows of the copy.
#[derive(Debug, Clone, Default)]
pub(in crate::store::embedded) struct UnderWay(Arc<Mutex<usize>>);

impl UnderWay {
    /// Returns a guard that no copy begins beside; none while one is being made.
    pub(in crate::store::embedded) fn none(&self) -> Option<impl Drop + '_> {
        Some(self.count()).filter(|count| **count == 0)
    }

    /// Counts a copy until the answer is dropped.
    pub(super) fn begin(&self) -> Begun {
        *self.count() += 1;
        Begun(self.clone())
    }

    fn count(&self) -> MutexGuard<'_, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy that is being made.
pub(super) struct Begun(UnderWay);

impl Drop for Begun {
    fn drop(&mut self) {
        *self.0.count() -= 1;
    }
}
