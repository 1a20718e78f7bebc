//! The heartbeats are read here for looks and for figures: a worker lives as long as its last sign of life says.

use std::collections::{HashMap, HashSet};

use crate::{
    flow::base::{api::Fault, context::Context},
    model::{
        ids::TaskId,
        state::{State, TaskRow},
        time::Millis,
    },
    store::Heartbeat,
};

/// Reads the last signs of life of attempts. One that cannot be understood counts as one of now: its worker may live, and its
/// next one takes the place of this.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(
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

/// Returns which tasks of these rows have lost their worker. Nothing is known while the store is away: then there are none.
pub(in crate::flow) async fn lost<'a>(
    ctx: &Context,
    rows: impl Iterator<Item = &'a TaskRow>,
    now: Millis,
) -> HashSet<TaskId> {
    // A heartbeat makes a lease longer, never shorter.
    let over = rows.filter(|row| row.state == State::Claimed && row.alive_until(None) <= now);
    let over: Vec<&TaskRow> = over.collect();
    if over.is_empty() {
        return HashSet::new();
    }
    let attempts: Vec<(TaskId, u32)> = over.iter().map(|row| (row.id, row.attempt)).collect();
    let Ok(beats) = read(ctx, &attempts).await else {
        return HashSet::new();
    };
    let is_lost = |row: &&&TaskRow| {
        let beat = beats.get(&row.id).map(|beat| beat.at);
        row.alive_until(ctx.sign_of_life(beat)) <= now
    };
    over.iter().filter(is_lost).map(|row| row.id).collect()
}
