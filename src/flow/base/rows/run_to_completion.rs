//! The whole call runs for stages what a client has asked for to its end, also when the client hangs up in between.
//!
//! The layers above drop the future of a call whose connection breaks. A stage that has written a row by then owes what follows
//! from that row, and nobody else may come to it for days. A call is one spawned task, however many tasks of clients it is about.
//!
//! A change that has not begun by then does not begin any more: its client may ask for another one meanwhile, which the old one
//! must not undo. A stage asks [`caller_waits`] before it writes what decides.

use tokio_util::sync::CancellationToken;

use crate::flow::base::api::Fault;

tokio::task_local! {
    /// Cancelled when the caller of this call is gone.
    static GONE: CancellationToken;
}

/// Runs a call to its end, even if the caller is cancelled.
///
/// # Errors
/// [`Fault::Unknown`] when it panicked, or the process ends.
pub(in crate::flow) async fn run_to_completion<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Fault> {
    let gone = CancellationToken::new();
    let _told = gone.clone().drop_guard();
    let called = tokio::spawn(GONE.scope(gone, call)).await;
    called.map_err(|error| Fault::Unknown {
        reason: format!("the call was not handled to its end: {error}"),
    })
}

/// Checks that the caller of the call that runs here still waits for its answer. Outside of a call it does.
///
/// # Errors
/// [`Fault::Unknown`], which nobody reads, when it is gone.
pub(in crate::flow) fn caller_waits() -> Result<(), Fault> {
    let gone = GONE.try_with(CancellationToken::is_cancelled);
    if gone.unwrap_or(false) {
        return Err(Fault::Unknown {
            reason: "its client hung up before the change began".to_owned(),
        });
    }
    Ok(())
}
