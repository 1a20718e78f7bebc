//! `ScenePlan` is a part of a plan: a group of tasks, and of calls about them, that use the operating model together.
//!
//! The tasks of a scene have a callback of their own, so that what is set for it concerns no other task. Each has its place in
//! its payload, by which a worker finds the plan of its handler: the ids of follow-ups and of runs are made by the service.
//! Times are milliseconds from the beginning of the run, as in [`super::plan`].

use tickwheel::model::{gate::GateState, job::JobKind, key::OnConflict, schedule::life::Overlap};

use super::plan::{AttemptPlan, CallPlan, EndPlan};

/// The claim timeout of all tasks of scenes.
pub(crate) const CLAIM_TIMEOUT: u64 = 5000;

/// The heartbeat timeout of all tasks of scenes.
pub(crate) const HEARTBEAT_TIMEOUT: u64 = 4000;

/// A group of tasks and calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ScenePlan {
    pub(crate) number: usize,
    /// The feature that drew it.
    pub(crate) feature: &'static str,
    /// Tokens in ten seconds, and the burst.
    pub(crate) rate: Option<(u32, u32)>,
    pub(crate) in_flight: Option<u32>,
    /// Its tasks are for a host: they share the queue of all such tasks.
    pub(crate) for_host: bool,
    pub(crate) items: Vec<ItemPlan>,
    /// The calls of an operator, one after the other.
    pub(crate) steps: Vec<StepPlan>,
}

/// A task of a scene.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ItemPlan {
    pub(crate) number: usize,
    /// When its client registers it. A template is not registered: the service makes tasks of it.
    pub(crate) at: u64,
    pub(crate) start: u64,
    pub(crate) template: bool,
    pub(crate) collection: u8,
    pub(crate) max_attempts: u32,
    /// The plan of the handler for each attempt; the last one is repeated.
    pub(crate) attempts: Vec<AttemptPlan>,
    pub(crate) ordering_key: Option<u8>,
    pub(crate) key: Option<(u8, OnConflict)>,
    /// It has no id of its client; its request has an `Idempotency-Key`, and is sent twice.
    pub(crate) marked: bool,
    pub(crate) parent: Option<usize>,
    pub(crate) is_parent: bool,
    pub(crate) after_parent: bool,
    /// It waits for these.
    pub(crate) after: Vec<usize>,
    /// They must succeed.
    pub(crate) all_succeed: bool,
    pub(crate) then: Vec<FollowPlan>,
    /// Its end is told to a topic.
    pub(crate) told: bool,
    /// An e-mail is sent at its end.
    pub(crate) mailed: bool,
    /// The later calls of its client, one after the other.
    pub(crate) calls: Vec<CallPlan>,
}

/// A task that follows another. Its item is a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FollowPlan {
    pub(crate) item: usize,
    /// It follows a success; else any other end of the run.
    pub(crate) success: bool,
    pub(crate) wait: u64,
    pub(crate) in_tree: bool,
}

/// A call of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepPlan {
    pub(crate) at: u64,
    pub(crate) what: Step,
}

/// The request of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sets a gate: of a collection, or of the callback.
    Gate(Option<u8>, GateState),
    /// Lists the dead tasks, and makes them run again.
    Redrive,
    /// Has the failed part of the tree of the first task run again.
    Retry,
    /// Registers a job over a collection. A reschedule is to this time.
    Job(JobKind, u8, Option<u64>),
    /// Creates a schedule.
    Put(SchedulePlan),
    Pause,
    Resume,
    Trigger,
    Delete,
}

/// A schedule, whose runs are made of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchedulePlan {
    pub(crate) item: usize,
    pub(crate) every: u64,
    pub(crate) overlap: Overlap,
    /// All missed times run; else the latest.
    pub(crate) all_missed: bool,
    pub(crate) limit: u64,
}

impl ScenePlan {
    /// The callback of its tasks.
    pub(crate) fn callback(&self) -> String {
        callback(self.number)
    }

    pub(crate) fn item(&self, number: usize) -> Option<&ItemPlan> {
        self.items.iter().find(|item| item.number == number)
    }

    /// Leaves only these tasks, and drops what needs one that is gone.
    pub(crate) fn keep(&mut self, wanted: impl Fn(usize) -> bool) {
        self.items.retain(|item| wanted(item.number));
        loop {
            let left: Vec<usize> = self.items.iter().map(|item| item.number).collect();
            let has = |item: &usize| left.contains(item);
            self.items
                .retain(|item| item.parent.is_none_or(|parent| has(&parent)));
            for item in &mut self.items {
                item.after.retain(has);
                item.then.retain(|follow| has(&follow.item));
            }
            self.steps.retain(|step| match step.what {
                Step::Put(schedule) => has(&schedule.item),
                _ => true,
            });
            if self.items.len() == left.len() {
                return;
            }
        }
    }

    /// The time of the last planned event.
    pub(crate) fn last(&self) -> u64 {
        let items = self.items.iter().map(|item| {
            let calls = item.calls.iter().map(CallPlan::ends);
            calls.fold(item.at.max(item.start), u64::max)
        });
        let steps = self.steps.iter().map(|step| match step.what {
            Step::Put(schedule) => step.at + schedule.every * (schedule.limit + 1),
            Step::Job(_, _, to) => step.at.max(to.unwrap_or(0)),
            _ => step.at,
        });
        items.chain(steps).max().unwrap_or(0)
    }

    /// Tells whether nodes have to run tasks of the service's own for it.
    pub(crate) fn has_internal_tasks(&self) -> bool {
        self.items.iter().any(|item| item.told || item.mailed)
    }

    /// How long its tasks take one after the other, with all that may go wrong.
    pub(crate) fn takes(&self) -> u64 {
        let runs = self.steps.iter().map(|step| match step.what {
            Step::Put(schedule) => schedule.limit,
            _ => 1,
        });
        let times = runs.max().unwrap_or(1);
        let tries = |item: &ItemPlan| {
            let each = item.attempts.iter().map(|attempt| {
                let waits = match attempt.ends {
                    EndPlan::Snoozes(after) => after,
                    _ => 5000,
                };
                attempt.runs + waits + HEARTBEAT_TIMEOUT + 2 * CLAIM_TIMEOUT
            });
            let times = if item.template { times } else { 1 };
            // A task of the service's own may lose some attempts, and waits for a minute behind a failure.
            let own = u64::from(item.told) + u64::from(item.mailed);
            times * (each.sum::<u64>() + 30_000 + own * 150_000)
        };
        let rate = self.rate.map_or(0, |(tokens, _)| {
            10_000 / u64::from(tokens.max(1)) * (self.items.len() as u64 + 1) * 2
        });
        rate + self.items.iter().map(tries).sum::<u64>()
    }
}

/// The number by which a cut plan names an item, beside those of other scenes.
pub(crate) const fn name_of(scene: usize, item: usize) -> usize {
    scene * 100 + item
}

/// The callback of the tasks of a scene.
pub(crate) fn callback(scene: usize) -> String {
    format!("scene{scene}")
}

/// The place that a payload tells.
pub(crate) fn place(payload: &[u8]) -> Option<(usize, usize)> {
    let text = std::str::from_utf8(payload).ok()?;
    let (scene, item) = text.split_once('.')?;
    Some((scene.parse().ok()?, item.parse().ok()?))
}
