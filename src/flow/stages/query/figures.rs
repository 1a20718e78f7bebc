//! The figures make metrics of what a node remembers, whenever somebody asks for metrics: pending tasks, running attempts,
//! tasks that wait for a retry or for other tasks, and gates that are not open. Those of held and of dead tasks are read now and
//! then (`stock`).
//!
//! They cost nothing in between. Callbacks beyond the first hundred count together ([`crate::flow::base::labels`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    remembered::Remembered,
    stats::{STOCK_WAIT_MAX, Statistician, Stats},
    stock::{ByCallback, Counted, Stock},
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
    stock: Stock,
    /// Labels that were shown: they fall to zero when nothing counts for them any more.
    shown: Mutex<[BTreeSet<Labels>; 6]>,
}

impl Figures {
    /// Shows nothing yet.
    pub(in crate::flow) fn new(ctx: Arc<Context>, known: Remembered, near: Near) -> Self {
        let stock = Stock::new(Arc::clone(&ctx), known.callbacks.clone());
        Self {
            statistician: Statistician::new(Arc::clone(&ctx), known.clone(), near, stock.clone()),
            stock,
            known,
            ctx,
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
        let running = self.known.deadlines.callbacks();
        let running = running
            .iter()
            .map(|name| (&**name, self.known.deadlines.running(name) as u64));
        let running = by_callback(running);
        let retrying = self.known.demand.retrying().all(now);
        let retrying = by_callback(
            retrying
                .iter()
                .map(|(name, tasks)| (&**name, *tasks as u64)),
        );
        let waiting = self.ctx.joins.waiting().counts(now);
        let waiting = waiting.iter().map(|count| (&*count.callback, count.tasks));
        let waiting = by_callback(waiting);
        let closed = closed(&self.known.callbacks.snapshot().gates(), now);
        let stock = self.stock.counted(STOCK_WAIT_MAX).await;
        metrics::gauge!("tickwheel_wheels").set(f64::from(self.ctx.shape().wheels()));
        {
            let mut shown = self.shown.lock();
            let [first, second, third, fourth, fifth, sixth] = &mut *shown;
            if let Some(Counted { held, dead }) = stock {
                set(fourth, unlabelled(held), |(callback, _), count| {
                    metrics::gauge!("tickwheel_held_tasks", "callback" => callback).set(count);
                });
                set(fifth, unlabelled(dead), |(callback, _), count| {
                    metrics::gauge!("tickwheel_dead_tasks", "callback" => callback).set(count);
                });
            }
            set(first, running, |(callback, _), count| {
                metrics::gauge!("tickwheel_running_attempts", "callback" => callback).set(count);
            });
            set(second, retrying, |(callback, _), count| {
                metrics::gauge!("tickwheel_retrying_tasks", "callback" => callback).set(count);
            });
            set(sixth, waiting, |(callback, _), count| {
                metrics::gauge!("tickwheel_waiting_tasks", "callback" => callback).set(count);
            });
            set(third, closed, |(callback, gate), count| {
                metrics::gauge!("tickwheel_gates_closed", "callback" => callback, "gate" => gate)
                    .set(count);
            });
        }
        // On a cluster the count is a walk through the store, which nobody wants at every scrape.
        if self.ctx.underway.is_some() {
            self.show_pending().await;
        }
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

fn by_callback<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Counts {
    let mut sums = Counts::new();
    for (callback, count) in counts {
        *sums.entry((labels::label(callback), "")).or_default() += count;
    }
    sums
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
        let counts = || by_callback([("figures-work", 2), ("figures-work", 1)].into_iter());
        set(&mut shown, counts(), note);
        set(&mut shown, Counts::new(), note);
        set(&mut shown, Counts::new(), note);
        let work = |count| ("figures-work".to_owned(), count);
        assert_eq!(*seen.borrow(), [work(3.0), work(0.0)]);
    }
}
