//! The shares tell people of a callback what all nodes of a cluster know of it: its workers, its attempts, its waiting tasks and
//! how late it was.
//!
//! Each node knows its own share from memory. On a cluster it writes its shares into the index, a row for a callback and node, as
//! plain writes: once a second what has changed, and the rest more seldom. A callback without activity costs nothing. Rows end
//! by themselves, so those of a dead node are gone after half a minute. One more row names the callbacks that are polled. A node
//! of an earlier version writes none and reads none: its share is missing, and nothing else. Nothing rests on shares.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    pollers::{Polled, Pollers},
    remembered::Remembered,
};
use crate::{
    flow::base::{api::Fault, context::Context, tables::shares},
    limits::{
        CALLBACK_WORKERS_MAX, SHARES_KEPT, SHARES_READ_MAX, SHARES_TOLD_AGAIN, SHARES_TOLD_EVERY,
        SHARES_TOLD_MAX,
    },
    model::{
        callback_share::{CallbackShare, SeenWorker},
        time::{Millis, whole_millis},
    },
    schema::decode_callback_share,
    store::{
        self,
        index::{IndexPut, IndexRange, IndexRow, Refused},
    },
};

/// Times of polls are told to this precision, so that a worker that polls all the time does not change its share each second.
pub(super) const POLLED_TO: Duration = Duration::from_secs(10);

/// The shares. Cheap to clone; clones are the same.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Shares {
    ctx: Arc<Context>,
    known: Remembered,
    pollers: Pollers,
    told: Arc<Mutex<BTreeMap<String, Told>>>,
}

/// A share that was told.
#[derive(Debug, Clone)]
struct Told {
    at: Millis,
    share: CallbackShare,
}

impl Shares {
    pub(in crate::flow) fn new(ctx: Arc<Context>, known: Remembered) -> Self {
        Self {
            pollers: Pollers::new(ctx.time.clone()),
            ctx,
            known,
            told: Arc::default(),
        }
    }

    /// Returns the workers that have polled this node.
    pub(in crate::flow) const fn pollers(&self) -> &Pollers {
        &self.pollers
    }

    /// Returns the names of callbacks that are polled at this node, as a share has workers: the last polled ones.
    fn own_names(&self) -> CallbackShare {
        let now = self.ctx.now();
        let mut polled = self.pollers.callbacks();
        polled.sort_by_key(|(_, ago)| *ago);
        polled.truncate(CALLBACK_WORKERS_MAX);
        let name = |(name, ago): (String, Duration)| SeenWorker {
            name,
            version: None,
            last: now.before(ago),
        };
        CallbackShare {
            workers: polled.into_iter().map(name).collect(),
            ..CallbackShare::default()
        }
    }

    /// Returns the names of callbacks that are polled at any node, some of them where there are many.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn polled_names(&self) -> Result<Vec<String>, Fault> {
        let own = self.pollers.callbacks().into_iter().map(|(name, _)| name);
        let mut names: BTreeSet<String> = own.collect();
        for share in self.others(shares::POLLED_NAMES).await? {
            names.extend(share.workers.into_iter().map(|worker| worker.name));
        }
        Ok(names.into_iter().collect())
    }

    /// Returns the share of this node.
    fn own(&self, callback: &str) -> (CallbackShare, bool) {
        if callback == shares::POLLED_NAMES {
            return (self.own_names(), true);
        }
        let now = self.ctx.now();
        let (ready, oldest, exact) = self.known.demand.of(callback);
        let (late, latest_ms) = self.known.pulse.late_of(now, callback);
        let worker = |polled: Polled| SeenWorker {
            name: polled.worker,
            version: polled.version,
            last: now.before(polled.ago),
        };
        let share = CallbackShare {
            workers: self.pollers.of(callback).into_iter().map(worker).collect(),
            ready,
            oldest,
            running: self.known.deadlines.running(callback) as u64,
            retrying: self.known.demand.retrying().of(callback, now) as u64,
            late,
            latest_ms,
        };
        (share, exact)
    }

    /// Returns the activity of a callback on all nodes, and whether the tasks that wait are known exactly.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn of(&self, callback: &str) -> Result<(CallbackShare, bool), Fault> {
        let (mut sum, exact) = self.own(callback);
        for share in self.others(callback).await? {
            sum.add(share, CALLBACK_WORKERS_MAX);
        }
        Ok((sum, exact))
    }

    /// Returns the present shares of the other nodes.
    async fn others(&self, callback: &str) -> Result<Vec<CallbackShare>, Fault> {
        if self.ctx.underway.is_some() {
            return Ok(Vec::new());
        }
        let range = IndexRange {
            partition: shares::partition(callback)?,
            after: None,
            rows_max: SHARES_READ_MAX,
        };
        let now = self.ctx.now();
        let rows = self.ctx.store.index_range(&range).await?.rows.into_iter();
        let others = rows.filter(|row| row.sort.as_ref() != self.ctx.me.0.as_bytes());
        let share = |row: IndexRow| match decode_callback_share(row.value) {
            Ok((at, share)) => is_current(at, now).then_some(share),
            // A share of a later version that cannot be read is left out.
            Err(error) => {
                tracing::debug!(callback, %error, "a share cannot be read");
                None
            }
        };
        Ok(others.filter_map(share).collect())
    }

    /// Tells the shares of this node until `stop`. A node that has its store for itself tells none.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        while self.ctx.underway.is_none() && !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.ctx.time.sleep(SHARES_TOLD_EVERY) => {}
            }
            if let Err(fault) = self.tell().await {
                tracing::debug!(%fault, "the activity of callbacks is told later");
            }
        }
    }

    /// Writes what has changed, or was told long ago.
    async fn tell(&self) -> Result<(), Fault> {
        let now = self.ctx.now();
        let due = self.due(now);
        if due.is_empty() {
            return Ok(());
        }
        let rows: Result<Vec<IndexPut>, Refused> = due
            .iter()
            .map(|(callback, share)| {
                let stamp = self.ctx.time.stamp();
                shares::row(callback, (self.ctx.me, share), stamp, now)
            })
            .collect();
        let written = self.ctx.store.put_index(&rows?).await;
        let all: Result<(), store::Error> = written.into_iter().collect();
        all?;
        let mut told = self.told.lock();
        for (callback, share) in due {
            if share.is_idle() {
                // Its row says so until its end.
                told.remove(&callback);
            } else {
                told.insert(callback, Told { at: now, share });
            }
        }
        Ok(())
    }

    /// Returns what is to be told now: those first that were told the longest ago.
    fn due(&self, now: Millis) -> Vec<(String, CallbackShare)> {
        let told = self.told.lock();
        let mut names: BTreeSet<String> = told.keys().cloned().collect();
        names.extend(self.known.pulse.callbacks(now));
        let polled = self.pollers.callbacks();
        if !polled.is_empty() {
            names.insert(shares::POLLED_NAMES.to_owned());
        }
        names.extend(polled.into_iter().map(|(name, _)| name));
        let deadlines = self.known.deadlines.callbacks();
        names.extend(deadlines.iter().map(|name| name.to_string()));
        let retrying = self.known.demand.retrying().all(now);
        names.extend(retrying.iter().map(|(name, _)| name.to_string()));
        let waiting = self.known.unclaimed().callbacks;
        names.extend(waiting.into_iter().map(|waiting| waiting.callback));
        let mut due: Vec<(Option<Millis>, String, CallbackShare)> = names
            .into_iter()
            .filter_map(|name| {
                let share = rounded(self.own(&name).0);
                let before = told.get(&name);
                let is_new =
                    before.map_or_else(|| !share.is_idle(), |before| before.share != share);
                let is_old = before.is_some_and(|before| {
                    now.since(before.at) >= SHARES_TOLD_AGAIN || now < before.at
                });
                (is_new || is_old).then(|| (before.map(|told| told.at), name, share))
            })
            .collect();
        due.sort_by_key(|(at, ..)| *at);
        due.truncate(SHARES_TOLD_MAX);
        due.into_iter()
            .map(|(_, name, share)| (name, share))
            .collect()
    }
}

/// Returns a share in which times of polls are told to the precision of [`POLLED_TO`].
fn rounded(mut share: CallbackShare) -> CallbackShare {
    let precision = whole_millis(POLLED_TO);
    for worker in &mut share.workers {
        worker.last = Millis(worker.last.0.div_euclid(precision) * precision);
    }
    share
}

/// Returns how long ago a worker polled, as people are told it.
pub(in crate::flow) fn polled(worker: SeenWorker, now: Millis) -> Polled {
    Polled {
        worker: worker.name,
        version: worker.version,
        ago: now.since(worker.last),
    }
}

/// Tells whether a share that was told at this time counts. One of a node whose clock was ahead, and that has died since, would
/// count for as long as that.
fn is_current(told: Millis, now: Millis) -> bool {
    told >= now.before(SHARES_KEPT) && told <= now.after(SHARES_KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_for_half_a_minute_on_both_sides() {
        let now = Millis(1_000_000);
        let told = [969_999, 970_000, 1_000_000, 1_030_000, 1_030_001];
        let current = told.map(|at| is_current(Millis(at), now));
        assert_eq!(current, [false, true, true, true, false]);
    }
}
