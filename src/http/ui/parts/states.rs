//! The states of pages have a word and a colour. Colours mean the same everywhere, and never stand alone.

use crate::api::{job::JobState, schedule::ScheduleState, task_state::TaskState};

/// A state as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http::ui) struct Shown {
    /// The class: `wait`, `ready`, `run`, `good`, `warn`, `bad` or `off`.
    pub(in crate::http::ui) class: &'static str,
    pub(in crate::http::ui) word: &'static str,
}

const fn shown(class: &'static str, word: &'static str) -> Shown {
    Shown { class, word }
}

/// Shows the state of a task.
pub(in crate::http::ui) const fn task(state: TaskState) -> Shown {
    match state {
        TaskState::Scheduled => shown("wait", "scheduled"),
        TaskState::Waiting => shown("wait", "waiting"),
        TaskState::WaitingForChildren => shown("wait", "waiting for children"),
        TaskState::Enqueued => shown("ready", "enqueued"),
        TaskState::Claimed => shown("run", "claimed"),
        TaskState::Processing => shown("run", "processing"),
        TaskState::Retrying => shown("warn", "retrying"),
        TaskState::Succeeded => shown("good", "succeeded"),
        TaskState::Published => shown("good", "published"),
        TaskState::Failed => shown("bad", "failed"),
        TaskState::Dead => shown("bad", "dead"),
        TaskState::Cancelled => shown("off", "cancelled"),
        TaskState::Expired => shown("off", "expired"),
    }
}

/// Shows the outcome of an attempt; none while it runs.
pub(in crate::http::ui) fn attempt(outcome: Option<&str>) -> Shown {
    match outcome {
        None => shown("run", "running"),
        Some("succeeded") => shown("good", "succeeded"),
        Some("retry") => shown("warn", "to be tried again"),
        Some("snoozed") => shown("wait", "snoozed"),
        Some("lost") => shown("bad", "lost"),
        Some("cancelled") => shown("off", "cancelled"),
        Some("failed") => shown("bad", "failed"),
        Some(_) => shown("off", "ended"),
    }
}

/// Shows the state of a job.
pub(in crate::http::ui) const fn job(state: JobState) -> Shown {
    match state {
        JobState::Pending => shown("wait", "pending"),
        JobState::Running => shown("run", "running"),
        JobState::Paused => shown("warn", "paused"),
        JobState::Completed => shown("good", "completed"),
        JobState::Cancelled => shown("off", "cancelled"),
        JobState::Failed => shown("bad", "failed"),
    }
}

/// Shows the state of a schedule.
pub(in crate::http::ui) const fn schedule(state: ScheduleState) -> Shown {
    match state {
        ScheduleState::Live => shown("good", "live"),
        ScheduleState::Paused => shown("warn", "paused"),
        ScheduleState::Ended => shown("off", "ended"),
    }
}

/// Tells whether a task in a state goes on.
pub(in crate::http::ui) const fn is_open(state: TaskState) -> bool {
    matches!(
        task(state).class.as_bytes(),
        b"wait" | b"ready" | b"run" | b"warn"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_go_on_are_known() {
        assert!(is_open(TaskState::Scheduled) && is_open(TaskState::Retrying));
        assert!(!is_open(TaskState::Dead) && !is_open(TaskState::Published));
    }
}
