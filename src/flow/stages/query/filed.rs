//! The filed tasks are listed for the lister from the rows of ended tasks (`ended_rows`): of one callback, the last day first.
//! They are those of some states, where the store cannot list them itself, or in every store those with one class of error.
//!
//! Days that have no tasks cost a read for each state, or one for the error. They are read many at once.

use futures_util::{StreamExt as _, stream};

use crate::{
    flow::{
        base::{
            api::{Fault, TaskView, VisibleState},
            context::Context,
            read::find::{Finder, OneOfList},
            tables::ended::{Part, Trait, day_of},
        },
        features::lists::ended_rows::{self, FILED},
    },
    limits,
    model::{error_class::is_of_class, ids::TaskId, row::State, time::Millis},
    store::index::IndexRow,
};

/// Before the ids of all tasks.
const FIRST: TaskId = TaskId::bound(uuid::Uuid::nil());

/// A place among the rows of ended tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filed {
    /// Days since 1970.
    pub day: i64,
    /// The place of the state in the order of a day; 0 in a list by an error.
    pub state: u8,
    /// Behind this task.
    pub behind: TaskId,
}

/// The filed tasks that a list wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum States {
    /// Those that ended in these states.
    These(Vec<State>),
    /// Those that ended with an error of this class, in whatever state.
    Error(String),
}

impl States {
    /// None.
    pub(super) const NONE: Self = Self::These(Vec::new());

    /// Of a list that wants tasks in this state, or in all; those that succeeded only where they are filed.
    pub(super) fn of(wanted: Option<VisibleState>, succeeded: bool) -> Self {
        let states = FILED.into_iter();
        let states = states.filter(|state| succeeded || *state != State::Succeeded);
        Self::These(
            states
                .filter(|state| wanted.is_none_or(|wanted| visible(*state) == Some(wanted)))
                .collect(),
        )
    }

    /// Tells whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        match self {
            Self::These(states) => states.is_empty(),
            Self::Error(_) => false,
        }
    }

    /// Tells whether tasks in this state are listed by their rows.
    pub(super) fn has(&self, state: State) -> bool {
        match self {
            Self::These(states) => states.contains(&state),
            Self::Error(_) => state.is_terminal(),
        }
    }

    /// Returns what the tasks of a place have in common; none where no task is wanted.
    fn of_place(&self, at: Filed) -> Option<Trait<'_>> {
        match self {
            Self::These(states) => {
                let state = FILED.get(usize::from(at.state))?;
                states.contains(state).then_some(Trait::State(*state))
            }
            Self::Error(class) => (at.state == 0).then_some(Trait::Error(class)),
        }
    }
}

/// A part that was read.
pub(super) struct PartRead {
    pub(super) at: Filed,
    pub(super) rows: Vec<(TaskId, IndexRow)>,
    /// Behind which task there may be more.
    pub(super) next: Option<TaskId>,
}

impl Filed {
    /// Before all of them.
    pub(super) const fn first(now: Millis) -> Self {
        Self {
            // A node whose clock is ahead may have ended tasks tomorrow.
            day: day_of(now) + 1,
            state: 0,
            behind: FIRST,
        }
    }

    /// Returns the part of a place.
    pub(super) fn part<'a>(self, callback: &'a str, states: &'a States) -> Option<Part<'a>> {
        Some(Part {
            callback,
            of: states.of_place(self)?,
            day: self.day,
        })
    }

    /// Returns the beginning of the part behind this one.
    pub(super) const fn next(self) -> Self {
        let (day, state) = if self.state as usize + 1 < FILED.len() {
            (self.day, self.state + 1)
        } else {
            (self.day - 1, 0)
        };
        Self {
            day,
            state,
            behind: FIRST,
        }
    }
}

/// Returns the next places to read, and the place behind them; none where no task can be.
pub(super) fn places(
    from: Filed,
    states: &States,
    now: Millis,
    places_max: usize,
) -> (Vec<Filed>, Option<Filed>) {
    let last = day_of(now) - limits::LIST_ENDED_DAYS_MAX;
    // A token is what a client makes of it.
    let first = Filed::first(now);
    let mut at = if from.day > first.day { first } else { from };
    let mut places = Vec::new();
    while at.day >= last && !states.is_empty() {
        if places.len() >= places_max {
            return (places, Some(at));
        }
        if states.of_place(at).is_some() {
            places.push(at);
        }
        at = at.next();
    }
    (places, None)
}

/// Reads parts, in order.
///
/// # Errors
/// When the store is away.
pub(super) async fn read(
    ctx: &Context,
    (callback, states): (&str, &States),
    places: Vec<Filed>,
    rows_max: usize,
) -> Result<Vec<PartRead>, Fault> {
    let reads = places.into_iter().filter_map(|at| {
        let part = at.part(callback, states)?;
        Some(async move {
            let (rows, next) = ended_rows::read(ctx, part, at.behind, rows_max).await?;
            Ok::<_, Fault>(PartRead { at, rows, next })
        })
    });
    let reads: Vec<_> = reads.collect();
    let read: Vec<Result<PartRead, Fault>> = stream::iter(reads)
        .buffered(limits::STORE_LIST_READS_IN_FLIGHT_MAX)
        .collect()
        .await;
    read.into_iter().collect()
}

/// Reads the task of a row. One that is not as the row says is absent, and the row is removed.
///
/// # Errors
/// When the store is away.
pub(super) async fn task(
    ctx: &Context,
    finder: &Finder,
    part: Part<'_>,
    (id, row): (TaskId, IndexRow),
) -> Result<OneOfList, Fault> {
    let task = match finder.one_of_list(id).await? {
        OneOfList::Task(task) => Some(task),
        OneOfList::Absent => None,
        OneOfList::Unreadable => return Ok(OneOfList::Unreadable),
    };
    let is_here = |task: &TaskView| {
        let ended = task.end_time.map(day_of);
        let has_trait = match part.of {
            Trait::State(state) => Some(task.state) == visible(state),
            Trait::Error(class) => {
                let error = task.error.as_deref();
                task.state.is_terminal() && error.is_some_and(|error| is_of_class(error, class))
            }
        };
        has_trait && ended == Some(part.day)
    };
    let Some(task) = task.filter(|task| is_here(task.as_ref())) else {
        ended_rows::forget(ctx, part, &row).await;
        return Ok(OneOfList::Absent);
    };
    Ok(OneOfList::Task(task))
}

const fn visible(state: State) -> Option<VisibleState> {
    Some(match state {
        State::Dead => VisibleState::Dead,
        State::Failed => VisibleState::Failed,
        State::Expired => VisibleState::Expired,
        State::Cancelled => VisibleState::Cancelled,
        State::Succeeded => VisibleState::Succeeded,
        State::New | State::Claimed | State::Retrying => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);

    #[test]
    fn every_wanted_part_comes_once_and_the_last_day_first() {
        let days = limits::LIST_ENDED_DAYS_MAX + 2;
        for (wanted, succeeded, states) in [
            (None, false, 4),
            (None, true, 5),
            (Some(VisibleState::Dead), false, 1),
            (Some(VisibleState::Succeeded), false, 0),
        ] {
            let wanted = States::of(wanted, succeeded);
            assert_eq!(wanted.is_empty(), states == 0);
            let (mut all, mut next) = (Vec::new(), Some(Filed::first(NOW)));
            while let Some(at) = next {
                let (places, behind) = places(at, &wanted, NOW, 7);
                assert!(places.len() <= 7);
                all.extend(places);
                next = behind;
            }
            assert_eq!(i64::try_from(all.len()).unwrap(), days * states);
            assert!(all.is_sorted_by(|one, two| { (one.day, two.state) > (two.day, one.state) }));
        }
        let by_error = States::Error("no route".to_owned());
        let (all, behind) = places(Filed::first(NOW), &by_error, NOW, usize::MAX);
        assert_eq!((i64::try_from(all.len()).unwrap(), behind), (days, None));
        assert!(all.iter().all(|at| at.part("mail", &by_error).is_some()));
    }
}
