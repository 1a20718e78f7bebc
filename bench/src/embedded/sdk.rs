//! The load of the SDK registers tasks through one client, by many callers at once or by a lonely one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use tickwheel::{
    client::{Client, Task},
    model::time::{Millis, rfc3339},
};
use tokio::task::JoinSet;

use super::{
    check::Registered,
    load::{Due, Loaded},
    service::Service,
    wire::CALLBACK,
};
use crate::{
    generator::{histogram, micros},
    payload,
};

/// As that of the tasks of other loads: a worker that is slow under load has not died.
const HEARTBEAT: Duration = Duration::from_secs(600);

/// Registers so many tasks by so many callers of one client, each of which waits for its answer.
pub(super) async fn register(
    service: &Service,
    (callers, tasks): (usize, u64),
    due: impl Due,
) -> anyhow::Result<Loaded> {
    let client = Client::connect(&service.address.to_string())?;
    let (next, time) = (Arc::new(AtomicU64::new(0)), &service.time);
    let (mut running, begun) = (JoinSet::new(), time.moment());
    for _ in 0..callers {
        let (client, next, time) = (client.clone(), Arc::clone(&next), time.clone());
        running.spawn(async move {
            let (mut registered, mut latency) = (Vec::new(), histogram()?);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= tasks {
                    return anyhow::Ok((registered, latency));
                }
                let due: Millis = due(index);
                let payload: Box<RawValue> = RawValue::from_string(payload::next())?;
                let task = Task::callback(CALLBACK).start_at(rfc3339(due).as_str());
                let task = task.heartbeat_timeout(HEARTBEAT).json(&payload)?;
                let sent = time.moment();
                let id = client.register(task).await?.id;
                latency.saturating_record(micros(time.moment().since(sent)));
                let id = id.uuid().as_u128();
                registered.push(Registered { id, due, index });
            }
        });
    }
    let mut loaded = Loaded::none()?;
    while let Some(ended) = running.join_next().await {
        let (registered, latency) = ended??;
        loaded.registered.extend(registered);
        loaded.latency.add(latency)?;
    }
    loaded.took = time.moment().since(begun);
    Ok(loaded)
}
