//! The undelivered room sets tasks aside for operators when they can never be handed over, or when their rows
//! cannot be understood.
//!
//! [`crate::model::undelivered`] decides when.

use super::sending::Unsent;
use crate::{
    flow::base::{api::Fault, context::Context},
    model::entry::Entry,
    schema,
    store::{self, Parked},
};

/// Sets aside what an entry stood for whose task's row cannot be understood.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn unreadable_row(
    ctx: &Context,
    entry: &Entry,
    error: &store::Error,
) -> Result<(), Fault> {
    let reason = error.to_string();
    tracing::error!(task = %entry.key.id, reason, "set a task aside whose row cannot be understood");
    park(ctx, entry, reason).await?;
    metrics::counter!("tickwheel_parked_total", "reason" => "unreadable").increment(1);
    Ok(())
}

/// Sets aside the look of a task that has ended, and whose end steps have failed for days.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn end_steps(
    ctx: &Context,
    look: &Entry,
    fault: &Fault,
) -> Result<(), Fault> {
    let reason = format!("the steps at its end have failed for days: {fault}");
    tracing::error!(task = %look.key.id, reason, "set a task aside that has ended");
    park(ctx, look, reason).await?;
    metrics::counter!("tickwheel_parked_total", "reason" => "end_steps").increment(1);
    Ok(())
}

/// Sets a task aside that can never be handed over; tells whether that is durable.
pub(in crate::flow) async fn unsent(ctx: &Context, entry: &Entry, unsent: &Unsent) -> bool {
    let reason = unsent.to_string();
    tracing::warn!(task = %entry.key.id, reason, "set a task aside that cannot be handed over");
    let kept = park(ctx, entry, reason).await.is_ok();
    if kept {
        metrics::counter!("tickwheel_parked_total", "reason" => "undeliverable").increment(1);
    }
    kept
}

async fn park(ctx: &Context, entry: &Entry, reason: String) -> Result<(), store::Error> {
    let parked = Parked {
        key: entry.key,
        at: ctx.now(),
        reason,
        raw: schema::encode_spec(&entry.spec),
    };
    ctx.store.park(&parked).await
}
