//! The memory of joins tells the stages of a node which waiters to check soon, and for whose tasks others wait.
//!
//! Both are hints: a waiter that finds no room, or is lost with the node, waits for its look.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    flow::family::pokes::Pokes, limits::JOIN_MARKS_AGE_MAX, model::join::Marks, time_source::Moment,
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
    pub(super) reading: tokio::sync::Mutex<()>,
    /// Waiters of which a dependency has ended.
    pub(in crate::flow) ended: Pokes,
    /// Waiters all of whose dependencies are to be asked.
    pub(in crate::flow) asked: Pokes,
}

impl Joins {
    /// Tells whether tasks with this mark may have waiters; none when the copy is too old to say that they have none.
    pub(super) fn may_have(&self, mark: Marks, now: Moment) -> Option<bool> {
        let copy = self.lock();
        if copy.marks.has(mark) {
            return Some(true);
        }
        let is_fresh = copy
            .read
            .is_some_and(|read| now.since(read) < JOIN_MARKS_AGE_MAX);
        is_fresh.then_some(false)
    }

    /// Tells whether all of these marks are known to be set.
    pub(super) fn knows(&self, marks: Marks) -> bool {
        self.lock().marks.has(marks)
    }

    /// Takes over marks that are set. A copy that was read whole says when its reading began.
    pub(super) fn learn(&self, marks: Marks, read: Option<Moment>) {
        let mut copy = self.lock();
        copy.marks = copy.marks.with(marks);
        copy.read = copy.read.max(read);
    }

    fn lock(&self) -> MutexGuard<'_, Copy> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time_source::TimeSource;

    #[tokio::test(start_paused = true)]
    async fn a_copy_says_no_only_while_it_is_young() {
        let (joins, now) = (Joins::default(), TimeSource::real().moment());
        let (mail, report) = (Marks::of("mail"), Marks::of("report"));
        assert_eq!(joins.may_have(mail, now), None);
        joins.learn(Marks::default(), Some(now));
        assert_eq!(joins.may_have(mail, now), Some(false));
        let late = now.after(JOIN_MARKS_AGE_MAX);
        assert_eq!(joins.may_have(mail, late), None);
        joins.learn(mail, None);
        // A mark that is set stays set.
        let never = late.after(Duration::from_secs(3600));
        assert_eq!(joins.may_have(mail, never), Some(true));
        assert_eq!(joins.may_have(report, never), None);
        assert!(joins.knows(mail) && !joins.knows(mail.with(report)));
    }
}
