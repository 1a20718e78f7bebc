//! The life of an entry tells a store that expires rows by itself how long each entry must be there.
//!
//! An entry that acts stays until it is erased. A done entry has no more use after the time of its slot, and
//! expires a while later: its slot may be read and erased long before, and no stage comes back for a later
//! mark. An entry that takes a content along is the exception: the eraser learns from it which content to
//! delete, however long the service was switched off meanwhile.

use std::time::Duration;

use super::{
    entry::{DoneReason, Entry, Kind},
    time::Millis,
    wheel::Shape,
};

/// How long a done entry stays behind its slot's time, to be found by those that ask what became of its task.
const DONE_TTL: Duration = Duration::from_secs(2 * 24 * 3600);

/// Returns when an entry expires; none for one that stays until it is erased.
#[must_use]
pub fn expires(entry: &Entry, shape: &Shape) -> Option<Millis> {
    let Kind::Done { reason, .. } = entry.kind else {
        return None;
    };
    let is_moved = matches!(reason, DoneReason::Moved { .. });
    if entry.takes_content_along() && !is_moved {
        return None;
    }
    let written = Millis(entry.written.div_euclid(1000));
    let slot_end = shape.tick().end_of(shape.tick().tick_of(entry.key.due));
    Some(slot_end.max(written).after(DONE_TTL))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        fixtures::{START, id, shape, spec},
        target::Target,
        task::Body,
    };

    #[test]
    fn an_entry_that_is_done_expires_behind_its_slot_unless_a_content_goes_with_it() {
        let shape = shape();
        let entry = Entry::due(id(), 0, 0, START, Arc::new(spec()), 1_000_000);
        assert_eq!(expires(&entry, &shape), None);
        let done = |entry: &Entry, reason, at: Millis| {
            expires(&entry.marked_done(reason, at, at.0 * 1000), &shape)
        };
        let (cancelled, published) = (DoneReason::Cancelled, DoneReason::Published);
        let moved = DoneReason::Moved { to: START };
        let slot_end = shape.tick().end_of(shape.tick().tick_of(START));
        let (early, late) = (
            Millis(START.0 - 9_000),
            slot_end.after(Duration::from_secs(5)),
        );
        for reason in [cancelled, published, moved] {
            let behind_slot = Some(slot_end.after(DONE_TTL));
            assert_eq!(done(&entry, reason, early), behind_slot);
            assert_eq!(done(&entry, reason, late), Some(late.after(DONE_TTL)));
        }
        let mut record = spec();
        record.body = Body::Apart { bytes: 5000 };
        record.target = Target::Kafka {
            topic: "users".to_owned(),
            partition: None,
        };
        let record = Entry::due(id(), 0, 0, START, Arc::new(record), 1_000_000);
        assert_eq!(done(&record, cancelled, early), None);
        assert_eq!(done(&record, published, late), None);
        // Its content belongs to the entry further on.
        assert!(done(&record, moved, early).is_some());
    }
}
