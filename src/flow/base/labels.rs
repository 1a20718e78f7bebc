//! Labels name callbacks in metrics for operators: the first ones by name, all others together. So clients
//! that invent names cannot fill the memory of the system that keeps the metrics.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::limits::CALLBACKS_TOLD_MAX;

/// The label of those beyond the first.
pub(in crate::flow) const OTHERS: &str = "(other)";

static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Returns the label of a callback; that of a `kafka` target is empty.
#[must_use]
pub(in crate::flow) fn label(callback: &str) -> String {
    let mut known = KNOWN.lock();
    label_among(&mut known, callback).to_owned()
}

/// Tells whether a callback has a label of its own.
#[must_use]
pub(in crate::flow) fn is_known(callback: &str) -> bool {
    let known = KNOWN.lock();
    known.contains(callback)
}

fn label_among<'a>(known: &mut BTreeSet<String>, callback: &'a str) -> &'a str {
    if known.contains(callback) || callback.is_empty() {
        return callback;
    }
    if known.len() >= CALLBACKS_TOLD_MAX {
        return OTHERS;
    }
    known.insert(callback.to_owned());
    callback
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_have_labels_of_their_own() {
        let mut known = BTreeSet::new();
        for number in 0..CALLBACKS_TOLD_MAX {
            let name = format!("callback-{number}");
            assert_eq!(label_among(&mut known, &name), name);
        }
        assert_eq!(label_among(&mut known, "one-more"), OTHERS);
        assert_eq!(label_among(&mut known, "callback-7"), "callback-7");
        assert_eq!(known.len(), CALLBACKS_TOLD_MAX);
    }
}
