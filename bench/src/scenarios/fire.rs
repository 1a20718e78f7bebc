//! This scenario measures for the report how fast a backlog comes out that is due within a tenth of a second.
//!
//! With the service running, the backlog has been read ahead when it is due, as in real life, and the
//! measured work is mostly publishing. With the service started behind the due time, as after an outage, all
//! of it is read and published between the first and the last arrival. For a tracked task, its look is
//! written, too.

use std::{sync::Arc, time::Duration};

use anyhow::{bail, ensure};
use futures_util::{StreamExt as _, stream};
use tickwheel::{
    flow::{base::api::NewTask, stages::service::Service},
    model::{target::Target, task::Priority, time::Millis},
    queue::message,
};

use super::{Bench, WARM_UP};
use crate::{
    observer::{self, Observer, Registered},
    report::Report,
    tasks::{self, Kind},
};

pub(super) const KAFKA: &str = "fired, kafka targets";
pub(super) const CALLBACK: &str = "fired, callback targets";
pub(super) const KAFKA_BEHIND: &str = "caught up, kafka targets";
pub(super) const CALLBACK_BEHIND: &str = "caught up, callback targets";

/// Time from the beginning of registration to the due time: this, and at least the time that so many tasks
/// take to register.
const LEAD: Duration = Duration::from_secs(8);
const REGISTERED_PER_SECOND: u64 = 20_000;
/// All due times are within this.
const SPREAD_MS: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(30);
const BATCH: usize = 500;
const BATCHES_IN_FLIGHT: usize = 8;

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    for (kind, behind, case) in [
        (Kind::Kafka, false, KAFKA),
        (Kind::Callback, false, CALLBACK),
        (Kind::Kafka, true, KAFKA_BEHIND),
        (Kind::Callback, true, CALLBACK_BEHIND),
    ] {
        if round == WARM_UP && behind {
            continue;
        }
        let verdict = measure(bench, kind, behind).await?;
        if round != WARM_UP {
            report.rate(case, round, verdict.per_second(), verdict.check);
        }
    }
    Ok(())
}

async fn measure(bench: &Bench, kind: Kind, behind: bool) -> anyhow::Result<observer::Verdict> {
    let time = &bench.servers.time;
    let name = format!("fire{}", time.random());
    let topic = match kind {
        Kind::Kafka => name.clone(),
        Kind::Callback => message::topic(&name, Priority::Normal),
    };
    bench.servers.topics(std::slice::from_ref(&topic)).await?;
    let early = if behind {
        None
    } else {
        Some(bench.servers.serve().await?)
    };
    let node = Box::pin(bench.servers.in_process()).await?;
    let lead = LEAD + Duration::from_secs(bench.tasks / REGISTERED_PER_SECOND);
    let due = time.now().after(lead);
    let target = tasks::target(kind, &name);
    let starts: Vec<Millis> = (0..bench.tasks)
        .map(|index| due.after(Duration::from_millis(index % SPREAD_MS)))
        .collect();
    let registered = register(&node.service(), &starts, &target).await?;
    node.stop().await;
    ensure!(
        time.now().after(Duration::from_secs(4)) < due,
        "registration took too long: ask for fewer tasks"
    );
    let observer = Observer::start(&bench.servers.kafka, &topic, time)?;
    let server = match early {
        Some(server) => server,
        None => {
            time.sleep_until_wall(due.after(Duration::from_secs(1)))
                .await;
            bench.servers.serve().await?
        }
    };
    time.sleep_until_wall(due).await;
    let verdict = observer::wait(time, &registered, &observer.arrivals, PATIENCE).await;
    server.stop(time).await?;
    Ok(verdict)
}

/// Registers tasks in this process, as fast as possible.
pub(super) async fn register(
    service: &Arc<Service>,
    starts: &[Millis],
    target: &Target,
) -> anyhow::Result<Registered> {
    let mut batches = stream::iter(starts.chunks(BATCH).map(|starts| {
        let new = |start: &Millis| NewTask {
            start: *start,
            draft: tasks::spec(target.clone(), service.time().now()).into(),
        };
        let tasks: Vec<NewTask> = starts.iter().map(new).collect();
        let service = Arc::clone(service);
        async move { tokio::spawn(async move { service.register(tasks).await }).await }
    }))
    .buffer_unordered(BATCHES_IN_FLIGHT);
    let mut registered = Registered::new();
    while let Some(answers) = batches.next().await {
        for answer in answers? {
            match answer {
                Ok(task) => registered.insert(task.id, task.start),
                Err(fault) => bail!("a registration failed: {fault}"),
            };
        }
    }
    Ok(registered)
}
