//! The context holds the store, the queue, the clocks and the rules for every stage of a node.

use std::{fmt, sync::Arc, time::Duration};

use tokio::task::{JoinError, JoinSet};

use super::{
    agendas::{
        agenda::Agenda, end_waits::EndWaits, joins::Joins, outbox::Outbox, turn_queue::TurnQueue,
        watches::Watches,
    },
    api::Fault,
    budget::Budget,
    configuration::configured::Configured,
    level_memory::Levels,
    zones::Zones,
};
use crate::{
    limits,
    model::{
        clock::Rules,
        ids::{NodeId, TaskId},
        record,
        task::Spec,
        time::{Millis, Tick, TickLength},
        wheel::Shape,
    },
    queue::{Publisher, Subscriptions},
    store::{self, Store, Underway, index},
    telemetry::repeats::Repeats,
    time_source::TimeSource,
};

/// The bounds of a node that an operator may set; the defaults are those of [`crate::limits`].
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Entries that one wheel holds in memory ahead of their due time.
    pub ahead_entries_max: usize,
    /// Bytes that one wheel holds in memory ahead of their due time.
    pub ahead_bytes_max: u64,
    /// Near tasks that the node holds in memory.
    pub near_tasks_max: usize,
    /// Tasks of a wheel, with contents kept apart, that are listed for the eraser.
    pub noted_tasks_max: usize,
    /// How long what has fired is kept readable in its slot.
    pub erase_delay: Duration,
    /// How far behind the `erased` hand leftovers are removed.
    pub sweep_delay: Duration,
    /// Rows of a page of the reader.
    pub page_rows_max: usize,
    /// Callbacks that are polled at the node.
    pub poll_feeds_max: usize,
    /// The node owns wheels.
    pub scans: bool,
    /// The node answers the polls of workers. One that does not may still consume for its executor.
    pub answers_polls: bool,
    /// The data about time zones.
    pub zones: Zones,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ahead_entries_max: limits::AHEAD_ENTRIES_MAX,
            ahead_bytes_max: limits::AHEAD_BYTES_MAX,
            near_tasks_max: limits::NEAR_TASKS_MAX,
            noted_tasks_max: limits::NOTED_TASKS_MAX,
            erase_delay: limits::ERASE_DELAY,
            sweep_delay: limits::SWEEP_DELAY,
            page_rows_max: limits::PAGE_ROWS_MAX,
            poll_feeds_max: limits::POLL_FEEDS_MAX_EMBEDDED,
            scans: true,
            answers_polls: true,
            zones: Zones::default(),
        }
    }
}

/// The parts of a node that every stage is given.
pub struct Context {
    /// This life of the process.
    pub me: NodeId,
    /// The name that people use for the node.
    pub name: String,
    /// Where its API answers.
    pub address: String,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The same store, when it is this node's alone and the queue forgets what it holds when the process ends.
    pub underway: Option<Arc<dyn Underway>>,
    /// The queue.
    pub publisher: Arc<dyn Publisher>,
    /// Makes consumers for workers that poll, and for the executor; none on a node that does not consume for them (roles
    /// `controller` and `executor`).
    pub subscriptions: Option<Arc<dyn Subscriptions>>,
    /// Clocks and randomness.
    pub time: TimeSource,
    /// Constants of the clock protocol.
    pub rules: Rules,
    /// Memory for contents that are kept apart, while the node moves them.
    pub contents: Budget,
    /// Sequences in which a task may run now.
    pub turn_queue: TurnQueue,
    /// Parents whose trees are to be checked soon.
    pub pokes: Agenda<TaskId>,
    /// Waiters that are to be checked soon, and whose ends are waited for.
    pub joins: Joins,
    /// Internal tasks on their way to be registered.
    pub outbox: Outbox,
    /// Requests that wait for the ends of tasks: every end that this node writes wakes them.
    pub end_waits: EndWaits,
    /// Readers that follow tasks and callbacks.
    pub watches: Watches,
    /// The configuration of callbacks, for stages that have nothing but this context.
    pub configured: Configured,
    /// The levels of the cluster's nodes.
    pub levels: Levels,
    /// Steps of wheels that failed: one outage keeps all of them from going on.
    pub failed_steps: Repeats,
    /// Bounds.
    pub settings: Settings,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("me", &self.me)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// The context of a node that knows nothing yet, answers no polls and has the default bounds. A caller sets the fields that
    /// differ.
    #[must_use]
    pub fn new(
        me: NodeId,
        store: Arc<dyn Store>,
        publisher: Arc<dyn Publisher>,
        time: TimeSource,
        rules: Rules,
    ) -> Self {
        Self {
            me,
            name: "node".to_owned(),
            address: String::new(),
            store,
            underway: None,
            publisher,
            subscriptions: None,
            time,
            rules,
            contents: Budget::default(),
            turn_queue: TurnQueue::default(),
            pokes: Agenda::default(),
            joins: Joins::default(),
            outbox: Outbox::default(),
            end_waits: EndWaits::default(),
            watches: Watches::default(),
            configured: Configured::default(),
            levels: Levels::default(),
            failed_steps: Repeats::default(),
            settings: Settings::default(),
        }
    }

    pub(in crate::flow) const fn shape(&self) -> &Shape {
        &self.rules.shape
    }

    pub(in crate::flow) const fn tick(&self) -> TickLength {
        self.rules.shape.tick()
    }

    pub(in crate::flow) fn now(&self) -> Millis {
        self.time.now()
    }

    /// Returns the newest sign of life that an attempt may have given: one that the store may have lost counts, and a move of the
    /// clock by hand, between which and the sign before no time has passed for its worker.
    pub(in crate::flow) fn sign_of_life(&self, heartbeat: Option<Millis>) -> Option<Millis> {
        let moved = self.time.moved_to();
        heartbeat.max(self.store.heartbeats_kept_since()).max(moved)
    }

    /// The last tick that a healthy owner has opened by now.
    pub(in crate::flow) fn opened_by_now(&self) -> Tick {
        self.opened_by(self.now())
    }

    /// The last tick that a healthy owner has opened by the time that a write that begins now has surely ended.
    pub(in crate::flow) fn opened_soon(&self) -> Tick {
        self.opened_by(self.now().after(limits::CLOSING_MARGIN))
    }

    fn opened_by(&self, at: Millis) -> Tick {
        self.tick().last_ended(at).plus(self.rules.look_ahead)
    }
}

/// The bounds of requests are narrower than those of the index, so this does not happen.
impl From<index::Refused> for Fault {
    fn from(refused: index::Refused) -> Self {
        unsuitable(refused.to_string())
    }
}

/// The bounds of requests are narrower than those of records, so this does not happen.
impl From<record::Refused> for Fault {
    fn from(refused: record::Refused) -> Self {
        unsuitable(refused.to_string())
    }
}

fn unsuitable(reason: String) -> Fault {
    store::Error::Unsuitable { reason }.into()
}

impl From<store::Error> for Fault {
    fn from(error: store::Error) -> Self {
        let reason = error.to_string();
        match error {
            store::Error::Full { .. } => Self::Full {
                reason,
                retry_after: Duration::from_secs(30),
            },
            store::Error::Unavailable { .. }
            | store::Error::Corrupt { .. }
            | store::Error::Newer { .. }
            | store::Error::Unsuitable { .. } => Self::Unavailable {
                reason,
                retry_after: Duration::from_secs(1),
            },
        }
    }
}

/// The result of a step of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Stepped {
    /// Something was done, and more can be done at once.
    More,
    /// The stage can do nothing before time passes or it is notified.
    Idle,
}

/// The batches that are being handed over. Looks, and those whose contents are kept apart, have places of their own.
#[derive(Debug)]
pub(in crate::flow) struct Firing {
    small: JoinSet<()>,
    looks: JoinSet<()>,
    large: JoinSet<()>,
    /// Tasks of a small batch.
    small_tasks_max: usize,
    /// Small batches at once.
    small_max: usize,
}

/// Which tasks a batch is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Lane {
    /// Tasks that carry their contents.
    Small,
    /// Looks.
    Looks,
    /// Tasks whose contents must be read first.
    Large,
}

impl Lane {
    /// All of them.
    pub(in crate::flow) const ALL: [Self; 3] = [Self::Small, Self::Looks, Self::Large];

    /// Returns the lane of a task.
    pub(in crate::flow) const fn of(spec: &Spec) -> Self {
        match spec.bytes_apart() {
            None => Self::Small,
            Some(_) => Self::Large,
        }
    }
}

impl Firing {
    /// Starts with no batch under way; `at_once` is how many records the queue can use at once, if it says
    /// so.
    pub(in crate::flow) fn new(at_once: Option<usize>) -> Self {
        let (small_tasks_max, small_max) = match at_once {
            Some(records) => (
                records.clamp(1, limits::STEP_ENTRIES_MAX),
                limits::PUBLISHES_IN_FLIGHT_FEW,
            ),
            None => (limits::STEP_ENTRIES_MAX, limits::PUBLISHES_IN_FLIGHT_MAX),
        };
        Self {
            small: JoinSet::new(),
            looks: JoinSet::new(),
            large: JoinSet::new(),
            small_tasks_max,
            small_max,
        }
    }

    /// Returns of how many tasks a batch of a lane is at most.
    pub(super) const fn tasks_max(&self, lane: Lane) -> usize {
        match lane {
            Lane::Small => self.small_tasks_max,
            Lane::Looks | Lane::Large => limits::STEP_ENTRIES_MAX,
        }
    }

    /// Tells whether another batch of a lane may begin.
    fn has_place(&self, lane: Lane) -> bool {
        match lane {
            Lane::Small => self.small.len() < self.small_max,
            Lane::Looks => self.looks.len() < limits::LOOKS_IN_FLIGHT_MAX,
            Lane::Large => self.large.len() < limits::LARGE_PUBLISHES_IN_FLIGHT_MAX,
        }
    }

    /// Returns when the next task is due of those lanes that have a place; `due` tells it of one lane.
    pub(in crate::flow) fn next_due(&self, due: impl Fn(Lane) -> Option<Millis>) -> Option<Millis> {
        let lanes = Lane::ALL.into_iter();
        let open = lanes.filter(|lane| self.has_place(*lane));
        open.filter_map(due).min()
    }

    /// Tells whether nothing is being handed over.
    pub(in crate::flow) fn is_empty(&self) -> bool {
        self.small.is_empty() && self.looks.is_empty() && self.large.is_empty()
    }

    /// Takes a batch of each lane that has a place, and starts handing it over; says whether more may be taken.
    pub(in crate::flow) fn hand_over<T, F>(
        &mut self,
        mut take: impl FnMut(Lane, usize) -> Vec<T>,
        mut fire: impl FnMut(Vec<T>) -> F,
    ) -> Stepped
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut stepped = Stepped::Idle;
        for lane in Lane::ALL {
            if !self.has_place(lane) {
                continue;
            }
            let batch = take(lane, self.tasks_max(lane));
            if batch.is_empty() {
                continue;
            }
            let lane = match lane {
                Lane::Small => &mut self.small,
                Lane::Looks => &mut self.looks,
                Lane::Large => &mut self.large,
            };
            lane.spawn(fire(batch));
            stepped = Stepped::More;
        }
        stepped
    }

    /// Waits until a batch has been handed over, and returns how that ended; none when there is no batch.
    ///
    /// A caller that is cancelled while it waits loses nothing.
    pub(in crate::flow) async fn ended(&mut self) -> Option<Result<(), JoinError>> {
        tokio::select! {
            biased;
            Some(ended) = self.small.join_next() => Some(ended),
            Some(ended) = self.looks.join_next() => Some(ended),
            Some(ended) = self.large.join_next() => Some(ended),
            else => None,
        }
    }
}
