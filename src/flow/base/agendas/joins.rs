//! The memory of joins tells the stages of a node which waiters to check soon, how far the dependencies of each have ended, and
//! for whose tasks others wait. It counts the waiters for figures.
//!
//! All of it are hints: a waiter that finds no room, or is lost with the node, waits for its look, and all of its rows are read.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::{
    agenda::Agenda,
    notes::{Note, Notes},
};
use crate::{
    limits::{JOIN_MARKS_AGE_MAX, JOINS_COUNTED_MAX, JOINS_REMEMBERED_MAX},
    model::{ids::TaskId, join::Marks, look, time::Millis},
    time_source::Moment,
};

#[derive(Debug, Default)]
struct Copy {
    marks: Marks,
    /// When the reading of it began.
    read: Option<Moment>,
}

/// The memory.
#[derive(Debug, Default)]
pub struct Joins {
    copy: Mutex<Copy>,
    /// Held by the one that reads the marks again.
    pub(in crate::flow) reading: tokio::sync::Mutex<()>,
    /// Waiters of which a dependency has ended, and has succeeded, or may have.
    pub(in crate::flow) ended: Agenda<TaskId>,
    /// Waiters of which a dependency has ended otherwise.
    pub(in crate::flow) failed: Agenda<TaskId>,
    /// Waiters all of whose dependencies are to be asked.
    pub(in crate::flow) asked: Agenda<TaskId>,
    /// Of waiters, the sort key behind which the first open dependency is; none is at the beginning.
    passed: Mutex<BTreeMap<TaskId, Option<Bytes>>>,
    /// Waiters that wait, for figures.
    waiting: Mutex<Notes>,
}

impl Joins {
    /// Returns behind which sort key the first open dependency of a waiter was last; none if that is not known.
    pub(in crate::flow) fn passed(&self, waiter: TaskId) -> Option<Option<Bytes>> {
        self.lock_passed().get(&waiter).cloned()
    }

    /// Remembers it. Another waiter gives way where there are too many.
    pub(in crate::flow) fn pass(&self, waiter: TaskId, behind: Option<Bytes>) {
        let mut passed = self.lock_passed();
        if passed.len() >= JOINS_REMEMBERED_MAX && !passed.contains_key(&waiter) {
            passed.pop_first();
        }
        passed.insert(waiter, behind);
    }

    /// Forgets a waiter that waits no more.
    pub(in crate::flow) fn leave(&self, waiter: TaskId) {
        self.lock_passed().remove(&waiter);
        self.waiting().forget(waiter);
    }

    /// Notes that a task of a callback goes on waiting. Each look of a waiter has it noted again.
    pub(in crate::flow) fn goes_on(&self, waiter: TaskId, callback: &str, now: Moment) {
        let note = Note {
            due: Millis::EPOCH,
            until: now.after(look::noted_for(waiter)),
            seen: now,
        };
        self.waiting()
            .put(waiter, callback, note, JOINS_COUNTED_MAX);
    }

    /// Returns the notes of tasks that wait.
    pub(in crate::flow) fn waiting(&self) -> MutexGuard<'_, Notes> {
        self.waiting.lock()
    }

    fn lock_passed(&self) -> MutexGuard<'_, BTreeMap<TaskId, Option<Bytes>>> {
        self.passed.lock()
    }

    /// Tells whether tasks with this mark may have waiters; none when the copy is too old to say that they have none.
    pub(in crate::flow) fn may_have(
        &self,
        mark: Marks,
        (now, wall): (Moment, Millis),
    ) -> Option<bool> {
        let copy = self.lock();
        if copy.marks.covers(mark, wall) {
            return Some(true);
        }
        let is_fresh = copy
            .read
            .is_some_and(|read| now.since(read) < JOIN_MARKS_AGE_MAX);
        is_fresh.then_some(false)
    }

    /// Tells whether all of these marks are known to be set.
    pub(in crate::flow) fn knows(&self, marks: Marks) -> bool {
        self.lock().marks.has(marks)
    }

    /// Takes over marks that are set. A copy that was read whole says when its reading began.
    pub(in crate::flow) fn learn(&self, marks: Marks, read: Option<Moment>) {
        let mut copy = self.lock();
        copy.marks = copy.marks.with(marks);
        copy.read = copy.read.max(read);
    }

    fn lock(&self) -> MutexGuard<'_, Copy> {
        self.copy.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{model::wheel::WheelNumber, time_source::TimeSource};

    const WALL: Millis = Millis(1_800_000_000_000);

    #[tokio::test(start_paused = true)]
    async fn a_copy_says_no_only_while_it_is_young() {
        let (joins, now) = (Joins::default(), TimeSource::real().moment());
        let (mail, report) = (Marks::of("mail"), Marks::of("report"));
        assert_eq!(joins.may_have(mail, (now, WALL)), None);
        joins.learn(Marks::default(), Some(now));
        assert_eq!(joins.may_have(mail, (now, WALL)), Some(false));
        let late = now.after(JOIN_MARKS_AGE_MAX);
        assert_eq!(joins.may_have(mail, (late, WALL)), None);
        joins.learn(mail, None);
        // A mark that is set stays set.
        let never = late.after(Duration::from_secs(3600));
        assert_eq!(joins.may_have(mail, (never, WALL)), Some(true));
        assert_eq!(joins.may_have(report, (never, WALL)), None);
        assert!(joins.knows(mail) && !joins.knows(mail.with(report)));
        // A wait for unknown tasks ends.
        let unknown = Marks::of_unknown(WALL);
        joins.learn(unknown, Some(never));
        assert_eq!(joins.may_have(report, (never, WALL)), Some(true));
        let until = unknown.all_until.unwrap();
        assert_eq!(joins.may_have(report, (never, until)), Some(false));
    }

    #[test]
    fn as_many_waiters_are_remembered_as_there_is_room_for() {
        let joins = Joins::default();
        let id = |number| TaskId::new(WALL, WheelNumber::from_low_bits(0), number);
        let behind = Some(Bytes::from_static(b"x"));
        let most = JOINS_REMEMBERED_MAX as u64;
        for number in 0..=most {
            joins.pass(id(number), behind.clone());
        }
        assert_eq!(joins.passed(id(0)), None);
        assert_eq!(joins.passed(id(most)), Some(behind));
        joins.pass(id(most), None);
        assert_eq!(joins.passed(id(most)), Some(None));
        joins.leave(id(most));
        assert_eq!(joins.passed(id(most)), None);
    }
}
