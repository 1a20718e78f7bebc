//! The page gathers for the lister what one request has found, and says where the next one goes on.

use std::collections::{BTreeSet, HashSet};

use uuid::Uuid;

use super::filed::{Filed, States};
use crate::{
    flow::base::api::TaskView,
    model::{entry::Key, ids::TaskId, time::Millis},
    time_source::Moment,
};

/// Where a walk stands: all that the next request needs beside the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Everything up to this key has been listed.
    pub behind: Key,
    /// The walk ends behind what is due at this instant.
    pub through: Millis,
    /// Only tasks that start before this are listed.
    pub to: Millis,
    /// The walk is among the rows of tasks that have ended, behind this id.
    pub ended: Option<TaskId>,
    /// The walk is among the rows of a label, behind this id.
    pub labelled: Option<TaskId>,
    /// The walk is among the filed rows of tasks that have ended, here.
    pub filed: Option<Filed>,
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct TaskPage {
    /// Tasks, without content, by start time.
    pub tasks: Vec<TaskView>,
    /// Where the next page begins; none: this is the last.
    pub next: Option<Cursor>,
    /// Only tasks that start before this are listed.
    pub to: Millis,
    /// Tasks that may be wanted, and whose rows cannot be understood. One may be here on two pages.
    pub unread: BTreeSet<TaskId>,
}

/// The result of one request so far, and how much more it may do.
pub(super) struct Found {
    pub(super) tasks: Vec<TaskView>,
    pub(super) ids: HashSet<TaskId>,
    pub(super) unread: BTreeSet<TaskId>,
    pub(super) tasks_max: usize,
    pub(super) slots_left: usize,
    pub(super) entries_left: usize,
    /// Parts of filed tasks that the next step reads.
    pub(super) parts: usize,
    /// It goes on beyond these bounds while it has found nothing: reading on costs no more than the next request would.
    pub(super) goes_on: bool,
    /// When the page is answered with what it has.
    pub(super) end: Moment,
}

impl Cursor {
    /// A place in the wheels.
    pub(in crate::flow) const fn in_wheels(behind: Key, through: Millis, to: Millis) -> Self {
        Self {
            behind,
            through,
            to,
            ended: None,
            labelled: None,
            filed: None,
        }
    }

    /// Returns where the walk goes on behind this place in the wheels; none at the end.
    pub(super) fn next(self, lists_ended: bool) -> Option<Self> {
        if self.behind < Key::behind(self.through) {
            return Some(self);
        }
        lists_ended.then(|| Self {
            ended: Some(before_all()),
            ..self
        })
    }

    /// Returns where a walk that has come to the end of the wheels goes on among filed tasks; none where there are none.
    pub(super) fn filed_behind(self, states: &States, now: Millis) -> Option<Self> {
        let filed = (!states.is_empty()).then(|| Filed::first(now))?;
        Some(Self {
            filed: Some(filed),
            ..self
        })
    }
}

/// Before the ids of all tasks.
pub(super) const fn before_all() -> TaskId {
    TaskId::bound(Uuid::nil())
}

impl Found {
    pub(super) fn wants_more(&self) -> bool {
        let is_within = self.slots_left > 0 && self.entries_left > 0;
        self.room() > 0 && (is_within || (self.goes_on && self.tasks.is_empty()))
    }

    pub(super) fn room(&self) -> usize {
        self.tasks_max.saturating_sub(self.tasks.len())
    }

    /// Takes a task, once; tells whether the page is full by it.
    pub(super) fn add(&mut self, task: TaskView) -> bool {
        if self.ids.insert(task.id) {
            self.tasks.push(task);
        }
        self.room() == 0
    }
}
