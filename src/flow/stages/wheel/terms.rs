//! The terms of a node tell, for a clock that is moved by hand, whether everything that is due in its wheels was handed over.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::term::Term;
use crate::{
    model::{
        time::Millis,
        wheel::{Shape, WheelNumber},
    },
    time_source::Moment,
};

/// The last term of each wheel. Cheap to clone; clones are the same list.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct Terms(Arc<Mutex<HashMap<WheelNumber, Weak<Term>>>>);

impl Terms {
    /// Takes the place of the term before.
    pub(super) fn begin(&self, term: &Arc<Term>) {
        self.0.lock().insert(term.wheel, Arc::downgrade(term));
    }

    /// Tells whether this node has all wheels, and nothing that is due at `at` is left to be read or handed over.
    pub(in crate::flow) fn are_done(&self, shape: &Shape, at: Millis, now: Moment) -> bool {
        let terms = self.0.lock();
        let is_done = |term: Arc<Term>| {
            if !term.is_live(now) {
                return false;
            }
            let state = term.lock();
            state.cursor.tick > shape.tick().tick_of(at)
                && state.oldest().is_none_or(|oldest| oldest.due > at)
        };
        shape.all_wheels().all(|wheel| {
            let term = terms.get(&wheel).and_then(Weak::upgrade);
            term.is_some_and(is_done)
        })
    }
}
