//! The decision tells the firing stages what is to be done about an entry whose time has come.

use super::{
    entry::{Entry, Kind},
    event::Event,
    look::Grid,
    restart,
    row::{State, TaskRow},
    task::Spec,
    time::Millis,
    wait::{self, Seen, Wait, first_wait},
    wheel::Shape,
};

/// The knowledge about a task when one of its entries fires.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its row; absent means never claimed, never rescheduled, never cancelled.
    pub row: Option<&'a TaskRow>,
    /// When its live attempt last gave a sign of life.
    pub heartbeat: Option<Millis>,
}

/// The decision about a firing entry. A successor is durable before anything is published.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Do nothing: the entry is done, or belongs to a generation that never came to be.
    Drop,
    /// Publish it; what is read of the task's row, if anything, is checked again by the claim.
    Publish(Publish),
    /// Look again later; nothing else.
    LookAgain {
        /// When.
        at: Millis,
        /// Generation of the successor.
        generation: u32,
    },
    /// Move the task to a terminal state, then do its end steps.
    End {
        /// The move.
        event: Event,
    },
    /// The task is terminal: repeat its end steps, then drop.
    EndSteps,
}

impl Decision {
    /// Returns its name in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Publish(_) => "publish",
            Self::LookAgain { .. } => "look_again",
            Self::End { .. } => "end",
            Self::EndSteps => "end_steps",
        }
    }
}

/// A publication that a firing entry asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish {
    /// Generation that the claim must find.
    pub generation: u32,
    /// Attempt that the claim must find.
    pub expected_attempt: u32,
    /// The task is not to be claimed before this.
    pub start: Millis,
    /// The look to write first; none where one lies ahead already.
    pub look_at: Option<Millis>,
    /// Publish only if what was published at this instant is no longer waiting in the queue.
    pub unless_queued_since: Option<Millis>,
}

/// Decides what a firing entry means.
///
/// A due entry decides alone (`known` is not looked at): its row is not read, the claim finds out what is stale.
#[must_use]
pub fn decide(entry: &Entry, known: Known<'_>, now: Millis, shape: &Shape) -> Decision {
    let grid = Grid::of(entry.key.id, shape);
    match entry.kind {
        Kind::Done { .. } => Decision::Drop,
        Kind::Due {
            expected_attempt,
            first,
        } => Decision::Publish(Publish {
            generation: entry.key.generation,
            expected_attempt,
            start: entry.start,
            look_at: (first && entry.spec.target.is_tracked())
                .then(|| grid.one_step_after(entry.key.due.max(now))),
            unless_queued_since: None,
        }),
        Kind::Look { published, .. } => look(entry, known, now, grid, published),
    }
}

/// Returns what the task of a look waits for, by what is known of it. Gates, turns and limits are asked when it is to go out.
#[must_use]
pub fn wait_of(look: &Entry, known: Known<'_>, now: Millis) -> Option<Wait> {
    let seen = Seen {
        heartbeat: known.heartbeat,
        ..Seen::asked(look.key.generation, look.key.id.first_start())
    };
    first_wait(&look.spec, known.row, seen, now)
}

/// Decides what a starting node owes a task when it finds the task's look: the publication, now or at its
/// time. Everything in queues and in memory is gone with the process before it. The look stands as it is.
#[must_use]
pub fn resume(entry: &Entry, known: Known<'_>, now: Millis, shape: &Shape) -> Option<Publish> {
    let publish = match decide(entry, known, now, shape) {
        Decision::Publish(publish) => publish,
        // The tasks that it waits for decide on its start, and a look comes behind an attempt that is alive.
        Decision::LookAgain { .. } => match wait_of(entry, known, now)? {
            Wait::Start { until } | Wait::Retry { until } => publication(known.row, until),
            _ => return None,
        },
        Decision::Drop | Decision::End { .. } | Decision::EndSteps => return None,
    };
    Some(Publish {
        look_at: None,
        unless_queued_since: None,
        ..publish
    })
}

fn look(
    entry: &Entry,
    known: Known<'_>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    match known.row {
        // Generation 0 still has its own entry or look; a later one that left no row never came to be.
        None if entry.key.generation > 0 => return Decision::Drop,
        Some(row) if restart::is_under_way(entry, row, now) => {
            return Decision::LookAgain {
                at: grid.backed_off(now, now.since(entry.start)),
                generation: entry.key.generation,
            };
        }
        Some(row) if row.waits_for_children() => {
            // The completer checks its tree when a child ends; this is for the nodes that died before they did.
            let waits = now.since(row.detail.end_time.unwrap_or(now));
            return Decision::LookAgain {
                at: grid.backed_off(now, waits),
                generation: row.generation,
            };
        }
        Some(row) if row.state.is_terminal() => return Decision::EndSteps,
        Some(_) | None => {}
    }
    let at = match wait_of(entry, known, now) {
        // Its release, of which this may be a part, has not come.
        Some(Wait::Parent) => return Decision::Drop,
        Some(Wait::Tasks) => awaits(
            known.row.map_or(&entry.spec, |row| &row.detail.spec),
            now,
            grid,
        ),
        Some(Wait::Claimed { until }) => grid.at(until),
        Some(Wait::Start { until } | Wait::Retry { until }) => grid.one_step_after(until),
        Some(
            Wait::Gate(_) | Wait::GateUnknown | Wait::Turn | Wait::Memory | Wait::Limit { .. },
        )
        | None => return is_due(entry, known, now, grid, published),
    };
    let generation = known.row.map_or(0, |row| row.generation);
    Decision::LookAgain { at, generation }
}

/// Decides about a task that waits for nothing.
fn is_due(
    entry: &Entry,
    known: Known<'_>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    match known.row {
        Some(row) if row.state == State::Claimed => {
            lost(row, known.heartbeat, now, grid, published)
        }
        row => unclaimed(entry, row, now, grid, published),
    }
}

/// Decides about a task whose worker gives no sign of life.
fn lost(
    row: &TaskRow,
    heartbeat: Option<Millis>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    if row.cancel_requested || row.tries >= row.detail.spec.max_attempts {
        let event = Event::Abandoned {
            attempt: row.attempt,
            heartbeat,
        };
        return Decision::End { event };
    }
    let alive_until = row.alive_until(heartbeat);
    Decision::Publish(Publish {
        look_at: Some(grid.one_step_after(now)),
        unless_queued_since: published.filter(|at| *at >= alive_until),
        ..publication(Some(row), row.detail.start)
    })
}

/// Returns when a task that waits for others is looked at again: its check is asked for, and its deadline is not passed by.
fn awaits(spec: &Spec, now: Millis, grid: Grid) -> Millis {
    let at = grid.backed_off(now, now.since(spec.create_time));
    match spec.after.as_ref().and_then(|after| after.deadline) {
        Some(deadline) if deadline > now => at.min(grid.at(deadline)),
        // The check that was to end it has failed.
        Some(_) => grid.one_step_after(now),
        None => at,
    }
}

fn unclaimed(
    entry: &Entry,
    row: Option<&TaskRow>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    let id = entry.key.id;
    let start = row.map_or_else(|| id.first_start(), |row| row.detail.start);
    if entry.spec.is_expired(start, now) {
        return Decision::End {
            event: Event::Expire,
        };
    }
    let not_before = wait::due(id, row);
    Decision::Publish(Publish {
        look_at: Some(match published {
            Some(_) => grid.backed_off(now, now.since(not_before)),
            None => grid.one_step_after(now),
        }),
        unless_queued_since: published.filter(|at| *at >= not_before),
        ..publication(row, not_before)
    })
}

/// The publication of a task as its row has it, and without anything around it.
fn publication(row: Option<&TaskRow>, start: Millis) -> Publish {
    let (generation, expected_attempt) = row.map_or((0, 0), |row| (row.generation, row.attempt));
    Publish {
        generation,
        expected_attempt,
        start,
        look_at: None,
        unless_queued_since: None,
    }
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
