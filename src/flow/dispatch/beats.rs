//! The heartbeats are read here for looks: a worker lives as long as its last sign of life says.

use std::collections::HashMap;

use crate::{
    flow::{api::Fault, context::Context},
    model::ids::TaskId,
    store::Heartbeat,
};

/// Reads the last signs of life of attempts. One that cannot be understood counts as one of now: its worker may live, and its
/// next one takes the place of this.
///
/// # Errors
/// When the store is away.
pub(super) async fn read(
    ctx: &Context,
    running: &[(TaskId, u32)],
) -> Result<HashMap<TaskId, Heartbeat>, Fault> {
    let mut beats = HashMap::with_capacity(running.len());
    let read = ctx.store.heartbeats_each(running).await;
    for ((id, attempt), beat) in running.iter().zip(read) {
        let beat = match beat {
            Ok(beat) => beat,
            Err(error) if error.is_of_a_row() => {
                tracing::warn!(task = %id, %error, "a heartbeat cannot be understood and counts as one of now");
                Some(Heartbeat {
                    id: *id,
                    attempt: *attempt,
                    at: ctx.now(),
                    progress: None,
                })
            }
            Err(error) => return Err(error.into()),
        };
        beats.extend(beat.map(|beat| (*id, beat)));
    }
    Ok(beats)
}
