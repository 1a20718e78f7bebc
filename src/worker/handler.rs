//! The handler runs a callback for the worker without its types: it takes any claimed task and returns an
//! outcome.
//!
//! Panics and errors become outcomes, too.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{
    context::Context,
    job::{Job, Payload, Raw},
    outcome::{Failure, Outcome, from_panic, from_return},
};

pub(super) type Handler =
    Arc<dyn Fn(Job<Raw>, Context) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// Erases a callback's types. Errors and panics (of reading the payload, too) become retries. An unreadable
/// payload fails the task, since it will not become readable.
pub(super) fn erase<T, F, R>(callback: F) -> Handler
where
    T: Payload,
    F: Fn(Job<T>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome, Failure>> + Send + 'static,
{
    let callback = Arc::new(callback);
    Arc::new(move |job, context| {
        let callback = Arc::clone(&callback);
        let run = async move {
            match job.read::<T>() {
                Ok(job) => from_return(callback(job, context).await),
                Err(error) => Outcome::Fail(error),
            }
        };
        let run = AssertUnwindSafe(run).catch_unwind();
        let ended = run.map(|ended| ended.unwrap_or_else(|panic| from_panic(panic.as_ref())));
        ended.map(Outcome::bounded).boxed()
    })
}
