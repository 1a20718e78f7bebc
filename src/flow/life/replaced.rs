//! A look finishes what a request that replaced its task may have left undone: the record of the key names the next task, which
//! is entered.

use super::{
    door::{By, settle_debts},
    enter::Entrance,
    incoming::Incoming,
};
use crate::{
    flow::{
        base::{api::Fault, context::Context},
        features::key::keys::Keys,
    },
    model::row::TaskRow,
};

/// Pays what an end owes for the look that finds it, behind [`enter_next`].
///
/// # Errors
/// When the store is away; the look comes back to it.
pub(in crate::flow) async fn end_steps(
    ctx: &Context,
    keys: &Keys,
    entrance: &Entrance,
    row: &TaskRow,
) -> Result<(), Fault> {
    enter_next(keys, entrance, row).await?;
    settle_debts(ctx, row, By::First).await
}

/// Enters the task that has replaced another one, whose row this is, if nothing stands for it.
///
/// # Errors
/// As of [`end_steps`].
pub(in crate::flow) async fn enter_next(
    keys: &Keys,
    entrance: &Entrance,
    row: &TaskRow,
) -> Result<(), Fault> {
    match keys.left_unwritten(row).await? {
        Some(next) => entrance.enter_one(Incoming::of_holder(next.clone())).await,
        None => Ok(()),
    }
}
