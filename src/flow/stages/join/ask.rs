//! This part of a check asks the dependencies of a waiter whose rows do not say how they ended, and notes what they say.
//!
//! A dependency whose row nobody understands is unknown: it may be mended, and at its deadline the waiter ends. One that a later
//! version wrote is open, and left to the nodes of that version.

use super::check::{Answers, Asking, Checker, seen_by_row};
use crate::{
    flow::base::{api::Fault, rows::stored, tables::joins},
    limits::{AFTER_FINISHED_AT_ONCE, AFTER_LOOKED_FOR_AT_ONCE, JOINS_PAGE},
    model::{
        entry,
        family::Outcome,
        ids::TaskId,
        join::{self, KEPT_MIN, Seen},
        task::Spec,
    },
    schema::DependencyRow,
    store,
};

impl Checker {
    /// Asks the dependencies of these rows, and notes what they say.
    pub(super) async fn ask(
        &self,
        of: Asking<'_>,
        rows: &[joins::Joined],
    ) -> Result<Answers, Fault> {
        let (mut all, mut awaited) = (Vec::with_capacity(rows.len()), Vec::new());
        for some in rows.chunks(JOINS_PAGE) {
            let open = some.iter().filter(|one| one.is_open());
            let open: Vec<TaskId> = open.map(|one| one.id).collect();
            let mut found = stored::rows_each(&self.ctx, &open).await.into_iter();
            let (mut ended, mut sought) = (Vec::new(), Vec::new());
            for one in some {
                let DependencyRow::Open { known } = one.row else {
                    all.push((one.id, seen_by_row(of.after, one.row)));
                    continue;
                };
                let seen = match found.next().unwrap_or(Ok(None)) {
                    Ok(Some(row)) => Outcome::of(&row).map_or(Seen::Open, Seen::Ended),
                    Ok(None) => {
                        let known = join::was_known(of.after, known);
                        let seen = without_row(of, one.id, known);
                        if seen.is_none() {
                            sought.push((all.len(), one.id, known));
                        }
                        if self.is_awaited_long(of, one.id, seen) {
                            awaited.push(one.id);
                        }
                        seen.unwrap_or(Seen::Unknown)
                    }
                    Err(error) => not_understood(of, one.id, error)?,
                };
                if let Seen::Ended(outcome) = seen {
                    ended.push((one.id, outcome));
                }
                all.push((one.id, seen));
            }
            self.seek(sought, &mut all).await?;
            if !ended.is_empty() {
                // So that the next check need not ask again. It comes soon: another check may have read the rows before this.
                joins::note(&self.ctx, of.waiter, &ended).await?;
                let joins = &self.ctx.joins;
                joins.failed.add(of.waiter, self.ctx.time.moment());
            }
        }
        Ok(Answers { seen: all, awaited })
    }

    /// Tells whether a dependency without a row waits for a worker, or nothing comes to it.
    fn is_awaited_long(&self, of: Asking<'_>, id: TaskId, seen: Option<Seen>) -> bool {
        let kept = self.ctx.settings.erase_delay;
        seen == Some(Seen::Open) && entry::is_left(id.first_start(), kept, of.now)
    }

    /// Ends the registrations of dependencies to which nothing comes any more: of some of them, others each time. The next look
    /// of the waiter repeats what fails. They were found when the waiter was registered.
    pub(super) async fn finish(&self, waiter: TaskId, spec: &Spec, mut awaited: Vec<TaskId>) {
        if awaited.len() > AFTER_FINISHED_AT_ONCE {
            let some = self.ctx.time.random() % awaited.len() as u64;
            awaited.rotate_left(usize::try_from(some).unwrap_or(0));
            awaited.truncate(AFTER_FINISHED_AT_ONCE);
        }
        if awaited.is_empty() {
            return;
        }
        if let Err(fault) = self.finisher.finish(&awaited, spec.create_time).await {
            tracing::debug!(task = %waiter, %fault, "what it waits for was left to its next look");
        }
    }

    /// Looks for dependencies that have no row, some at once: of each its place, and whether it was known.
    async fn seek(
        &self,
        sought: Vec<(usize, TaskId, bool)>,
        all: &mut [(TaskId, Seen)],
    ) -> Result<(), Fault> {
        for some in sought.chunks(AFTER_LOOKED_FOR_AT_ONCE) {
            let ids: Vec<TaskId> = some.iter().map(|(_, id, _)| *id).collect();
            let found = self.finder.registered_all(&ids).await;
            for ((place, id, known), found) in some.iter().zip(found) {
                let seen = match (found?, known) {
                    (Some(_), _) => Seen::Open,
                    (None, true) => Seen::Gone,
                    (None, false) => Seen::Unknown,
                };
                if let Some(at) = all.get_mut(*place) {
                    *at = (*id, seen);
                }
            }
        }
        Ok(())
    }
}

/// Tells what a dependency without a row is: it has not begun, or was never there, or was forgotten; none if it has to be
/// looked for.
fn without_row(of: Asking<'_>, id: TaskId, known: bool) -> Option<Seen> {
    if known && of.now < id.first_start().after(KEPT_MIN) {
        return Some(Seen::Open);
    }
    // Whether one is there that was not known matters at the deadline only.
    (!known && !of.is_late).then_some(Seen::Unknown)
}

fn not_understood(of: Asking<'_>, id: TaskId, error: store::Error) -> Result<Seen, Fault> {
    let (waiter, is_late) = (of.waiter, of.is_late);
    match error {
        store::Error::Corrupt { .. } => {
            tracing::warn!(task = %waiter, dependency = %id, %error, "a task that is waited for cannot be understood");
            Ok(Seen::Unknown)
        }
        // At the deadline a node decides that understands it.
        store::Error::Newer { .. } if !is_late => Ok(Seen::Open),
        error => Err(error.into()),
    }
}
