//! Debts are paid: those of an end, of a first claim, and of an end that a row is about to forget ([`crate::model::owed`] has the
//! lists, and the order). The content of a dead task that is to run again gets its life back.
//!
//! A payment is idempotent. The writer of an end pays, and the look that finds the task ended pays again before it drops. A crash
//! between the row and its debts is therefore repaired by the look. A slow node may pay after a redrive. The looks of a task that
//! may have been redriven therefore undo it, days before the content would end.
//!
//! A repetition tells an end no second time, as it finds what was registered for it. The registrations are forgotten after days
//! ([`END_TOLD_WITHIN`]), and a caller that comes later pays the other debts alone.

use std::{sync::Arc, time::Duration};

use crate::{
    flow::{
        base::{
            api::Fault,
            context::Context,
            rows::{content, messages, results},
        },
        features::{
            ends::{dead_letter_topic, follow_ups, report},
            join::ended as joins_ended,
            letter::filing,
            lists::{ended_rows, label_rows},
            sequence::leave,
            tree::ended as family_ended,
        },
    },
    limits::END_TOLD_WITHIN,
    model::{
        dead_letter,
        ids::TaskId,
        owed::{self, Asked, Debt, Debts, Forgetting},
        restart,
        state::{TERMINAL_TTL_MIN, TaskRow},
        task::Spec,
        time::Millis,
    },
};

const _: () = assert!(END_TOLD_WITHIN.as_secs() < TERMINAL_TTL_MIN.as_secs());

/// The payer. It decides which reports of an end are still told.
#[derive(Debug, Clone, Copy)]
pub(in crate::flow) enum By {
    /// The writer of the end, or a look that may be the first to find it: it tells an end of a plain task however old it is.
    First,
    /// A caller that may come long behind the end. An end that is days old is not told again.
    Again,
    /// The look at a task whose tree goes on, which was due at this time.
    Look(Millis),
}

/// Pays all that the end of a task owes. A repetition is safe.
///
/// # Errors
/// When the store is away; the look comes back to it.
pub(in crate::flow) async fn settle_debts(
    ctx: &Context,
    row: &TaskRow,
    by: By,
) -> Result<(), Fault> {
    let asked = match by {
        By::First => asked(ctx, ctx.now(), true),
        By::Again => asked(ctx, ctx.now(), false),
        By::Look(due) => asked(ctx, due, false),
    };
    pay(ctx, row, owed::of_end(row, &asked)).await
}

/// Pays, before a row forgets an end, the debts of that end that no later row can pay.
///
/// # Errors
/// As of [`settle_debts`].
pub(super) async fn before(
    ctx: &Context,
    forgetting: Forgetting,
    row: &TaskRow,
) -> Result<(), Fault> {
    let debts = owed::before(forgetting, row, &asked(ctx, ctx.now(), false));
    pay(ctx, row, debts).await
}

fn asked(ctx: &Context, at: Millis, is_first: bool) -> Asked {
    Asked {
        at,
        expired_by: ctx.store.expired_by(ctx.now()),
        told_within: END_TOLD_WITHIN,
        is_first,
    }
}

/// Pays debts in their order. One that cannot be paid stops it, since a later one may rest on it; only a turn does not.
async fn pay(ctx: &Context, row: &TaskRow, debts: Debts) -> Result<(), Fault> {
    let mut turn = Ok(());
    // Large and rare futures are apart, so that those of common ends are as small as they can be.
    for debt in debts.in_order() {
        match debt {
            // Rows of other tasks may fail it, and they keep no debt of this one from being paid.
            Debt::Turn => turn = Box::pin(leave::ended(ctx, row)).await,
            Debt::Removal => Box::pin(remove(ctx, row)).await?,
            Debt::FormerLetter => Box::pin(filing::withdraw(ctx, row)).await?,
            Debt::Letter => Box::pin(filing::file(ctx, row)).await?,
            Debt::Listing => ended_rows::file(ctx, row).await?,
            Debt::Labels => Box::pin(end_labels(ctx, row)).await?,
            Debt::Content => {
                // Entries of the task that are still ahead need no content any more; its readers do, while it is retained.
                let kept = dead_letter::kept(row).max(TERMINAL_TTL_MIN);
                Box::pin(keep_content(ctx, row.id, &row.detail.spec, Some(kept))).await?;
            }
            Debt::DeathRecord => Box::pin(dead_letter_topic::file(ctx, row)).await?,
            Debt::Claim => Box::pin(report::tell_claim(ctx, row)).await?,
            Debt::RunReport => Box::pin(report::tell(ctx, row)).await?,
            Debt::TreeReport => Box::pin(report::tell_tree(ctx, row)).await?,
            Debt::FollowUps => Box::pin(follow_ups::join(ctx, row)).await?,
            Debt::Parent => family_ended::step(ctx, row).await?,
            Debt::Waiters => joins_ended::step(ctx, row).await?,
        }
    }
    turn
}

/// Removes what a person has deleted: no reader is shown it any more. A repetition removes nothing.
async fn remove(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let written = ctx.time.stamp();
    ctx.store.delete_bodies(&[row.id], written).await?;
    results::delete(ctx, row).await?;
    messages::delete(ctx, row).await?;
    label_rows::remove(ctx, row.id, &row.detail.spec).await
}

async fn end_labels(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    // The retention of a task that may have children begins with the end of its tree.
    let end = row.ended_at().unwrap_or_else(|| ctx.now());
    let end = end.after(dead_letter::kept(row));
    label_rows::keep(ctx, row.id, &row.detail.spec, Some(end)).await
}

/// Undoes the end steps of a task that is to run again: its content lives for ever. False when it is gone.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn undo(ctx: &Context, id: TaskId, spec: &Spec) -> Result<bool, Fault> {
    label_rows::keep(ctx, id, spec, None).await?;
    keep_content(ctx, id, spec, None).await
}

/// Tells the first claim of a task behind it.
///
/// # Errors
/// When the store is away; the look comes back to it.
pub(super) async fn tell_claim(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    pay(ctx, row, owed::of_claim(row, &asked(ctx, ctx.now(), false))).await
}

/// Does for tasks that go on and are looked at what is left to do: letters of those that were redriven go, and their contents get
/// their unbounded life back, and first claims are told. A failure is left to the next look.
pub(in crate::flow) async fn keep_redriven(ctx: &Context, rows: &[Option<TaskRow>]) {
    let redriven = |row: &&TaskRow| restart::may_be_redriven(row);
    for row in rows.iter().flatten().filter(redriven) {
        if let Err(fault) = undo(ctx, row.id, &row.detail.spec).await {
            tracing::debug!(task = %row.id, %fault, "its content was left to the next look");
        }
    }
    // The end steps of a terminal task do it.
    let runs = |row: &&TaskRow| !row.state.is_terminal();
    for row in rows.iter().flatten().filter(runs) {
        if let Err(fault) = tell_claim(ctx, row).await {
            tracing::debug!(task = %row.id, %fault, "its first claim was left to the next look");
        }
        if let Err(fault) = filing::withdraw(ctx, row).await {
            tracing::debug!(task = %row.id, %fault, "its letter was left to the next look");
        }
    }
}

/// Writes a content that is kept apart again: it is kept for `kept` from now on, or for ever.
async fn keep_content(
    ctx: &Context,
    id: TaskId,
    spec: &Spec,
    kept: Option<Duration>,
) -> Result<bool, Fault> {
    let Some(bytes) = spec.bytes_apart() else {
        return Ok(true);
    };
    // Many tasks may end at once, and each content is in memory for this.
    let _room = ctx.contents.take_to_end(2 * bytes).await;
    let Some(content) = content::read(ctx, id).await? else {
        return Ok(false);
    };
    let ttl = kept.map(|kept| u32::try_from(kept.as_secs()).unwrap_or(u32::MAX));
    let put = ctx
        .store
        .put_bodies(&[(id, Arc::new(content))], ctx.time.stamp(), ttl)
        .await;
    for result in put {
        result?;
    }
    Ok(true)
}
