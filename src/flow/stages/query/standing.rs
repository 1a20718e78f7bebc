//! The standing counts for statistics and metrics alike the tasks that wait for something else than their start, those that run,
//! and those that are dead: by callback, from one reading.
//!
//! Held and dead tasks are read now and then (`stock`); the others are known in memory. Callbacks beyond the first
//! hundred count together (`flow::base::labels`).

use std::time::Duration;

use super::{
    remembered::Remembered,
    stock::{ByCallback, Counted, Stock},
};
use crate::{
    flow::base::{
        context::Context,
        figures::unclaimed::{Cause, Unclaimed},
        labels,
    },
    model::time::Millis,
};

/// How long a reading waits for the count of held and dead tasks. It goes on behind, and the next reading has it.
const STOCK_WAIT_MAX: Duration = Duration::from_millis(500);

/// Tasks that have not ended, or need a person, by what they wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Attempts that run, as this node watches them.
    pub running: ByCallback,
    /// Tasks that wait for their next attempt, as this node knows.
    pub retrying: ByCallback,
    /// Tasks that wait for the ends of others, as this node knows.
    pub waiting: ByCallback,
    /// Due tasks that wait for a limit of their callback, as this node knows.
    pub limited: ByCallback,
    /// Due tasks that gates hold, on all nodes; none before the first count.
    pub held: Option<ByCallback>,
    /// Tasks that are dead and kept, on all nodes; none before the first count.
    pub dead: Option<ByCallback>,
}

impl Standing {
    /// Counts what is so now; `unclaimed` has the due tasks that wait for a limit.
    pub(super) async fn read(
        ctx: &Context,
        known: &Remembered,
        stock: &Stock,
        unclaimed: &Unclaimed,
        now: Millis,
    ) -> Self {
        let names = known.deadlines.callbacks();
        let running = names.iter().map(|name| {
            let running = known.deadlines.running(name);
            (&**name, running as u64)
        });
        let retrying = known.demand.retrying().all(now);
        let retrying = retrying
            .iter()
            .map(|(name, tasks)| (&**name, *tasks as u64));
        let waiting = ctx.joins.waiting().counts(now);
        let waiting = waiting.iter().map(|count| (&*count.callback, count.tasks));
        let limited = unclaimed.callbacks.iter();
        let limited = limited.filter(|one| one.cause != Cause::Worker);
        let limited = limited.map(|one| (&*one.callback, one.tasks));
        let (running, retrying) = (by_callback(running), by_callback(retrying));
        let (waiting, limited) = (by_callback(waiting), by_callback(limited));
        let counted = stock.counted(STOCK_WAIT_MAX).await;
        let (held, dead) = counted.map(|Counted { held, dead }| (held, dead)).unzip();
        Self {
            running,
            retrying,
            waiting,
            limited,
            held,
            dead,
        }
    }
}

/// Returns the sum over all callbacks.
#[must_use]
pub fn total(counts: &ByCallback) -> u64 {
    counts.values().sum()
}

fn by_callback<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> ByCallback {
    let mut sums = ByCallback::new();
    for (callback, count) in counts {
        *sums.entry(labels::label(callback)).or_default() += count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_callback_are_added() {
        let counts = [("standing-a", 2), ("standing-b", 1), ("standing-a", 3)];
        let counts = by_callback(counts.into_iter());
        assert_eq!((counts["standing-a"], total(&counts)), (5, 6));
    }
}
