//! The seen is all that causes are computed from: where a task stands, and what it may wait for.

use std::time::Duration;

use super::cause::{End, Open};
use crate::model::{
    clock::Position,
    gate::Gate,
    ids::{NodeId, TaskId},
    local_quota::Bound,
    row::TaskRow,
    task::Spec,
    time::Millis,
};

/// A task whose causes are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its id.
    pub id: TaskId,
    /// The task as it was registered.
    pub spec: &'a Spec,
    /// Where it stands.
    pub stands: Stands<'a>,
}

/// The place where a task stands, as it was read.
#[derive(Debug, Clone, Copy)]
pub enum Stands<'a> {
    /// As its row says.
    Row(&'a TaskRow),
    /// It was registered, and nothing more is written of it.
    Registered {
        /// Its start.
        start: Millis,
        /// It goes out from the memory of the node that took it, and not from its wheel.
        near: bool,
        /// Its topic did not take it, so that it is tried again then.
        again: Option<Millis>,
    },
    /// It has no row, and its entry says that it has ended.
    Done {
        /// How.
        end: End,
        /// When.
        at: Millis,
    },
}

/// All that is known about what a task may wait for. Parts that do not concern the task may be left out.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The last sign of life of its attempt.
    pub heartbeat: Option<Millis>,
    /// The gate that keeps it from going out now.
    pub gate: Option<Gate>,
    /// The task of its sequence that it waits for.
    pub turn: Option<Ahead>,
    /// The tasks that it waits for and that have not ended.
    pub open: Option<Open>,
    /// The limit of its callback that keeps tasks back.
    pub limit: Option<Limited>,
    /// The workers of its callback; none when the service itself runs it.
    pub workers: Option<Workers>,
    /// Its wheel; none when that was not asked for.
    pub wheel: Option<Wheel>,
    /// The queue does not answer this node, which says so.
    pub queue_problem: Option<String>,
}

/// The task of a sequence that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// The task.
    pub id: TaskId,
    /// Since when it has the turn; none while it only comes first.
    pub since: Option<Millis>,
}

/// A limit that keeps tasks of a callback back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// Which one.
    pub bound: Bound,
    /// It is known that it holds tasks back now. Otherwise it is used up, and the memory of another node knows which tasks wait.
    pub certain: bool,
}

/// The workers of a callback, as the nodes publish them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workers {
    /// How many have polled within [`Self::missed`].
    pub polling: u64,
    /// When one of them last polled; none when none did within ten minutes.
    pub last: Option<Millis>,
    /// Attempts that run.
    pub running: u64,
    /// How long a poll counts.
    pub missed: Duration,
    /// Since when polls are known.
    pub known_since: Millis,
    /// The name of a callback that is polled and nearly the same.
    pub nearest: Option<String>,
}

/// The wheel of a task, as its clock row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wheel {
    /// Everything up to here was handed over.
    pub fired: Position,
    /// Its owner; none when there is none.
    pub owner: Option<NodeId>,
    /// The end of the owner's lease.
    pub lease_until: Millis,
    /// The last sign of life of its owner; none when it is not in the list of nodes any more.
    pub owner_seen: Option<Millis>,
    /// Tasks of the wheel that are due before this one and were not handed over, where they are counted.
    pub before: Option<u64>,
}

impl Workers {
    /// Tells whether no worker takes tasks: none polls, and none runs a task, after which it would poll.
    pub(super) fn are_missing(&self, now: Millis) -> bool {
        let knows = now.since(self.known_since) > self.missed;
        let polled = self.last.is_some_and(|last| now.since(last) <= self.missed);
        knows && !polled && self.polling == 0 && self.running == 0
    }
}
