//! The place stage gives tasks their places in sequences, for registration and for moves.
//!
//! A place is announced before its task is written, and made sure after. Its writer acknowledges the task only while
//! the place is open, by the monotonic clock: later a claim may have taken it for a ghost.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::join_all;

use crate::{
    flaw::{self, Flaw},
    flow::base::{
        api::Fault,
        context::Context,
        documents,
        tables::sequences::{self, Written},
    },
    limits,
    model::{
        dispatch::Dispatch,
        ids::TaskId,
        ordering::{self, Bound, Member, PLACE_OPEN, Rank, Sequence},
        task::Spec,
        time::Millis,
    },
    store::Freshness,
    time_source::Moment,
};

/// A task that asks for a place.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Newcomer {
    pub(in crate::flow) sequence: Sequence,
    pub(in crate::flow) id: TaskId,
    pub(in crate::flow) generation: u32,
    pub(in crate::flow) start: Millis,
}

/// A place that is not sure yet.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Announced {
    sequence: Sequence,
    member: Member,
    closes: Moment,
}

impl Announced {
    /// Tells whether it may still be made sure.
    pub(in crate::flow) fn is_open(&self, ctx: &Context) -> bool {
        ctx.time.moment() < self.closes
    }

    /// The same task with a new place, as the old one may be gone.
    fn anew(&self) -> Newcomer {
        let Rank {
            start,
            id,
            generation,
            ..
        } = self.member.rank;
        Newcomer {
            sequence: self.sequence.clone(),
            id,
            generation,
            start,
        }
    }
}

/// Announces places of tasks that are about to be written; one result per task, in order.
pub(in crate::flow) async fn announce(
    ctx: &Context,
    tasks: Vec<Newcomer>,
) -> Vec<Result<Announced, Fault>> {
    if tasks.is_empty() {
        return Vec::new();
    }
    // Taken before the wall clock: the place closes here before it does for others.
    let (closes, until) = (
        ctx.time.moment().after(PLACE_OPEN),
        ctx.now().after(PLACE_OPEN),
    );
    let announced = tasks.into_iter().map(|task| Announced {
        sequence: task.sequence,
        member: Member {
            rank: Rank {
                start: task.start,
                id: task.id,
                generation: task.generation,
                stamp: ctx.time.stamp(),
            },
            sure: false,
            until,
        },
        closes,
    });
    let announced: Vec<Announced> = announced.collect();
    let rows: Vec<(&Sequence, Member)> = announced
        .iter()
        .map(|place| (&place.sequence, place.member))
        .collect();
    let put = sequences::put(ctx, &rows).await;
    let results = announced.into_iter().zip(put);
    results.map(|(place, put)| put.map(|()| place)).collect()
}

/// Announces the place of one task; none is needed for a task without ordering key.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn announce_one(
    ctx: &Context,
    spec: &Spec,
    dispatch: Dispatch,
) -> Result<Option<Announced>, Fault> {
    let Some(sequence) = Sequence::of(spec) else {
        return Ok(None);
    };
    let newcomer = Newcomer {
        sequence,
        id: dispatch.id,
        generation: dispatch.generation,
        start: dispatch.start,
    };
    announce(ctx, vec![newcomer]).await.pop().transpose()
}

/// Returns the place, or a new one if it has closed meanwhile.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn open_still(
    ctx: &Context,
    place: Option<Announced>,
) -> Result<Option<Announced>, Fault> {
    match place {
        Some(place) if !place.is_open(ctx) => {
            announce(ctx, vec![place.anew()]).await.pop().transpose()
        }
        place => Ok(place),
    }
}

/// Makes a place sure whose task is written, if there is one.
///
/// # Errors
/// When the store is away, or too slow.
pub(in crate::flow) async fn confirm_one(
    ctx: &Context,
    place: Option<Announced>,
) -> Result<(), Fault> {
    confirm(ctx, place.into_iter().collect())
        .await
        .into_iter()
        .collect()
}

/// Makes places sure whose tasks are written; one result per place, in order. A place that has closed meanwhile is announced
/// anew.
pub(in crate::flow) async fn confirm(
    ctx: &Context,
    places: Vec<Announced>,
) -> Vec<Result<(), Fault>> {
    let mut results: Vec<Result<(), Fault>> = places.iter().map(|_| Err(uncertain())).collect();
    let mut open: Vec<(usize, Announced)> = places.into_iter().enumerate().collect();
    for _ in 0..limits::PLACE_TRIES_MAX {
        if open.is_empty() {
            break;
        }
        let (indices, places): (Vec<usize>, Vec<Announced>) = open.into_iter().unzip();
        let sure = make_sure(ctx, &places).await;
        let mut closed = Vec::new();
        for ((index, place), sure) in indices.into_iter().zip(places).zip(sure) {
            match sure {
                Ok(()) if !place.is_open(ctx) => closed.push((index, place.anew())),
                sure => set(&mut results, index, sure),
            }
        }
        let (indices, anew): (Vec<usize>, Vec<Newcomer>) = closed.into_iter().unzip();
        open = Vec::with_capacity(anew.len());
        for (index, announced) in indices.into_iter().zip(announce(ctx, anew).await) {
            match announced {
                Ok(place) => open.push((index, place)),
                Err(fault) => set(&mut results, index, Err(fault)),
            }
        }
    }
    results
}

/// Takes back a place whose task was not written and will not be, if there is one.
pub(in crate::flow) async fn withdraw(ctx: &Context, place: Option<Announced>) {
    let Some(place) = place else { return };
    let rank = std::iter::once(place.member.rank);
    if let Err(fault) = sequences::remove(ctx, &place.sequence, rank).await {
        tracing::debug!(task = %place.member.rank.id, %fault, "its place was left to the next claim");
    }
}

/// Writes rows as sure, and touches the turns of those that are late.
async fn make_sure(ctx: &Context, places: &[Announced]) -> Vec<Result<(), Fault>> {
    let rows: Vec<(&Sequence, Member)> = places
        .iter()
        .map(|place| {
            let member = Member {
                sure: true,
                ..place.member
            };
            (&place.sequence, member)
        })
        .collect();
    let now = ctx.now();
    let mut late: BTreeMap<Sequence, Bound> = BTreeMap::new();
    for place in places {
        let rank = &place.member.rank;
        if ordering::is_late(rank.start, now) && !flaw::is(Flaw::LatePlaceUntold) {
            let lowest = late.entry(place.sequence.clone());
            let lowest = lowest.or_insert_with(|| rank.bound());
            *lowest = rank.bound().min(*lowest);
        }
    }
    let (put, touched) = tokio::join!(sequences::put(ctx, &rows), touch_all(ctx, late));
    let results = places.iter().zip(put);
    results
        .map(|(place, put)| {
            let touched = touched.get(&place.sequence).cloned();
            put.and_then(|()| touched.unwrap_or(Ok(())))
        })
        .collect()
}

/// Touches turns; returns how that ended for each.
async fn touch_all(
    ctx: &Context,
    late: BTreeMap<Sequence, Bound>,
) -> HashMap<Sequence, Result<(), Fault>> {
    let mut touched = HashMap::with_capacity(late.len());
    let late: Vec<(Sequence, Bound)> = late.into_iter().collect();
    for some in late.chunks(limits::TURNS_IN_FLIGHT_MAX) {
        let touches = some
            .iter()
            .map(|(sequence, lowest)| touch(ctx, sequence, *lowest));
        let results = join_all(touches).await;
        let named = some.iter().map(|(sequence, _)| sequence.clone());
        touched.extend(named.zip(results));
    }
    touched
}

/// Writes a turn behind a row that has come up late: a decision that has not seen the row, but has read the turn, cannot be
/// written any more.
async fn touch(ctx: &Context, sequence: &Sequence, lowest: Bound) -> Result<(), Fault> {
    let mut there = sequences::read(ctx, sequence, Freshness::Quorum).await?;
    let mut others = false;
    for _ in 0..limits::TURN_RACES_MAX {
        let turn = there.turn.lowered(lowest);
        // A later write than the read is as good as one of our own: whoever wrote it next has read the rows after ours.
        if others && turn == there.turn {
            return Ok(());
        }
        match sequences::write(ctx, sequence, &there, turn).await? {
            Written::Done(_) => return Ok(()),
            Written::Lost(now) => (there, others) = (now, true),
        }
    }
    Err(documents::raced(sequences::turn_of(sequence)))
}

fn uncertain() -> Fault {
    Fault::Unknown {
        reason: "the place of the task in its sequence took too long to write; the task may run, and at another place"
            .to_owned(),
    }
}

fn set(results: &mut [Result<(), Fault>], index: usize, result: Result<(), Fault>) {
    if let Some(slot) = results.get_mut(index) {
        *slot = result;
    }
}
