//! The decision tells the firing stages what is to be done about an entry whose time has come.

use super::{
    entry::{Entry, Kind},
    event::Event,
    look::Grid,
    restart,
    row::{State, TaskRow},
    task::Spec,
    time::Millis,
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
        Kind::Look { published } => look(entry, known, now, grid, published),
    }
}

/// Decides what a starting node owes a task when it finds the task's look: the publication, now or at its
/// time. Everything in queues and in memory is gone with the process before it. The look stands as it is.
#[must_use]
pub fn resume(entry: &Entry, known: Known<'_>, now: Millis, shape: &Shape) -> Option<Publish> {
    let owed = |start, generation, expected_attempt| Publish {
        generation,
        expected_attempt,
        start,
        look_at: None,
        unless_queued_since: None,
    };
    match (decide(entry, known, now, shape), known.row) {
        (Decision::Publish(publish), _) => Some(owed(
            publish.start,
            publish.generation,
            publish.expected_attempt,
        )),
        // The tasks that it waits for decide on its start.
        (Decision::LookAgain { .. }, None) if entry.spec.after.is_some() => None,
        (Decision::LookAgain { .. }, None) => Some(owed(entry.key.id.first_start(), 0, 0)),
        (Decision::LookAgain { .. }, Some(row))
            if matches!(row.state, State::New | State::Retrying) && !row.waits() =>
        {
            Some(owed(row.next, row.generation, row.attempt))
        }
        (Decision::LookAgain { .. }, Some(_))
        | (Decision::Drop | Decision::End { .. } | Decision::EndSteps, _) => None,
    }
}

fn look(
    entry: &Entry,
    known: Known<'_>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    let Some(row) = known.row else {
        return without_row(entry, now, grid, published);
    };
    if restart::is_under_way(entry, row, now) {
        return Decision::LookAgain {
            at: grid.backed_off(now, now.since(entry.start)),
            generation: entry.key.generation,
        };
    }
    if row.waits_for_tasks() {
        return awaits(&row.detail.spec, now, grid);
    }
    if row.waits_for_children() {
        // The tender checks its tree when a child ends; this is for the nodes that died before they did.
        let waits = now.since(row.detail.end_time.unwrap_or(now));
        return Decision::LookAgain {
            at: grid.backed_off(now, waits),
            generation: row.generation,
        };
    }
    match row.state {
        State::Succeeded | State::Failed | State::Cancelled | State::Expired | State::Dead => {
            Decision::EndSteps
        }
        // Its release, of which this may be a part, has not come.
        State::New if row.waits_for_parent() => Decision::Drop,
        State::New | State::Retrying => unclaimed(
            &Unclaimed {
                start: row.detail.start,
                not_before: row.next,
                generation: row.generation,
                attempt: row.attempt,
                published,
            },
            entry,
            now,
            grid,
        ),
        State::Claimed => claimed(row, known.heartbeat, now, grid, published),
    }
}

/// Decides about a task that was registered and nothing more.
fn without_row(entry: &Entry, now: Millis, grid: Grid, published: Option<Millis>) -> Decision {
    // Generation 0 still has its own entry or look; a later one that left no row never came to be.
    if entry.key.generation > 0 || entry.spec.is_after_parent() {
        return Decision::Drop;
    }
    if entry.spec.after.is_some() {
        return awaits(&entry.spec, now, grid);
    }
    let start = entry.key.id.first_start();
    let task = Unclaimed {
        start,
        not_before: start,
        generation: 0,
        attempt: 0,
        published,
    };
    unclaimed(&task, entry, now, grid)
}

fn claimed(
    row: &TaskRow,
    heartbeat: Option<Millis>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    let alive_until = row.alive_until(heartbeat);
    if now < alive_until {
        return Decision::LookAgain {
            at: grid.at(alive_until),
            generation: row.generation,
        };
    }
    if row.cancel_requested || row.tries >= row.detail.spec.max_attempts {
        let event = Event::Abandoned {
            attempt: row.attempt,
            heartbeat,
        };
        return Decision::End { event };
    }
    Decision::Publish(Publish {
        generation: row.generation,
        expected_attempt: row.attempt,
        start: row.detail.start,
        look_at: Some(grid.one_step_after(now)),
        unless_queued_since: published.filter(|at| *at >= alive_until),
    })
}

/// Decides about a task that waits for others: its check is asked for, and its deadline is not passed by.
fn awaits(spec: &Spec, now: Millis, grid: Grid) -> Decision {
    let at = grid.backed_off(now, now.since(spec.create_time));
    let deadline = spec.after.as_ref().and_then(|after| after.deadline);
    let at = match deadline {
        Some(deadline) if deadline > now => at.min(grid.at(deadline)),
        // The check that was to end it has failed.
        Some(_) => grid.one_step_after(now),
        None => at,
    };
    Decision::LookAgain { at, generation: 0 }
}

struct Unclaimed {
    start: Millis,
    not_before: Millis,
    generation: u32,
    attempt: u32,
    published: Option<Millis>,
}

fn unclaimed(task: &Unclaimed, entry: &Entry, now: Millis, grid: Grid) -> Decision {
    if now < task.not_before {
        return Decision::LookAgain {
            at: grid.one_step_after(task.not_before),
            generation: task.generation,
        };
    }
    if entry.spec.is_expired(task.start, now) {
        return Decision::End {
            event: Event::Expire,
        };
    }
    Decision::Publish(Publish {
        generation: task.generation,
        expected_attempt: task.attempt,
        start: task.not_before,
        look_at: Some(match task.published {
            Some(_) => grid.backed_off(now, now.since(task.not_before)),
            None => grid.one_step_after(now),
        }),
        unless_queued_since: task.published.filter(|at| *at >= task.not_before),
    })
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
