//! The whole call runs for stages what a client has asked for to its end, also when the client hangs up in between.
//!
//! The layers above drop the future of a call whose connection breaks. A stage that has written a row by then owes what follows
//! from that row, and nobody else may come to it for days. A call is one spawned task, however many tasks of clients it is about.

use crate::flow::api::Fault;

/// Runs a call to its end, even if the caller is cancelled.
///
/// # Errors
/// [`Fault::Unknown`] when it panicked, or the process ends.
pub(super) async fn whole<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Fault> {
    tokio::spawn(call).await.map_err(|error| Fault::Unknown {
        reason: format!("the call was not handled to its end: {error}"),
    })
}
