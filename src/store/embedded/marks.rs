//! The marks hide from the readers of a wheel the ticks that were erased ahead of its clock.

use std::collections::HashMap;

use crate::model::{
    time::Millis,
    wheel::{Span, WheelNumber},
};

/// A tick that was erased, and whose clock may not say so yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) span: Span,
    pub(super) newest_written: i64,
}

/// The ticks of each wheel that were erased ahead of its clock.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) of: HashMap<WheelNumber, Vec<Mark>>,
}

/// The rows that readers of a wheel do not see.
#[derive(Debug)]
pub(super) struct Hidden {
    pub(super) floor: Millis,
    pub(super) marks: Vec<Mark>,
}

impl Hidden {
    /// Returns the due time up to which everything of the wheel has been erased.
    pub(super) const fn floor(&self) -> Millis {
        self.floor
    }

    /// Tells whether a row is hidden.
    pub(super) fn hides(&self, due: Millis, written: i64) -> bool {
        let covers = |mark: &Mark| written <= mark.newest_written && mark.span.contains(due);
        due <= self.floor || self.marks.iter().any(covers)
    }
}
