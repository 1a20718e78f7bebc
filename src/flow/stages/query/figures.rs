//! The figures make metrics of what a node remembers, whenever somebody asks for metrics: pending tasks, running attempts,
//! tasks that wait for a retry or for other tasks, and gates that are not open. Tasks are counted by the function that counts
//! them for statistics (`standing`).
//!
//! They cost nothing in between. Callbacks beyond the first hundred count together ([`crate::flow::base::labels`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    forecast::Forecaster,
    remembered::Remembered,
    standing::Standing,
    stats::{Statistician, Stats},
    stock::{ByCallback, Stock},
};
use crate::{
    flow::{
        base::{api::Fault, context::Context, labels},
        life::near::Near,
    },
    model::{
        gate::{Gate, GateState},
        time::Millis,
    },
};

/// How long a scrape waits for the count of pending tasks: the other metrics matter more while a store is slow.
const PENDING_WAIT_MAX: Duration = Duration::from_secs(1);

/// Numbers by the labels of one metric.
type Counts = BTreeMap<Labels, u64>;

/// The label of a callback, and that of a gate; the second is empty where a metric has none.
type Labels = (String, &'static str);

/// The figures of one node.
#[derive(Debug)]
pub(in crate::flow) struct Figures {
    ctx: Arc<Context>,
    known: Remembered,
    statistician: Statistician,
    forecaster: Forecaster,
    /// Labels that were shown: they fall to zero when nothing counts for them any more.
    shown: Mutex<Shown>,
}

/// The labels of each metric that were shown last.
#[derive(Debug, Default)]
struct Shown {
    running: BTreeSet<Labels>,
    retrying: BTreeSet<Labels>,
    waiting: BTreeSet<Labels>,
    limited: BTreeSet<Labels>,
    held: BTreeSet<Labels>,
    dead: BTreeSet<Labels>,
    gates: BTreeSet<Labels>,
    forecast: BTreeSet<Labels>,
}

impl Figures {
    /// Shows nothing yet.
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        known: Remembered,
        near: Near,
        forecaster: Forecaster,
    ) -> Self {
        let stock = Stock::new(Arc::clone(&ctx), known.callbacks.clone());
        Self {
            statistician: Statistician::new(Arc::clone(&ctx), known.clone(), near, stock),
            known,
            ctx,
            forecaster,
            shown: Mutex::default(),
        }
    }

    /// Looks at the whole; what was seen within the last seconds is shown again.
    pub(in crate::flow) async fn stats(&self) -> Result<Arc<Stats>, Fault> {
        self.statistician.stats().await
    }

    /// Sets the metrics to what is so now. A store that is away keeps only the pending tasks as they were.
    pub(in crate::flow) async fn show(&self) {
        let now = self.ctx.now();
        let unclaimed = self.known.unclaimed();
        let standing = self.statistician.standing(&unclaimed, now).await;
        let closed = closed(&self.known.callbacks.snapshot().gates(), now);
        metrics::gauge!("tickwheel_wheels").set(f64::from(self.ctx.shape().wheels()));
        self.show_standing(standing, closed);
        if let Some(within) = self.forecaster.within() {
            self.show_forecast(within);
        }
        // On a cluster the count is a walk through the store, which nobody wants at every scrape.
        if self.ctx.underway.is_some() {
            self.show_pending().await;
        }
    }

    fn show_standing(&self, standing: Standing, closed: Counts) {
        let mut shown = self.shown.lock();
        let Shown {
            running,
            retrying,
            waiting,
            limited,
            held,
            dead,
            gates,
            ..
        } = &mut *shown;
        set(
            running,
            unlabelled(standing.running),
            |(callback, _), count| {
                metrics::gauge!("tickwheel_running_attempts", "callback" => callback).set(count);
            },
        );
        set(
            retrying,
            unlabelled(standing.retrying),
            |(callback, _), count| {
                metrics::gauge!("tickwheel_retrying_tasks", "callback" => callback).set(count);
            },
        );
        set(
            waiting,
            unlabelled(standing.waiting),
            |(callback, _), count| {
                metrics::gauge!("tickwheel_waiting_tasks", "callback" => callback).set(count);
            },
        );
        set(
            limited,
            unlabelled(standing.limited),
            |(callback, _), count| {
                metrics::gauge!("tickwheel_limited_tasks", "callback" => callback).set(count);
            },
        );
        if let Some(tasks) = standing.held {
            set(held, unlabelled(tasks), |(callback, _), count| {
                metrics::gauge!("tickwheel_held_tasks", "callback" => callback).set(count);
            });
        }
        if let Some(tasks) = standing.dead {
            set(dead, unlabelled(tasks), |(callback, _), count| {
                metrics::gauge!("tickwheel_dead_tasks", "callback" => callback).set(count);
            });
        }
        set(gates, closed, |(callback, gate), count| {
            metrics::gauge!("tickwheel_gates_closed", "callback" => callback, "gate" => gate)
                .set(count);
        });
    }

    fn show_forecast(&self, within: Vec<(String, &'static str, u64)>) {
        let counts = within.into_iter();
        let counts = counts.map(|(callback, horizon, tasks)| ((callback, horizon), tasks));
        let mut shown = self.shown.lock();
        set(
            &mut shown.forecast,
            counts.collect(),
            |(callback, horizon), count| {
                metrics::gauge!("tickwheel_due_within", "callback" => callback, "horizon" => horizon)
                .set(count);
            },
        );
    }

    async fn show_pending(&self) {
        let stats = self.ctx.time.within(PENDING_WAIT_MAX, self.stats()).await;
        match stats {
            Some(Ok(stats)) => {
                for count in &stats.pending {
                    let horizon = count.horizon.name();
                    metrics::gauge!("tickwheel_pending_tasks", "horizon" => horizon)
                        .set(count.tasks as f64);
                }
            }
            Some(Err(fault)) => tracing::debug!(%fault, "pending tasks are not counted now"),
            None => tracing::debug!("pending tasks are not counted in time"),
        }
    }
}

fn unlabelled(counts: ByCallback) -> Counts {
    let counts = counts.into_iter();
    counts
        .map(|(callback, count)| ((callback, ""), count))
        .collect()
}

/// Counts the gates that are not open at `now`, by callback and state.
fn closed(gates: &[(String, Gate)], now: Millis) -> Counts {
    let mut counts = Counts::new();
    for (callback, gate) in gates {
        let state = gate.state_at(now);
        if state != GateState::Open {
            let labels = (labels::label(callback), state.name());
            *counts.entry(labels).or_default() += 1;
        }
    }
    counts
}

/// Hands out every number, and zero for those that were shown and are no more.
fn set(shown: &mut BTreeSet<Labels>, counts: Counts, gauge: impl Fn(Labels, f64)) {
    for labels in std::mem::take(shown) {
        if !counts.contains_key(&labels) {
            gauge(labels, 0.0);
        }
    }
    for (labels, count) in counts {
        shown.insert(labels.clone());
        gauge(labels, count as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn gate(state: GateState, until: Option<i64>) -> (String, Gate) {
        let gate = Gate {
            collection: String::new(),
            state,
            reason: String::new(),
            since: Millis(0),
            until: until.map(Millis),
            who: String::new(),
        };
        ("figures-mail".to_owned(), gate)
    }

    #[test]
    fn gates_count_while_they_are_not_open() {
        let gates = [
            gate(GateState::Paused, None),
            gate(GateState::Paused, Some(1000)),
            gate(GateState::Dropping, None),
            gate(GateState::Open, None),
        ];
        let count = |now, state: GateState| {
            let labels = ("figures-mail".to_owned(), state.name());
            closed(&gates, Millis(now)).get(&labels).copied()
        };
        assert_eq!(count(999, GateState::Paused), Some(2));
        assert_eq!(count(1000, GateState::Paused), Some(1));
        assert_eq!(count(1000, GateState::Dropping), Some(1));
        assert_eq!(count(1000, GateState::Open), None);
    }

    #[test]
    fn a_figure_falls_to_zero_once() {
        let (mut shown, seen) = (BTreeSet::new(), RefCell::new(Vec::new()));
        let note = |(callback, _): Labels, count| seen.borrow_mut().push((callback, count));
        let counts = || Counts::from([(("figures-work".to_owned(), ""), 3)]);
        set(&mut shown, counts(), note);
        set(&mut shown, Counts::new(), note);
        set(&mut shown, Counts::new(), note);
        let work = |count| ("figures-work".to_owned(), count);
        assert_eq!(*seen.borrow(), [work(3.0), work(0.0)]);
    }
}
