//! The watcher examines, for a node, the attempts whose leases have lapsed ([`crate::flow::features::limit::deadlines`] has
//! them).
//!
//! A panic in the middle loses none: those that were taken out are put back.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::look::Looker;
use crate::{
    flow::{
        TASK_EVENTS,
        base::context::Context,
        features::limit::{deadlines::Deadlines, watched::Lapsed},
    },
    limits,
    model::{
        entry::Entry,
        ids::TaskId,
        state::{State, TaskRow},
    },
};

/// Wait before an attempt is examined again after the store was away.
const PAUSE: Duration = Duration::from_secs(1);

/// The stage that examines attempts whose leases have lapsed.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Watcher {
    pub(in crate::flow) ctx: Arc<Context>,
    pub(in crate::flow) deadlines: Deadlines,
    pub(in crate::flow) looker: Looker,
}

impl Watcher {
    /// Examines what lapses until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let max = limits::STEP_ENTRIES_MAX;
            let lapsed = self.deadlines.take(self.ctx.time.moment(), max);
            if !lapsed.is_empty() {
                let mut taken = Taken {
                    watcher: &self,
                    open: &lapsed,
                    lapsed: &lapsed,
                };
                self.examine(&lapsed).await;
                taken.open = &[];
                continue;
            }
            let next = self.deadlines.next();
            let until = self.ctx.time.sleep_until_next(next);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.deadlines.earlier() => {}
                () = until => {}
            }
        }
    }

    async fn examine(&self, lapsed: &[Lapsed]) {
        // Taken before the reads: a later heartbeat must not find its lease ended by the time of the decision.
        let now = self.ctx.now();
        let tasks: Vec<(TaskId, u32)> = lapsed.iter().map(|lapsed| (lapsed.id, 0)).collect();
        let known = match self.looker.known(&tasks).await {
            Ok(known) => known,
            Err(fault) => {
                tracing::debug!(%fault, "lapsed attempts cannot be read now: trying again");
                return self.again(lapsed);
            }
        };
        let (mut looks, mut lost) = (Vec::new(), Vec::new());
        for (one, row) in lapsed.iter().zip(known.rows) {
            if known.unreadable.contains_key(&one.id) {
                // It may live: it is counted, and read once a minute.
                let later = now.after(limits::WATCH_EXAMINED_EVERY);
                self.deadlines.put_back(one, Some(later));
                continue;
            }
            let lives = |row: &TaskRow| row.state == State::Claimed && row.attempt == one.attempt;
            let Some(row) = row.filter(lives) else {
                continue;
            };
            let beat = known.heartbeats.get(&one.id).map(|beat| beat.at);
            let alive_until = row.alive_until(self.ctx.sign_of_life(beat));
            if now < alive_until.after(self.deadlines.grace) {
                self.deadlines.put_back(one, Some(alive_until));
                continue;
            }
            tracing::debug!(
                target: TASK_EVENTS, task = %one.id, attempt = one.attempt, worker = row.detail.worker,
                "its worker stopped sending heartbeats"
            );
            let spec = Arc::clone(&row.detail.spec);
            let (start, stamp) = (row.detail.start, self.ctx.time.stamp());
            looks.push(Entry::look(
                one.id,
                row.generation,
                now,
                None,
                start,
                spec,
                stamp,
            ));
            lost.push(one.clone());
        }
        if looks.is_empty() {
            return;
        }
        metrics::counter!("tickwheel_attempts_lost_total").increment(lost.len() as u64);
        let looks: Vec<&Entry> = looks.iter().collect();
        let results = self.looker.look(&looks).await;
        let failed = lost.into_iter().zip(results);
        let failed: Vec<Lapsed> = failed
            .filter_map(|(one, result)| result.is_err().then_some(one))
            .collect();
        self.again(&failed);
    }

    /// Examines attempts again in a moment; one that has moved on is dropped then.
    fn again(&self, lapsed: &[Lapsed]) {
        let at = self.ctx.now().after(PAUSE);
        for one in lapsed {
            self.deadlines.put_back(one, Some(at));
        }
    }
}

/// Attempts that were taken out to be examined. If that panics they are examined again: the stage is started anew.
struct Taken<'a> {
    watcher: &'a Watcher,
    /// Those that were not examined to the end.
    open: &'a [Lapsed],
    /// All of them.
    lapsed: &'a [Lapsed],
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.watcher.again(self.open);
        for one in self.lapsed {
            self.watcher.deadlines.put_back(one, None);
        }
    }
}
