//! Sets tasks aside whose rows cannot be understood: a person has to look at them.

use super::{api::Fault, context::Context};
use crate::{
    model::entry::Entry,
    schema,
    store::{self, Parked},
};

/// Sets aside what an entry stood for whose task's row cannot be understood.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(super) async fn unreadable_row(
    ctx: &Context,
    entry: &Entry,
    error: &store::Error,
) -> Result<(), Fault> {
    let reason = error.to_string();
    tracing::error!(task = %entry.key.id, reason, "set a task aside whose row cannot be understood");
    let parked = Parked {
        key: entry.key,
        at: ctx.now(),
        reason,
        raw: schema::encode_spec(&entry.spec),
    };
    ctx.store.park(&parked).await?;
    metrics::counter!("tickwheel_parked_total", "reason" => "unreadable").increment(1);
    Ok(())
}
