//! The next stop of the walk is the first time at which something comes due: a start, a retry, an expiry, a schedule, the end of
//! a gate, a deadline.
//!
//! Entries of wheels that change nothing are passed: looks at tasks that have ended, that wait for a worker, or that run.

use super::Walk;
use crate::{
    flow::base::api::Fault,
    limits::WALK_ROWS,
    model::{
        entry::{Entry, Key, Kind},
        expiry,
        ids::TaskId,
        row::{State, TaskRow},
        time::Millis,
        wheel::{Span, WheelNumber},
    },
    store::{Freshness, RangeScan},
};

impl Walk {
    /// Returns the next stop behind `now`, at most `to`.
    pub(super) async fn next(&self, now: Millis, to: Millis) -> Result<Millis, Fault> {
        let held = self.service.poller.as_ref();
        let gates = self.known.callbacks.current();
        let gates = gates.iter().flat_map(|copy| copy.gates());
        let known = [
            self.near.next(),
            self.known.demand.expiries().next(),
            held.and_then(|poller| poller.next_held()),
            self.service.schedules.next_look().await?,
        ];
        let known = known.into_iter().flatten();
        let known = known.chain(gates.filter_map(|(_, gate)| gate.until));
        let mut next = known.filter(|at| *at > now).min().unwrap_or(to).min(to);
        for wheel in self.ctx.shape().all_wheels() {
            next = self.next_entry(wheel, now, next).await?;
        }
        Ok(next)
    }

    /// Returns when the first entry of a wheel behind `now` is due that matters, or `to`.
    async fn next_entry(
        &self,
        wheel: WheelNumber,
        now: Millis,
        to: Millis,
    ) -> Result<Millis, Fault> {
        let end = Key::behind(to);
        let mut range = RangeScan {
            wheel,
            shape: *self.ctx.shape(),
            span: Span {
                after: now,
                through: to,
            },
            behind: None,
            rows_max: WALK_ROWS,
            slots_max: WALK_ROWS,
        };
        loop {
            let page = self.ctx.store.scan_range(&range).await?;
            let entries = page.rows.iter().filter_map(|row| row.entry.as_ref().ok());
            if let Some(at) = self.first_that_matters(entries).await {
                return Ok(at);
            }
            if page.reached >= end {
                return Ok(to);
            }
            range.behind = Some(page.reached);
        }
    }

    /// Returns when the first entry of a page is due that changes something.
    async fn first_that_matters(&self, entries: impl Iterator<Item = &Entry>) -> Option<Millis> {
        let (mut looks, mut due) = (Vec::new(), None);
        for entry in entries {
            match entry.kind {
                Kind::Due { .. } => {
                    due = Some(entry.key.due);
                    break;
                }
                Kind::Look { .. } => looks.push(entry),
                Kind::Done { .. } => {}
            }
        }
        let ids: Vec<TaskId> = looks.iter().map(|look| look.key.id).collect();
        let rows = self.ctx.store.tasks_each(&ids, Freshness::Quorum).await;
        let matters = looks.iter().zip(rows).find_map(|(look, row)| {
            // One whose row cannot be read is looked at.
            let is_needed = row.map_or(true, |row| is_needed(look, row.as_ref()));
            is_needed.then_some(look.key.due)
        });
        matters.or(due)
    }
}

/// Tells whether time alone may change the task of a look: it may expire while it waits, it has a deadline while it waits for
/// others, or its attempt has a limit. All else is known to the stages in memory.
fn is_needed(look: &Entry, row: Option<&TaskRow>) -> bool {
    let Some(row) = row else {
        return expiry::of(&look.spec, look.start).is_some();
    };
    let expires = expiry::of(&row.detail.spec, row.detail.start).is_some();
    match row.state {
        State::New => expires || row.waits_for_tasks(),
        State::Retrying => expires,
        State::Claimed => row.attempt_ends().is_some(),
        State::Succeeded | State::Failed | State::Cancelled | State::Expired | State::Dead => false,
    }
}
