//! The job decides for every node how bulk work over a filter goes on: its states, its pages, its pace and its leader.
//!
//! A job is one document. It names the page that is being worked on: the tasks that were found for it, and where the search
//! goes on. [`super::job_life`] replaces the page by the next one, and counts what was done, in the same write. So a crash at any
//! point repeats one page with the very same tasks, and each task is counted once. Pages have numbers. An answer about another
//! page than the present one is refused, so two leaders at once cannot count a page twice.
//!
//! Leases save work, and nothing rests on them: what is done to a task is the same when it is done twice.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::{
    entry::Key,
    ids::TaskId,
    look_step::LookStep,
    schedule::life::{Overlap, ScheduleSpec},
    time::Millis,
};

/// Tasks of a page at most.
pub const PAGE_ITEMS_MAX: usize = 200;

/// How long a job can be read after its end.
pub const KEPT: Duration = Duration::from_secs(3 * 24 * 3600);

/// How long a leader that does not write is believed to be at work: many times a page of the slowest store.
pub const LEASE: Duration = Duration::from_secs(10);

/// Tasks of a job that are shown.
pub const SAMPLE_MAX: usize = 20;

/// How often a task that fails is tried: with the pauses in between, a store has half a minute to come back.
pub const TRIES_MAX: u32 = 5;

/// Searches in a row that fail before the job does: about twenty minutes.
pub const SEARCHES_FAILED_MAX: u32 = 30;

/// The work that is done to each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// It is cancelled.
    Cancel,
    /// A dead one runs again.
    Redrive,
    /// It starts at another time.
    Reschedule,
    /// One that has ended is deleted.
    Delete,
    /// It is registered: a run of a schedule whose time has passed.
    Backfill,
    /// It starts now.
    Run,
    /// One of a tree that has succeeded begins a new round.
    Reopen,
}

impl JobKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Cancel,
        Self::Redrive,
        Self::Reschedule,
        Self::Delete,
        Self::Backfill,
        Self::Run,
        Self::Reopen,
    ];

    /// Returns the name that users know.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Redrive => "redrive",
            Self::Reschedule => "reschedule",
            Self::Delete => "delete",
            Self::Backfill => "backfill",
            Self::Run => "run",
            Self::Reopen => "reopen",
        }
    }

    /// Tells whether it works on tasks that have ended; the others work on tasks that have not.
    #[must_use]
    pub const fn is_of_ended(self) -> bool {
        match self {
            Self::Redrive | Self::Delete | Self::Reopen => true,
            Self::Cancel | Self::Reschedule | Self::Backfill | Self::Run => false,
        }
    }
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// No node has begun.
    Pending,
    /// It goes on.
    Running,
    /// It goes on when it is told to.
    Paused,
    /// All tasks that it found were worked on.
    Completed,
    /// It was told to end.
    Cancelled,
    /// Its tasks could not be found.
    Failed,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Cancelled,
        Self::Failed,
    ];

    /// Returns the name that users know.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Tells whether it never goes on.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Paused => false,
            Self::Completed | Self::Cancelled | Self::Failed => true,
        }
    }
}

/// The tasks that a job is about. A field that is absent says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Those of this callback.
    pub callback: Option<String>,
    /// Those of this collection.
    pub collection: Option<String>,
    /// Those in this state, by the name that users know.
    pub state: Option<String>,
    /// Those with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Those that start at or after this.
    pub from: Option<Millis>,
    /// Those that start before this.
    pub to: Option<Millis>,
    /// Those with this class of error.
    pub error: Option<String>,
}

impl JobFilter {
    /// Tells whether it leaves out no task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where the search for tasks goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the beginning.
    Start,
    /// In the wheels, behind a key.
    Wheels {
        /// Everything up to this key was searched.
        behind: Key,
        /// The search ends behind what is due at this instant.
        through: Millis,
        /// Only tasks that start before this are meant.
        to: Millis,
    },
    /// Among the dead letters, behind the one of this time and task.
    Letters {
        /// When the task died.
        time: Millis,
        /// The task.
        id: Uuid,
    },
    /// Among rows that are in the order of ids.
    Rows {
        /// Which rows.
        of: Rows,
        /// Behind the one of this task.
        behind: Uuid,
    },
    /// Among the times of a schedule, behind this one.
    Times {
        /// The last time that was found.
        behind: Millis,
    },
    /// Nowhere: all was searched.
    End,
}

/// Rows among which the tasks of a job are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Those of all tasks that have ended.
    Ended,
    /// Those of the tasks that ended on one day.
    Filed {
        /// Days since 1970.
        day: i64,
        /// The place of their state in the order of a day.
        state: u8,
    },
    /// Those of a label.
    Labelled,
}

/// A task of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobItem {
    /// The task.
    pub id: TaskId,
    /// Its generation when it was found.
    pub generation: u32,
    /// The time that it stands for, of a backfill.
    pub time: Option<Millis>,
}

/// The runs that a backfill makes up for. It has a copy of what was set, so a change of the schedule does not change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backfill {
    /// The name of the schedule.
    pub schedule: String,
    /// The life of that name.
    pub incarnation: u128,
    /// The generation of the schedule.
    pub generation: u32,
    /// The look step of its tasks.
    pub step: LookStep,
    /// Intervals count from here.
    pub anchor: Millis,
    /// The settings.
    pub spec: ScheduleSpec,
    /// A number of its own: the ids of its runs follow from it.
    pub seed: u128,
    /// The first time.
    pub from: Millis,
    /// The last time.
    pub to: Millis,
    /// The fate of a run whose turn comes while another has not ended.
    pub overlap: Overlap,
    /// The last run that was decided on, where its end decides about the next.
    pub last: Option<TaskId>,
}

impl Backfill {
    /// Tells whether the end of a run decides about the next.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.overlap != Overlap::Allow
    }
}

/// How many tasks met which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// They are as the job wants them.
    pub done: u64,
    /// They had ended, or did not match any more.
    pub skipped: u64,
    /// They could not be changed.
    pub failed: u64,
    /// A dry run would work on them.
    pub matching: u64,
}

/// The result of the work on a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Tasks that are as the job wants them.
    pub done: u64,
    /// Tasks that had ended, or did not match any more.
    pub skipped: u64,
    /// Tasks that can never be changed.
    pub failed: u64,
    /// Tasks that may be changed later.
    pub again: Vec<JobItem>,
    /// The thing that went wrong with one of them.
    pub error: Option<String>,
}

/// The result of a search for the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// These tasks.
    Page {
        /// The tasks.
        items: Vec<JobItem>,
        /// Where the search goes on.
        place: Place,
        /// Tasks of which no more than the id could be understood.
        unread: Vec<TaskId>,
    },
    /// The next time of a backfill, which does not run because another run has not ended.
    Passed(Place),
    /// No task yet: another run has to end first. The search goes on at this instant.
    Wait(Millis),
    /// The tasks could not be read.
    Failed(String),
}

/// The node that leads a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// This life of the node's process.
    pub node: Uuid,
    /// When another node may take the job.
    pub until: Millis,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The work.
    pub kind: JobKind,
    /// Its tasks.
    pub filter: JobFilter,
    /// Its tasks are found by rows of the index, or by their own rows once they have ended. Else those that have not ended are
    /// found in the wheels, and dead ones by their letters.
    pub by_rows: bool,
    /// The runs, of a backfill.
    pub backfill: Option<Box<Backfill>>,
    /// The new start of each task, of a reschedule.
    pub start: Option<Millis>,
    /// Tasks in a thousand seconds at most; none is as many as the store does.
    pub rate_milli: Option<u64>,
    /// Nothing is changed.
    pub dry_run: bool,
    /// When it was registered.
    pub created: Millis,
    /// The hash of the request, where its client gave it a key.
    pub request: Option<u128>,
    /// Where it stands.
    pub state: JobState,
    /// When it ended.
    pub ended: Option<Millis>,
    /// The leader.
    pub lease: Option<Lease>,
    /// The number of the page.
    pub page: u64,
    /// The tasks of the page.
    pub items: Vec<JobItem>,
    /// How often these were tried.
    pub tries: u32,
    /// Where the search goes on behind the page.
    pub place: Place,
    /// Searches that failed in a row.
    pub searches_failed: u32,
    /// The page begins at this time at the earliest.
    pub not_before: Millis,
    /// The tasks before the page.
    pub counts: Counts,
    /// All tasks, where that could be told before they were found.
    pub estimate: Option<u64>,
    /// The first tasks of a dry run.
    pub sample: Vec<TaskId>,
    /// The last thing that went wrong.
    pub error: Option<String>,
}

/// The next thing that a node does about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing, unless a person changes it.
    Rest,
    /// Nothing before this.
    Wait(Millis),
    /// It writes itself down as the leader.
    Lead,
    /// It works on the page, and finds the next one.
    Work,
}

/// A job that has ended cannot be told to go another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HasEnded;
