//! The gauges count for operators what the sender has handed over, and how late.

use std::collections::HashMap;

use metrics::{Counter, Histogram};

use crate::{
    flow::{TASK_EVENTS, base::labels},
    limits,
    model::{ids::TaskId, target::Target, task::Spec, time::Millis},
};

/// The metrics that each task of a batch is counted in; they are looked up once a batch.
pub(super) struct Gauges<'a> {
    /// Of each kind of target.
    fired: [(&'static str, Counter); Target::KINDS.len()],
    lag: Histogram,
    lag_again: Histogram,
    /// How many tasks of the batch each callback has, and how many of them are late.
    callbacks: HashMap<&'a str, (u64, u64)>,
}

impl<'a> Gauges<'a> {
    pub(super) fn new() -> Self {
        let fired = |kind| metrics::counter!("tickwheel_tasks_fired_total", "target" => kind);
        Self {
            fired: Target::KINDS.map(|kind| (kind, fired(kind))),
            lag: metrics::histogram!("tickwheel_fire_lag_seconds"),
            lag_again: metrics::histogram!("tickwheel_refire_lag_seconds"),
            callbacks: HashMap::new(),
        }
    }

    /// Counts a task that was to go out at `due` and was handed over at `fired`, for the `first` time or not.
    pub(super) fn observe(
        &mut self,
        task: (TaskId, &'a Spec),
        first: bool,
        due: Millis,
        fired: Millis,
    ) {
        let ((id, spec), late_ms) = (task, fired.0 - due.0);
        let lag = fired.since(due);
        if !first {
            tracing::debug!(target: TASK_EVENTS, task = %id, to = spec.target.name(), late_ms, "published again");
            return self.lag_again.record(lag.as_secs_f64());
        }
        tracing::debug!(target: TASK_EVENTS, task = %id, to = spec.target.name(), late_ms, "fired");
        let kind = spec.target.kind();
        if let Some((_, counter)) = self.fired.iter().find(|(name, _)| *name == kind) {
            counter.increment(1);
        }
        if let Some(callback) = spec.callback() {
            let (tasks, late) = self.callbacks.entry(callback).or_default();
            *tasks += 1;
            *late += u64::from(lag > limits::LATE_FIRING);
        }
        self.lag.record(lag.as_secs_f64());
    }

    /// Counts the callbacks of the batch.
    pub(super) fn count_callbacks(self) {
        for (callback, (tasks, late)) in self.callbacks {
            let callback = labels::label(callback);
            metrics::counter!("tickwheel_callback_late_total", "callback" => callback.clone())
                .increment(late);
            metrics::counter!("tickwheel_callback_fired_total", "callback" => callback)
                .increment(tasks);
        }
    }
}
