//! The words say of each cause in one sentence what keeps a task, and what to do.

use crate::{
    api::{
        text::{DurationText, shorten},
        why::{Cause, CauseCode, CauseTask},
    },
    flow::stages::query::why::Why,
    model::{
        gate::{Gate, GateState},
        ids::TaskId,
        local_quota::Bound,
        time::{Millis, rfc3339},
        why::{self as model, End, Open, What},
    },
};

/// Tells whether the caller may see tasks of a callback.
pub(super) type Covers<'a> = &'a dyn Fn(&str) -> bool;

/// The name of a limit in requests.
pub(super) const fn limit_name(bound: Bound) -> &'static str {
    match bound {
        Bound::Rate => "rate",
        Bound::InFlight => "max_in_flight",
    }
}

/// Tells whether a cause keeps a task that is due.
const fn keeps_due(code: CauseCode) -> bool {
    use CauseCode::{
        Busy, CatchingUp, Gate, Limit, NoWorker, QueueAway, Queued, TakeOver, Topic, Turn,
    };
    matches!(
        code,
        Busy | CatchingUp | Gate | Limit | NoWorker | QueueAway | Queued | TakeOver | Topic | Turn
    )
}

/// The words about the causes of one task.
pub(super) struct Words<'a> {
    pub(super) why: &'a Why,
    pub(super) covers: Covers<'a>,
}

impl Words<'_> {
    pub(super) fn sentence(&self, causes: &[Cause]) -> String {
        let Some(first) = causes.first() else {
            return String::new();
        };
        if keeps_due(first.code) {
            let since = rfc3339(self.why.task.effective_start);
            return format!("Due since {since}. {}", first.detail);
        }
        first.detail.clone()
    }

    /// Returns a task that another one waits for, as the caller may see it.
    pub(super) fn task(&self, id: TaskId) -> CauseTask {
        let other = self.why.others.get(&id);
        let callback = other.and_then(|other| other.callback.as_deref());
        // A task that is not there yet is one whose id the client has named itself; one without callback is a record.
        let hidden = callback.map_or_else(|| !(self.covers)(""), |name| !(self.covers)(name));
        if hidden {
            return CauseTask::default();
        }
        CauseTask {
            id: Some(id.to_string()),
            callback: callback.map(str::to_owned),
            state: other.map(|other| other.state.into()),
        }
    }

    /// Names a task in a sentence.
    fn named(&self, id: TaskId) -> String {
        let task = self.task(id);
        let Some(id) = task.id else {
            return "another task".to_owned();
        };
        let state = task
            .state
            .map_or("not registered yet", |state| state.name());
        match task.callback {
            Some(callback) => format!("task {id} (`{callback}`, {state})"),
            None => format!("task {id} ({state})"),
        }
    }

    pub(super) fn detail(&self, cause: &model::Cause) -> String {
        let (name, until) = (self.why.task.spec.target.name(), cause.until);
        let since = cause.since.map(rfc3339).unwrap_or_default();
        match &cause.what {
            What::NotDue => format!("Not due before {}.", self.ahead(until)),
            What::Gate(gate) => gate_detail(name, gate),
            What::Limit(bound) => self.limit_detail(name, *bound, cause.certain),
            What::Turn(id) => {
                let ahead = self.named(*id);
                format!("Behind {ahead}, which has the turn of the same ordering key.")
            }
            What::Parent(id) => {
                let parent = id.map_or_else(|| "another task".to_owned(), |id| self.named(id));
                format!("Waits for the own run of its parent, {parent}.")
            }
            What::Tasks(open) => self.tasks_detail(open, until),
            What::Children => format!("Its own run ended at {since}, and tasks below it go on."),
            What::NoWorker { last, nearest } => self.worker_detail(name, *last, nearest.as_deref()),
            What::Busy { running } => {
                format!("All workers of `{name}` are busy: {running} attempts run.")
            }
            What::Queued { polling: Some(1) } => {
                format!("In the queue of `{name}`, for which one worker polls.")
            }
            What::Queued {
                polling: Some(count),
            } => {
                format!("In the queue of `{name}`, for which {count} workers poll.")
            }
            What::Queued { polling: None } => {
                "On its way to the part of the service that runs it.".to_owned()
            }
            What::Running { .. } | What::WorkerLost { .. } => self.attempt_detail(cause),
            What::Retry { attempt, error } => {
                let next = self.ahead(until);
                match error {
                    Some(error) => {
                        let error = shorten(error);
                        format!(
                            "Attempt {attempt} failed ({error}). The next one starts at {next}."
                        )
                    }
                    None => {
                        format!("Given back by attempt {attempt}. The next one starts at {next}.")
                    }
                }
            }
            What::Ended { end, error } => self.end_detail(*end, &since, error.as_deref()),
            _ => self.service_detail(cause, &since),
        }
    }

    /// Tells of a cause that lies in the service itself.
    fn service_detail(&self, cause: &model::Cause, since: &str) -> String {
        match &cause.what {
            What::TakeOver(_) => {
                let node = self.owner();
                format!(
                    "Its wheel has had no owner since {since}: {node} is gone, and another takes it over."
                )
            }
            What::CatchingUp { place, before, .. } => {
                let behind = DurationText::readable(self.why.at.since(*place)).0;
                let before = before.map(|tasks| format!(", {tasks} tasks before this one"));
                let before = before.unwrap_or_default();
                let node = self.owner();
                format!("Its wheel is behind by {behind}{before}, and {node} catches up.")
            }
            What::Topic => format!(
                "Its topic did not take it, and is tried again at {}.",
                self.ahead(cause.until)
            ),
            What::QueueAway(problem) => {
                let problem = shorten(problem);
                format!("The queue does not answer this node: {problem}.")
            }
            _ => String::new(),
        }
    }

    /// Writes a time that is ahead, and how far.
    fn ahead(&self, until: Option<Millis>) -> String {
        until.map_or_else(String::new, |until| {
            let left = DurationText::readable(self.why.at.until(until)).0;
            format!("{}, in {left}", rfc3339(until))
        })
    }

    fn owner(&self) -> String {
        self.why.owner.as_ref().map_or_else(
            || "the node that owned it".to_owned(),
            |node| format!("node `{}` ({})", node.name, node.address),
        )
    }

    fn limit_detail(&self, name: &str, bound: Bound, certain: bool) -> String {
        let limits = self.why.limits;
        let limit = match bound {
            Bound::Rate => {
                let rate = limits.rate.map_or(0.0, |rate| rate.per_second());
                format!("The `rate` of `{name}`, {rate} a second, is used up")
            }
            Bound::InFlight => {
                let max = limits.in_flight.unwrap_or_default();
                format!("The `max_in_flight` of `{name}`, {max}, is reached")
            }
        };
        if certain {
            return format!("{limit}.");
        }
        format!("{limit}. The memory of another node knows whether this task waits for it.")
    }

    fn tasks_detail(&self, open: &Open, until: Option<Millis>) -> String {
        let deadline = until.map_or_else(String::new, |_| {
            format!(" It waits until {} at most.", self.ahead(until))
        });
        match open.first.first() {
            None => {
                format!("All tasks that it waited for have ended: it is about to start.{deadline}")
            }
            Some(first) if open.tasks == 1 => {
                format!("Waits for {}.{deadline}", self.named(*first))
            }
            Some(first) => {
                let (count, first) = (open.tasks, self.named(*first));
                format!("Waits for {count} tasks, the first of which is {first}.{deadline}")
            }
        }
    }

    fn worker_detail(&self, name: &str, last: Option<Millis>, nearest: Option<&str>) -> String {
        let last = last.map_or_else(
            || "none did within ten minutes".to_owned(),
            |last| format!("the last poll was at {}", rfc3339(last)),
        );
        let nearest = nearest.filter(|name| (self.covers)(name));
        let nearest =
            nearest.map(|nearest| format!(" Workers poll for `{nearest}`: is that meant?"));
        let nearest = nearest.unwrap_or_default();
        format!("No worker polls for `{name}`: {last}.{nearest}")
    }

    fn attempt_detail(&self, cause: &model::Cause) -> String {
        let since = cause.since.map(rfc3339).unwrap_or_default();
        match &cause.what {
            What::Running {
                worker,
                attempt,
                heartbeat,
                cancel_requested,
            } => {
                let beat = heartbeat.map(rfc3339).unwrap_or_default();
                let stop = if *cancel_requested {
                    " It was told to stop."
                } else {
                    ""
                };
                format!(
                    "Attempt {attempt} runs at worker `{worker}` since {since}, with its last sign of life at {beat}.{stop}"
                )
            }
            What::WorkerLost { worker, attempt } => {
                format!(
                    "Worker `{worker}` of attempt {attempt} is lost: its time ended at {since} without a sign of life."
                )
            }
            _ => String::new(),
        }
    }

    fn end_detail(&self, end: End, since: &str, error: Option<&str>) -> String {
        let error = error.map(|error| format!(": {}", shorten(error)));
        let error = error.unwrap_or_default();
        let attempts = self.why.task.attempt;
        match end {
            End::Succeeded => format!("Succeeded at {since}."),
            End::Published => format!("Published at {since}."),
            End::Failed => format!("Failed for good at {since}{error}."),
            End::Cancelled => format!("Cancelled at {since}{error}."),
            End::Dropped => format!("Dropped at {since}{error}."),
            End::Expired => format!("Of no more use since {since}, by its `expire_after`."),
            End::Dead => format!("Dead since {since}, after {attempts} attempts{error}."),
        }
    }

    pub(super) fn advice(&self, what: &What) -> Option<String> {
        let (id, name) = (self.why.task.id, self.why.task.spec.target.name());
        let of_first = |id: Option<TaskId>| {
            let id = id.and_then(|id| self.task(id).id);
            id.map(|id| format!("See what keeps that task: `tickwheel task why {id}`."))
        };
        match what {
            What::NotDue | What::Retry { .. } => {
                Some(format!("To start it now: `tickwheel task run {id}`."))
            }
            What::Gate(gate) => {
                let part = if gate.collection.is_empty() {
                    String::new()
                } else {
                    format!(" --collection {}", gate.collection)
                };
                Some(format!(
                    "Open the gate: `tickwheel callback resume {name}{part}`."
                ))
            }
            What::Limit(bound) => {
                let limit = limit_name(*bound);
                Some(format!(
                    "If its workers can take more, raise `{limit}` of the callback."
                ))
            }
            What::Turn(id) => of_first(Some(*id)),
            What::Parent(id) => of_first(*id),
            What::Tasks(open) => of_first(open.first.first().copied()),
            What::Children => Some(format!("See them: `tickwheel task tree {id}`.")),
            What::NoWorker { .. } => Some(format!("Start a worker for `{name}`.")),
            What::Busy { .. } => {
                Some("Start more workers, or let each run more tasks at once.".to_owned())
            }
            What::TakeOver(_) | What::CatchingUp { .. } => {
                Some("If it lasts, look at the nodes: `tickwheel cluster status`.".to_owned())
            }
            What::Topic | What::QueueAway(_) => {
                Some("Look at the brokers: `tickwheel doctor`.".to_owned())
            }
            What::Ended { end: End::Dead, .. } if self.why.task.spec.kin.is_some() => Some(
                format!("Once its tree has ended: `tickwheel task retry-failed {id}`."),
            ),
            What::Ended { end: End::Dead, .. } => {
                Some(format!("To try it again: `tickwheel task run {id}`."))
            }
            What::Queued { .. }
            | What::Running { .. }
            | What::WorkerLost { .. }
            | What::Ended { .. } => None,
        }
    }
}

fn gate_detail(name: &str, gate: &Gate) -> String {
    let of = if gate.collection.is_empty() {
        format!("`{name}`")
    } else {
        format!("collection `{}` of `{name}`", gate.collection)
    };
    let verb = match gate.state {
        GateState::Dropping => "set to drop tasks",
        GateState::Open | GateState::Paused => "closed",
    };
    let who = some(&gate.who).map(|who| format!(" by {who}"));
    let reason = some(&gate.reason).map(|reason| format!(" (\"{reason}\")"));
    let until = gate.until.map_or_else(
        || "It opens when it is told to.".to_owned(),
        |until| format!("It opens by itself at {}.", rfc3339(until)),
    );
    let (who, reason) = (who.unwrap_or_default(), reason.unwrap_or_default());
    let since = rfc3339(gate.since);
    format!("Held by the gate of {of}, {verb}{who} at {since}{reason}. {until}")
}

pub(super) fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
