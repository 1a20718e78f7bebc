//! The leave stage takes tasks that have ended or were moved out of their sequences, and passes the turn on.
//!
//! It gives the turn to the next task that is due. So nobody has to ask for it, and no claim reads rows while the sequence has
//! work. Where the next row is not sure, nobody gets the turn, and the dispatcher looks after the sequence.

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents,
        tables::sequences::{self, Read, Written},
    },
    limits,
    model::{
        dispatch::Dispatch,
        ids::TaskId,
        ordering::{self, Holder, Member, Rank, Sequence, Standing, Turn},
        row::TaskRow,
        task::Spec,
        time::Millis,
    },
    store::Freshness,
};

/// Takes a task that has ended out of its sequence, if it is in one. Repeating it is safe.
///
/// # Errors
/// When the store is away; the look of the task comes back to it.
pub(in crate::flow) async fn ended(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let Some(sequence) = Sequence::of(&row.detail.spec) else {
        return Ok(());
    };
    let out = (row.id, row.generation);
    let (removed, passed) = tokio::join!(
        remove(ctx, &sequence, out, row.detail.start),
        pass_on(ctx, &sequence, out)
    );
    removed.and(passed)
}

/// Tells whether a sequence goes on while a task waits for its next attempt.
///
/// # Errors
/// When the configuration cannot be read.
pub(in crate::flow) async fn skips(ctx: &Context, sequence: &Sequence) -> Result<bool, Fault> {
    let policy = ctx
        .configured
        .policy(&*ctx.store, &sequence.callback)
        .await?;
    Ok(policy
        .and_then(|policy| policy.skips_retries)
        .unwrap_or(false))
}

/// Lets the others of its sequence go while a task waits for its next attempt. A failure is left to the looks of the others.
pub(in crate::flow) async fn lets_go(ctx: &Context, row: &TaskRow) {
    if let Err(fault) = retries(ctx, row).await {
        tracing::debug!(task = %row.id, %fault, "its sequence was left to the looks of the others");
    }
}

/// Lets the others of its sequence go while a task waits for its next attempt, if it had the turn for one attempt only.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn retries(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let Some(sequence) = Sequence::of(&row.detail.spec) else {
        return Ok(());
    };
    if !skips(ctx, &sequence).await? {
        return Ok(());
    }
    pass(
        ctx,
        &sequence,
        Out::Waits(row.id, row.generation, row.attempt),
    )
    .await
}

/// Takes a task that was moved to this dispatch out of the place that it had before, and passes on the turn that it may have had.
/// A row that stays is removed by the next claim of its sequence.
pub(in crate::flow) async fn moved(
    ctx: &Context,
    dispatch: Dispatch,
    spec: &Spec,
    before: Option<Millis>,
) {
    let Some(sequence) = Sequence::of(spec) else {
        return;
    };
    let out = (dispatch.id, dispatch.generation.saturating_sub(1));
    // Without a row before, it was never moved.
    let before = before.unwrap_or_else(|| dispatch.id.first_start());
    let removed = remove(ctx, &sequence, out, before).await;
    let left = match removed {
        Ok(()) => pass_on(ctx, &sequence, out).await,
        removed => removed,
    };
    if let Err(fault) = left {
        tracing::debug!(task = %dispatch.id, %fault, "its old place was left to the next claim");
    }
}

async fn remove(
    ctx: &Context,
    sequence: &Sequence,
    (id, generation): (TaskId, u32),
    start: Millis,
) -> Result<(), Fault> {
    let ranks = sequences::rows_of(ctx, sequence, (id, start)).await?;
    let old = ranks
        .into_iter()
        .filter(|rank| rank.generation <= generation);
    sequences::remove(ctx, sequence, old).await
}

/// Passes the turn on if this task has it, which is over in this generation. If nobody has it, the first task that is due is
/// looked after: it may have waited for this one.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn pass_on(
    ctx: &Context,
    sequence: &Sequence,
    (id, generation): (TaskId, u32),
) -> Result<(), Fault> {
    pass(ctx, sequence, Out::Over(id, generation)).await
}

/// A task that passes the turn on.
#[derive(Debug, Clone, Copy)]
enum Out {
    /// It is over in this generation.
    Over(TaskId, u32),
    /// It waits for the attempt behind this one, in this generation.
    Waits(TaskId, u32, u32),
}

impl Out {
    /// Tells whether the turn that this holder has is the one to pass on.
    fn had(self, holder: &Holder) -> bool {
        match self {
            Self::Over(id, generation) => holder.id == id && holder.generation <= generation,
            Self::Waits(id, generation, attempt) => {
                holder.is(id, generation) && holder.attempt > 0 && holder.attempt <= attempt
            }
        }
    }

    const fn task(self) -> TaskId {
        match self {
            Self::Over(id, _) | Self::Waits(id, ..) => id,
        }
    }

    /// Tells whether this is a place of a task that is over.
    fn left(self, rank: &Rank) -> bool {
        match self {
            Self::Over(id, generation) => rank.id == id && rank.generation <= generation,
            Self::Waits(..) => false,
        }
    }
}

async fn pass(ctx: &Context, sequence: &Sequence, out: Out) -> Result<(), Fault> {
    // Before the next task is looked for: one that is left out because of this one is due by then.
    ctx.turn_queue.ahead().left(sequence, out.task());
    let mut there = sequences::read(ctx, sequence, Freshness::Quorum).await?;
    for _ in 0..limits::TURN_RACES_MAX {
        if there.turn.holder.is_some_and(|holder| !out.had(&holder)) {
            return Ok(());
        }
        let next = next(ctx, sequence, &there, out).await?;
        if there.turn.holder.is_none() {
            // Its own claim asks for the turn.
            if next.due {
                ctx.turn_queue.add(sequence.clone(), ctx.time.moment());
            }
            return Ok(());
        }
        match sequences::write(ctx, sequence, &there, next.turn).await? {
            Written::Done(_) => {
                if next.due {
                    ctx.turn_queue.add(sequence.clone(), ctx.time.moment());
                }
                return Ok(());
            }
            Written::Lost(now) => there = now,
        }
    }
    Err(documents::raced(sequences::turn_of(sequence)))
}

/// The turn behind an end.
struct Next {
    turn: Turn,
    /// A task is due.
    due: bool,
}

/// Finds the turn that follows, without the task that is over. Rows of others that are over are removed.
async fn next(ctx: &Context, sequence: &Sequence, there: &Read, out: Out) -> Result<Next, Fault> {
    let skips = skips(ctx, sequence).await?;
    let mut page = sequences::members(ctx, sequence, &there.turn.from).await?;
    let mut passed = None;
    loop {
        let now = ctx.now();
        let mut walk = Walk {
            out,
            skips,
            now,
            over: Vec::new(),
            passed,
        };
        let first = first(ctx, &page.members, &mut walk).await?;
        sequences::remove(ctx, sequence, walk.over.into_iter()).await?;
        passed = walk.passed;
        if let Some(first) = first {
            let may = first.member.sure
                && matches!(first.standing, Standing::Stands | Standing::IfWritten);
            let is_due = first.member.rank.start <= now;
            let attempt = if skips { first.attempts + 1 } else { 0 };
            let holder = (may && is_due).then_some((&first.member, attempt));
            return Ok(Next {
                turn: turn(holder, passed.or(Some(first.member.rank)).as_ref(), now),
                due: is_due,
            });
        }
        match page.next.take() {
            Some(after) => page = sequences::members_behind(ctx, sequence, Some(after)).await?,
            None => {
                return Ok(Next {
                    turn: turn(None, passed.as_ref(), now),
                    due: false,
                });
            }
        }
    }
}

/// A walk over the members.
struct Walk {
    out: Out,
    skips: bool,
    now: Millis,
    /// Members that are over.
    over: Vec<Rank>,
    /// The first one that was passed over, since it waits for its next attempt.
    passed: Option<Rank>,
}

/// A member that counts.
struct First {
    member: Member,
    standing: Standing,
    /// The attempts of its task.
    attempts: u32,
}

/// Returns the first of these members that counts, and notes those before it that do not.
async fn first(ctx: &Context, members: &[Member], walk: &mut Walk) -> Result<Option<First>, Fault> {
    for member in members {
        let rank = &member.rank;
        if walk.out.left(rank) {
            continue;
        }
        let first = |standing, attempts| First {
            member: *member,
            standing,
            attempts,
        };
        // Nothing is asked about tasks that are not due.
        if rank.start > walk.now {
            return Ok(Some(first(Standing::Stands, 0)));
        }
        let row = sequences::task(ctx, rank.id).await?;
        let row = row.as_ref();
        if walk.skips && row.is_some_and(|row| ordering::is_passed_over(member, row, walk.now)) {
            walk.passed = walk.passed.or(Some(*rank));
            continue;
        }
        match ordering::member_stands(member, row, walk.now) {
            Standing::Over => walk.over.push(*rank),
            standing => {
                let attempts = row.map_or(0, |row| row.attempt);
                return Ok(Some(first(standing, attempts)));
            }
        }
    }
    Ok(None)
}

/// The turn of this task for an attempt, or of none, when `first` is the first row that counts.
fn turn(task: Option<(&Member, u32)>, first: Option<&Rank>, now: Millis) -> Turn {
    let holder = task.map(|(member, attempt)| Holder {
        id: member.rank.id,
        generation: member.rank.generation,
        since: now,
        attempt,
    });
    let from = ordering::bound(first, now);
    Turn { holder, from }
}
