//! The life of a schedule: what a user has set, where it stands, and what users change about it.
//!
//! A schedule is one record. Each change of a user raises its generation, so that runs which were decided on before can be told
//! from those after it. Runs that wait for their start when a change comes are withdrawn; those that have begun go on.

use std::{collections::BTreeMap, time::Duration};

use super::run::Run;
use crate::model::{draft::TaskDraft, look_step::LookStep, time::Millis};

/// The fate of a run that is due while the one before has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// It does not run.
    #[default]
    Skip,
    /// Both run.
    Allow,
    /// It waits for the end of the other; one may wait.
    BufferOne,
    /// The other is told to stop; it runs when that has ended.
    CancelOther,
    /// It does not run, but that missed times follow each other: the user has said nothing, and all of them are to run.
    OneByOne,
}

/// The fate of times that passed while the service could not start their runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// The last of them within the window runs.
    #[default]
    Latest,
    /// All of them within the window run.
    All,
    /// None of them runs.
    Skip,
}

/// The settings of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// Cron expressions, as they were written.
    pub crons: Vec<String>,
    /// An interval.
    pub every: Option<Duration>,
    /// The name of the zone.
    pub zone: String,
    /// No run is before this.
    pub start: Option<Millis>,
    /// No run is behind this.
    pub end: Option<Millis>,
    /// Most runs.
    pub limit: Option<u64>,
    /// Runs start later by a part of this.
    pub jitter: Duration,
    /// About runs that would overlap.
    pub overlap: Overlap,
    /// About times that were missed.
    pub missed: Missed,
    /// How long a missed time can be made up for.
    pub window: Duration,
    /// A run that fails pauses the schedule.
    pub pause_on_failure: bool,
    /// A text for people.
    pub note: String,
    /// Labels of the schedule.
    pub labels: BTreeMap<String, String>,
    /// The task of each run.
    pub task: TaskDraft,
}

impl ScheduleSpec {
    /// Tells whether the end of a run decides about the next.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.overlap != Overlap::Allow || self.pause_on_failure
    }
}

/// Why a schedule is paused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pause {
    /// A text of the person who did it, or about the run that failed.
    pub reason: String,
    /// The person, or the service itself.
    pub who: String,
    /// Since when.
    pub since: Millis,
}

/// Where a schedule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It starts runs.
    Live,
    /// It waits for a person.
    Paused(Pause),
    /// Its times or its limit are used up.
    Ended,
    /// It was deleted. The rest withdraws its runs and keeps late writes away.
    Deleted,
}

impl State {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Paused(_) => "paused",
            Self::Ended => "ended",
            Self::Deleted => "deleted",
        }
    }
}

/// The missed times whose runs are to follow each other: at least one time of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The time of its next run.
    pub next: Millis,
    /// The time of its last one, as far as it has come.
    pub last: Millis,
}

/// A schedule, as its record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The settings of a user.
    pub spec: ScheduleSpec,
    /// This life of its name.
    pub incarnation: u128,
    /// When it was created.
    pub created: Millis,
    /// When a user changed it last.
    pub changed: Millis,
    /// The number of changes.
    pub generation: u32,
    /// The request that made the last change.
    pub change: u128,
    /// Where it stands.
    pub state: State,
    /// The look step of its tasks in this generation.
    pub step: LookStep,
    /// The number of the last run that was decided on.
    pub seq: u64,
    /// The time of the next one.
    pub next: Option<Millis>,
    /// When a node must look at it at the latest.
    pub wake: Option<Millis>,
    /// Runs whose end or start is not known yet.
    pub ahead: Vec<Run>,
    /// Times of the last minute, and of any that are to come, whose runs have begun: no generation runs them again.
    pub begun: Vec<Millis>,
    /// A run that waits for the end of another.
    pub waiting: Option<Run>,
    /// Missed times whose runs follow each other.
    pub line: Option<Line>,
    /// Runs that count against the limit.
    pub used: u64,
    /// Times that were missed and not made up for.
    pub missed: u64,
    /// Runs that were skipped because another was not over.
    pub skipped: u64,
    /// The data about time zones that `next` was computed with.
    pub zone_data: String,
}

/// The name and the time of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeMark {
    /// The request.
    pub id: u128,
    /// When it came.
    pub at: Millis,
}

impl Schedule {
    /// Returns a new schedule in place of what was there under its name, if that was deleted.
    #[must_use]
    pub fn created(
        spec: ScheduleSpec,
        replaced: Option<&Self>,
        incarnation: u128,
        step: LookStep,
        mark: ChangeMark,
    ) -> Self {
        Self {
            incarnation,
            created: mark.at,
            changed: mark.at,
            generation: replaced.map_or(1, |old| old.generation.saturating_add(1)),
            change: mark.id,
            state: State::Live,
            step,
            seq: replaced.map_or(0, |old| old.seq),
            next: None,
            wake: Some(mark.at),
            ahead: replaced.map(|old| old.ahead.clone()).unwrap_or_default(),
            begun: Vec::new(),
            waiting: None,
            line: None,
            used: 0,
            missed: 0,
            skipped: 0,
            zone_data: String::new(),
            spec,
        }
    }

    /// Returns a new one that waits for a person.
    #[must_use]
    pub fn begun_paused(self, pause: Pause) -> Self {
        let state = State::Paused(pause);
        Self { state, ..self }
    }

    /// Tells whether users see it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.state != State::Deleted
    }

    /// Tells whether it starts runs.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// Tells whether its times or its limit are used up, and its last run was due.
    #[must_use]
    pub fn has_ended(&self, now: Millis) -> bool {
        self.state == State::Ended && !self.has_runs_to_come(now)
    }

    /// Tells whether a run that was decided on is due later.
    fn has_runs_to_come(&self, now: Millis) -> bool {
        let own = |run: &&Run| run.generation == self.generation;
        let mut own = self.ahead.iter().filter(own);
        own.any(|run| run.id.first_start() > now)
    }

    /// Intervals count from here: the start that the user gave, else the creation.
    #[must_use]
    pub fn anchor(&self) -> Millis {
        self.spec.start.unwrap_or(self.created)
    }

    /// Returns it with other settings. Runs that were made so far count against the new limit, too.
    #[must_use]
    pub fn with_spec(&self, spec: ScheduleSpec, step: LookStep, mark: ChangeMark) -> Self {
        let state = match &self.state {
            State::Paused(pause) => State::Paused(pause.clone()),
            State::Live | State::Ended | State::Deleted => State::Live,
        };
        Self {
            spec,
            step,
            ..self.changed(state, mark)
        }
    }

    /// Returns it paused; none when it is so already, or has ended. A new reason takes the place of the one before, and whoever
    /// gives it that of the person before; it is paused since the same time.
    #[must_use]
    pub fn paused(&self, pause: Pause, mark: ChangeMark) -> Option<Self> {
        if let State::Paused(before) = &self.state {
            let is_new = !pause.reason.is_empty() && pause.reason != before.reason;
            return is_new.then(|| Self {
                state: State::Paused(Pause {
                    since: before.since,
                    ..pause
                }),
                changed: mark.at,
                change: mark.id,
                ..self.clone()
            });
        }
        let goes_on = self.is_live() || self.state == State::Ended && !self.has_ended(mark.at);
        goes_on.then(|| self.changed(State::Paused(pause), mark))
    }

    /// Returns it going on; none when it is not paused.
    #[must_use]
    pub fn resumed(&self, mark: ChangeMark) -> Option<Self> {
        matches!(self.state, State::Paused(_)).then(|| self.changed(State::Live, mark))
    }

    /// Returns what is left of it when it is deleted.
    #[must_use]
    pub fn deleted(&self, mark: ChangeMark) -> Self {
        self.changed(State::Deleted, mark)
    }

    /// Returns it in a new generation. Runs that waited for another are given up.
    pub(super) fn changed(&self, state: State, mark: ChangeMark) -> Self {
        let given_up = u64::from(self.waiting.is_some());
        Self {
            state,
            changed: mark.at,
            generation: self.generation.saturating_add(1),
            change: mark.id,
            next: None,
            // Its older runs are to be withdrawn, whatever becomes of the node that makes the change.
            wake: Some(mark.at),
            waiting: None,
            line: None,
            used: self.used.saturating_sub(given_up),
            ..self.clone()
        }
    }

    /// Returns it with the time from which it goes on, if it is live; it has ended if there is none.
    #[must_use]
    pub fn going_on(self, next: Option<Millis>, zone_data: String) -> Self {
        if self.state != State::Live {
            return self;
        }
        // Runs that are being withdrawn are counted until that is known.
        let has_void = self.ahead.iter().any(|run| self.is_void(run));
        let state = if next.is_some() && (!self.is_used_up() || has_void) {
            State::Live
        } else {
            State::Ended
        };
        Self {
            state,
            next,
            zone_data,
            ..self
        }
    }

    /// Returns the runs in sight that are void, and the others. A deleted schedule has void ones only.
    #[must_use]
    pub fn void_and_valid(&self) -> (Vec<Run>, Vec<Run>) {
        self.ahead
            .iter()
            .copied()
            .partition(|run| self.is_void(run))
    }

    /// Tells whether a run is to be withdrawn: a change has made it void, or it was missed.
    const fn is_void(&self, run: &Run) -> bool {
        run.generation != self.generation || run.late
    }

    /// Returns the number up to which all runs start or were skipped. A run that waits for another has a greater one.
    #[must_use]
    pub fn decided_to_run(&self) -> u64 {
        self.waiting
            .map_or(self.seq, |run| run.seq.saturating_sub(1))
    }

    /// Tells whether its limit is reached.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.spec.limit.is_some_and(|limit| self.used >= limit)
    }
}
