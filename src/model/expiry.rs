//! The expiry tells the stages when a task that no worker has taken is to be ended, and by when its next look would do it.

use std::time::Duration;

use super::{
    ids::TaskId,
    look::Grid,
    row::{State, TaskRow},
    task::Spec,
    time::Millis,
    wheel::Shape,
};

/// How much later than a step and a half the first look of a task may come: the grace of a near one, and the ticks that are
/// closed.
const LOOK_GRACE: Duration = Duration::from_secs(60);

/// The state of knowledge about a task whose expiry was expected now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiring {
    /// It is over: no claim takes it any more.
    Over,
    /// It is over then, unless it is claimed or moved before.
    At(Millis),
    /// It runs, has ended, or waits for what is not a worker.
    Not,
}

/// Returns from when on a task that was to start at `start` is too late to be useful; none for one that never is.
#[must_use]
pub fn of(spec: &Spec, start: Millis) -> Option<Millis> {
    let last = start.after(spec.expire_after?);
    Some(Millis(last.0 + 1))
}

/// Decides about a task that has no row.
#[must_use]
pub fn without_row(id: TaskId, spec: &Spec, now: Millis) -> Expiring {
    if spec.is_after_parent() || spec.after.is_some() {
        return Expiring::Not;
    }
    decide(of(spec, id.first_start()), id.first_start(), now)
}

/// Decides about a task by its row.
#[must_use]
pub fn by_row(row: &TaskRow, now: Millis) -> Expiring {
    if !matches!(row.state, State::New | State::Retrying) || row.waits() {
        return Expiring::Not;
    }
    decide(of(&row.detail.spec, row.detail.start), row.next, now)
}

fn decide(over: Option<Millis>, next: Millis, now: Millis) -> Expiring {
    match over.map(|over| over.max(next)) {
        None => Expiring::Not,
        Some(at) if at <= now => Expiring::Over,
        Some(at) => Expiring::At(at),
    }
}

/// Tells whether a task that is handed over at `now` may expire before its next look: the look notes a later expiry itself.
#[must_use]
pub fn is_before_next_look(id: TaskId, at: Millis, now: Millis, shape: &Shape) -> bool {
    let step = Grid::of(id, shape).step();
    at <= now.after((step * 3 / 2).saturating_add(LOOK_GRACE))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{fixtures, look_step::LookStep, time::TickLength, wheel::WheelNumber};

    fn spec(seconds: u64) -> Spec {
        Spec {
            expire_after: Some(Duration::from_secs(seconds)),
            ..fixtures::spec()
        }
    }

    #[test]
    fn it_is_the_first_millisecond_in_which_no_claim_takes_the_task() {
        let (spec, start) = (spec(3), Millis(10_000));
        let at = of(&spec, start).unwrap();
        assert_eq!(at, Millis(13_001));
        assert!(spec.is_expired(start, at) && !spec.is_expired(start, Millis(at.0 - 1)));
        assert_eq!(of(&fixtures::spec(), start), None);
    }

    #[test]
    fn a_task_is_over_from_then_on_and_not_while_it_waits_for_its_next_attempt() {
        let start = fixtures::START;
        let over = Millis(start.0 + 3001);
        let id = fixtures::id();
        assert_eq!(without_row(id, &spec(3), over), Expiring::Over);
        let before = Millis(over.0 - 1);
        assert_eq!(without_row(id, &spec(3), before), Expiring::At(over));
        let spec = Arc::new(spec(3));
        let row = |state, next| TaskRow {
            next,
            ..fixtures::row(state, &spec)
        };
        let later = Millis(over.0 + 5000);
        assert_eq!(by_row(&row(State::New, start), over), Expiring::Over);
        assert_eq!(by_row(&row(State::New, start), before), Expiring::At(over));
        let retrying = row(State::Retrying, later);
        assert_eq!(by_row(&retrying, over), Expiring::At(later));
        assert_eq!(by_row(&retrying, later), Expiring::Over);
        assert_eq!(by_row(&row(State::Claimed, start), over), Expiring::Not);
        assert_eq!(by_row(&row(State::Expired, start), over), Expiring::Not);
    }

    #[test]
    fn an_expiry_is_left_to_the_next_look_where_that_comes_before_it() {
        let shape = Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap();
        let step = LookStep::covering(Duration::from_secs(60));
        let id = TaskId::new(Millis(0), WheelNumber::new(0).unwrap(), 7).with_look_step(step);
        let now = Millis(1_000_000);
        let bound = now.after(step.duration() * 3 / 2 + LOOK_GRACE);
        assert!(is_before_next_look(id, bound, now, &shape));
        assert!(!is_before_next_look(id, Millis(bound.0 + 1), now, &shape));
        // The looks of a task that goes out are never further apart.
        let grid = Grid::of(id, &shape);
        assert!(grid.one_step_after(now) <= bound);
        assert!(grid.for_near(now, now.after(Duration::from_secs(3))) <= bound);
    }
}
