//! The expirer ends tasks that no worker has taken when they are too late to be useful, and not when their next looks come up.
//!
//! A node holds, in memory, the expiries of what it has handed over or looked at ([`crate::flow::base::agendas::expiries`]).
//! When one comes it reads the row, since a claim may have been made at another node. A task that still waits is looked at
//! ([`super::look`]), which ends it and does its end steps. Nothing is written for a task that was taken in time. After a crash
//! its durable look ends a task.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::look::Looker;
use crate::{
    flow::base::{
        agendas::expiries::{self, Expiries},
        context::Context,
    },
    limits::{EXPIRY_PAUSE, STEP_ENTRIES_MAX},
    model::{
        entry::Entry,
        expiry::{self, Expiring},
        row::TaskRow,
        time::Millis,
    },
};

/// The stage.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Expirer {
    pub(in crate::flow) ctx: Arc<Context>,
    pub(in crate::flow) expiries: Expiries,
    pub(in crate::flow) looker: Looker,
}

impl Expirer {
    /// Ends what expires until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let due = self.expiries.take(self.ctx.now(), STEP_ENTRIES_MAX);
            if !due.is_empty() {
                self.examine(&due).await;
                continue;
            }
            let next = self.expiries.next();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.expiries.earlier() => {}
                () = async { self.ctx.time.sleep_until_wall(next.unwrap_or(Millis::MAX)).await }, if next.is_some() => {}
            }
        }
    }

    async fn examine(&self, due: &[expiries::Expiring]) {
        let now = self.ctx.now();
        let tasks: Vec<_> = due.iter().map(|one| (one.id, 0)).collect();
        let known = match self.looker.known(&tasks).await {
            Ok(known) => known,
            Err(fault) => {
                tracing::debug!(%fault, "expired tasks cannot be read now: trying again");
                return due.iter().for_each(|one| self.again(one, now));
            }
        };
        let (mut over, mut looks) = (Vec::new(), Vec::new());
        for (one, row) in due.iter().zip(&known.rows) {
            // Its look sets aside a row that cannot be understood.
            if known.unreadable.contains_key(&one.id) {
                continue;
            }
            let expiring = match row {
                Some(row) => expiry::by_row(row, now),
                None => expiry::without_row(one.id, &one.spec, now),
            };
            match expiring {
                Expiring::Over => {
                    looks.push(self.look(one, row.as_ref(), now));
                    over.push(one);
                }
                Expiring::At(at) => self.expiries.note(one.id, at, &one.spec),
                Expiring::Not => {}
            }
        }
        if looks.is_empty() {
            return;
        }
        let looks: Vec<&Entry> = looks.iter().collect();
        for (one, result) in over.into_iter().zip(self.looker.look(&looks).await) {
            if result.is_err() {
                self.again(one, now);
            }
        }
    }

    fn look(&self, one: &expiries::Expiring, row: Option<&TaskRow>, now: Millis) -> Entry {
        let (generation, start, spec) = match row {
            Some(row) => (row.generation, row.detail.start, &row.detail.spec),
            None => (0, one.id.first_start(), &one.spec),
        };
        let (spec, stamp) = (Arc::clone(spec), self.ctx.time.stamp());
        Entry::look(one.id, generation, now, None, start, spec, stamp)
    }

    /// Comes back to a task in a moment: the store was away, or it has moved on.
    fn again(&self, one: &expiries::Expiring, now: Millis) {
        self.expiries
            .note(one.id, now.after(EXPIRY_PAUSE), &one.spec);
    }
}
