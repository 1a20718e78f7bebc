//! The content reader gives stages the content of one task, or the result of one attempt, that is kept apart.
//!
//! One that is damaged counts as gone, and is logged. A stage that asked for it again and again would hold up what waits behind
//! it, for as long as nobody mends it.

use crate::{
    flow::base::{api::Fault, context::Context},
    model::{ids::TaskId, task::Content},
    store,
};

/// Reads what is kept apart under this id.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(ctx: &Context, id: TaskId) -> Result<Option<Content>, Fault> {
    match ctx.store.bodies(&[id]).await {
        Ok(found) => Ok(found.into_iter().next().flatten()),
        Err(error @ store::Error::Corrupt { .. }) => {
            tracing::error!(task = %id, %error, "a content that is kept apart is damaged, and counts as gone");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
