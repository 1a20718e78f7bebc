//! The orders wait for the steps of an end, and of a task that comes to be, until tasks are durable that the registry registers.

use futures_util::future::try_join_all;

use crate::{
    flaw::{self, Flaw},
    flow::base::{agendas::outbox, api::Fault, context::Context},
    limits,
    model::holder::Holder,
};

/// Has tasks registered, and waits until all of them are durable.
///
/// # Errors
/// When one of these tasks may not be durable; repeating it is safe.
pub(in crate::flow) async fn register(ctx: &Context, tasks: Vec<Holder>) -> Result<(), Fault> {
    let registered = try_join_all(tasks.into_iter().map(|task| ctx.outbox.register(task)));
    let registered = async { registered.await.map(drop) };
    let registered = ctx.time.within(limits::OUTBOX_WAIT_MAX, registered).await;
    if flaw::is(Flaw::EndToldTooSoon) {
        return Ok(());
    }
    registered.unwrap_or_else(|| Err(outbox::unanswered()))
}
