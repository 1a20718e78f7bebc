//! The guard of a task of which there is one at a time: when it panics, another may begin.

/// Does something when it is dropped before the end of its task.
pub(super) struct Only<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Only<F> {
    pub(super) const fn new(broke_off: F) -> Self {
        Self(Some(broke_off))
    }

    /// The task ends in order.
    pub(super) fn ends(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for Only<F> {
    fn drop(&mut self) {
        if let Some(broke_off) = self.0.take() {
            broke_off();
        }
    }
}
