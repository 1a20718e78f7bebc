//! The trees scenario measures for the report how fast children come and go under one root, and how soon a tree ends.
//!
//! Children start at once, and workers take them while more are added. A tree must end as completed, with every child counted
//! once. The chain has one child a level: all run at the same time, and the ends go up level by level.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tickwheel::{
    api::{text::InstantText, time::instant},
    model::{ids::TaskId, time::Millis},
};
use uuid::Uuid;

use super::{
    beside::soon,
    parts::{BATCH_CONNECTIONS, PATIENCE, read_back},
};
use crate::{
    embedded::{
        Setup,
        check::{Registered, verdict},
        crew::{self, Seen},
        flat,
        http::Connection,
        meter::Meter,
        service::Host,
        wire,
    },
    payload,
    report::Report,
};

/// Children of a request.
const BATCH: u64 = 100;
/// Children created and ended a second.
const RATE_AIM: f64 = 3000.0;
/// Time to the end of a tree: of so many children at most, and of more.
const SMALL: u64 = 1000;
const SMALL_AIM: f64 = 0.25;
const LARGE_AIM: f64 = 2.0;

/// Measures one tree for each number of children, then the chain.
pub(in crate::embedded) async fn trees(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let sizes = &setup.sizes;
    report.note(format!(
        "trees: {:?} children under one root, {BATCH} a request; a chain of {} levels",
        sizes.children, sizes.levels
    ));
    for children in &sizes.children {
        let service = setup.start().await?;
        family(&service, *children, report).await?;
        setup.end(service, report)?;
    }
    if sizes.levels > 0 {
        let service = setup.start().await?;
        chain(&service, sizes.levels, report).await?;
        setup.end(service, report)?;
    }
    Ok(())
}

/// Returns a task that may have children.
fn task(fields: &str) -> String {
    let payload = payload::next();
    format!(r#"{{"callback":"bench",{fields}"heartbeat_timeout":"10m","payload":{payload}}}"#)
}

/// Returns what an id says about its task: it starts at once, so its start is that of its registration.
fn registered(id: u128, index: u64) -> anyhow::Result<Registered> {
    let start = TaskId::from_uuid(Uuid::from_u128(id)).map(TaskId::first_start);
    Ok(Registered {
        id,
        due: start.context("an id without a start")?,
        index,
    })
}

/// Registers one task and returns it.
async fn register(service: &impl Host, fields: &str) -> anyhow::Result<Registered> {
    let mut connection = Connection::open(service.door()).await?;
    let answer = connection
        .post("/v1/tasks", task(fields).as_bytes())
        .await?;
    registered(wire::ids(answer).next().context("an id")??, 0)
}

/// Measures a root with many children, all of which come and go at once.
pub(crate) async fn family(
    service: &impl Host,
    children: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let root = register(service, r#""children":[],"#).await?;
    let parent = format!(r#""parent":"{}","#, Uuid::from_u128(root.id));
    let mut all = vec![root];
    let request = |number: u64| {
        let count = BATCH.min(children - number * BATCH);
        let tasks: Vec<String> = (0..count).map(|_| task(&parent)).collect();
        let body = format!(r#"{{"tasks":[{}]}}"#, tasks.join(","));
        ("/v1/tasks:batchCreate".to_owned(), body)
    };
    let noted = |_: u64, answer: &[u8]| {
        for id in wire::ids(answer) {
            let id = id?;
            all.push(registered(id, all.len() as u64)?);
        }
        anyhow::Ok(())
    };
    let patience = PATIENCE + Duration::from_secs(children / 100);
    let requests = children.div_ceil(BATCH);
    let (meter, begun_us) = (Meter::start(service)?, service.time().stamp());
    let (sent, seen) = tokio::join!(
        flat::post(service, BATCH_CONNECTIONS, requests, request, noted),
        crew::work(service, children + 1, patience)
    );
    let (sent, seen) = (sent?, seen?);
    let case = format!("trees: {children} children");
    meter.stop(service, children)?.report(&case, report);
    ensure!(all.len() as u64 == children + 1, "some were not registered");
    report.figure(format!("{case}: created"), sent.rate(children), "tasks/s");
    let took = (seen.last_settled_us - begun_us).max(1) as f64 / 1e6;
    report.aimed(
        format!("{case}: created and ended"),
        children as f64 / took,
        "tasks/s",
        RATE_AIM,
    );
    let aim = if children <= SMALL {
        SMALL_AIM
    } else {
        LARGE_AIM
    };
    let ended = end_of(service, root.id, &seen, patience).await?;
    report.aimed(
        format!("{case}: last child's end to the parent's"),
        ended,
        "s",
        aim,
    );
    counted(service, root.id, children, &case, report).await?;
    finish(service, all, seen, &case, report).await
}

/// Measures a chain: each task is the only child of the one before.
async fn chain(service: &impl Host, levels: u64, report: &mut Report) -> anyhow::Result<()> {
    let case = format!("trees: a chain of {levels}");
    let first = soon(service.time(), Duration::from_secs(10 + levels / 50));
    let start = tickwheel::model::time::rfc3339(first);
    let mut all: Vec<Registered> = Vec::new();
    let mut connection = Connection::open(service.door()).await?;
    let begun = service.time().moment();
    for index in 0..levels {
        let parent = all.last().map_or_else(String::new, |task| {
            format!(r#""parent":"{}","#, Uuid::from_u128(task.id))
        });
        let body = task(&format!(r#"{parent}"children":[],"start_time":"{start}","#));
        let answer = connection.post("/v1/tasks", body.as_bytes()).await?;
        all.push(registered(
            wire::ids(answer).next().context("an id")??,
            index,
        )?);
    }
    let took = service.time().moment().since(begun).as_secs_f64();
    report.figure(
        format!("{case}: created one after the other"),
        levels as f64 / took,
        "tasks/s",
    );
    ensure!(service.time().now() < first, "not registered in time");
    let root = all.first().context("a root")?.id;
    // A level may take half a second where many things take turns.
    let patience = PATIENCE * 2 + Duration::from_millis(500) * u32::try_from(levels)?;
    let seen = crew::work(service, levels, patience).await?;
    let ended = end_of(service, root, &seen, patience).await?;
    report.figure(
        format!("{case}: last own run's end to the root's"),
        ended,
        "s",
    );
    report.aimed(
        format!("{case}: the same, a level"),
        ended / levels as f64,
        "s",
        SMALL_AIM,
    );
    finish(service, all, seen, &case, report).await
}

/// Waits for the end of a tree; returns the seconds from the last settle to it.
async fn end_of(
    service: &impl Host,
    root: u128,
    seen: &Seen,
    patience: Duration,
) -> anyhow::Result<f64> {
    let mut connection = Connection::open(service.door()).await?;
    let path = format!("/v1/tasks/{}?wait=20s", Uuid::from_u128(root));
    let until = service.time().moment().after(patience);
    loop {
        let read: Value = serde_json::from_slice(connection.get(&path).await?)?;
        if let Some(end) = read.get("tree_end_time").and_then(Value::as_str) {
            let state = read.get("tree_state").and_then(Value::as_str);
            ensure!(state == Some("completed"), "the tree ended as {state:?}");
            let end: InstantText = InstantText(end.to_owned());
            let end = instant(&end).map_err(anyhow::Error::msg)?;
            return Ok((end.0 * 1000 - seen.last_settled_us) as f64 / 1e6);
        }
        if service.time().moment() >= until {
            bail!("the tree did not end in time: {read}");
        }
    }
}

/// Checks how many children the root counts as succeeded.
async fn counted(
    service: &impl Host,
    root: u128,
    children: u64,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(service.door()).await?;
    let path = format!("/v1/tasks/{}/tree?depth=1", Uuid::from_u128(root));
    let read: Value = serde_json::from_slice(connection.get(&path).await?)?;
    let found = succeeded(&read);
    if found != Some(children) {
        report.fault(format!(
            "{case}: the root counts {found:?} children as succeeded"
        ));
    }
    Ok(())
}

/// Returns how many children of the first node of a tree are counted as succeeded, if there are no others.
fn succeeded(tree: &Value) -> Option<u64> {
    let children = tree.get("nodes")?.get(0)?.get("children")?.as_object()?;
    let (all, of) = (children.len(), |state: &str| children.get(state)?.as_u64());
    // A tree that has ended counts its children by the ends of their trees.
    let ended = of("succeeded").unwrap_or(0) + of("completed").unwrap_or(0);
    (all <= 1).then_some(ended)
}

async fn finish(
    service: &impl Host,
    all: Vec<Registered>,
    seen: Seen,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    read_back(service, &all, "succeeded").await?;
    let verdict = verdict(all, seen.arrivals, Millis(0))?;
    report.times(
        format!("{case}: due to worker"),
        &verdict.lateness,
        verdict.check,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_ended_otherwise_are_seen() {
        let tree = |children: &str| -> Value {
            let text = format!(r#"{{"nodes":[{{"id":"x","children":{children}}}]}}"#);
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(succeeded(&tree(r#"{"succeeded":3}"#)), Some(3));
        assert_eq!(succeeded(&tree(r#"{"succeeded":2,"open":1}"#)), None);
        assert_eq!(succeeded(&tree("{}")), Some(0));
    }
}
