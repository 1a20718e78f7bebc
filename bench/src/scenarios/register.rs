//! The register scenario measures registrations for the report of tasks that are due in two hours.
//!
//! They are registered in process, over REST one by one, and over REST in batches. In one kind of batch each
//! task has its own due time within ten minutes, in the other all have the same.

use std::sync::{Arc, PoisonError};

use tickwheel::{
    flow::base::api::NewTask,
    model::{ids::TaskId, time::Millis},
};

use super::{
    Bench, WARM_UP,
    raw_insert::{Acknowledged, IN_FLIGHT, Window},
    rest::Rest,
};
use crate::{
    check::Check,
    generator::{self, Load},
    report::Report,
    tasks::{self, Kind},
};

pub(super) const IN_PROCESS: &str = "registered in process";
pub(super) const REST_ONE: &str = "registered over REST, singly";
pub(super) const REST_BATCH: &str = "registered over REST, by 100";
pub(super) const REST_TOGETHER: &str = "registered over REST, by 100 that are due together";

const NAME: &str = "send_email";
const BATCH: u64 = 100;
const BATCHES_IN_FLIGHT: [usize; 3] = [2, 4, 8];

/// A request, which registers so many tasks and reports the acknowledged ones.
type Sent = std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    let node = Box::pin(bench.servers.in_process()).await?;
    let service = node.service();
    let in_process = |window: Window, acknowledged: &Acknowledged| -> Sent {
        let (service, acknowledged) = (Arc::clone(&service), Arc::clone(acknowledged));
        Box::pin(async move {
            let time = service.time();
            let task = NewTask {
                start: window.draw(time.random()),
                draft: tasks::spec(tasks::target(Kind::Callback, NAME), time.now()).into(),
            };
            for registered in service.register(vec![task]).await {
                note(&acknowledged, [registered?.id]);
            }
            Ok(())
        })
    };
    case(bench, round, report, IN_PROCESS, &IN_FLIGHT, 1, in_process).await?;
    node.stop().await;

    let server = bench.servers.serve().await?;
    let (time, rest) = (
        bench.servers.time.clone(),
        Rest::to(&server, Kind::Callback, NAME)?,
    );
    let rest = Arc::new(rest);
    let singly = |window: Window, acknowledged: &Acknowledged| -> Sent {
        let (rest, acknowledged) = (Arc::clone(&rest), Arc::clone(acknowledged));
        let start = window.draw(time.random());
        Box::pin(async move {
            note(&acknowledged, [rest.register(start).await?]);
            Ok(())
        })
    };
    case(bench, round, report, REST_ONE, &IN_FLIGHT, 1, singly).await?;
    let send = |starts: Vec<Millis>, acknowledged: &Acknowledged| -> Sent {
        let (rest, acknowledged) = (Arc::clone(&rest), Arc::clone(acknowledged));
        Box::pin(async move {
            note(&acknowledged, rest.register_batch(&starts).await?);
            Ok(())
        })
    };
    let batch = |window: Window, acknowledged: &Acknowledged| {
        let starts = (0..BATCH).map(|_| window.draw(time.random()));
        send(starts.collect(), acknowledged)
    };
    let together = |window: Window, acknowledged: &Acknowledged| {
        let start = window.draw(time.random());
        send((0..BATCH).map(|_| start).collect(), acknowledged)
    };
    let tried = &BATCHES_IN_FLIGHT;
    case(bench, round, report, REST_BATCH, tried, BATCH, batch).await?;
    let (name, tried) = (REST_TOGETHER, &BATCHES_IN_FLIGHT);
    case(bench, round, report, name, tried, BATCH, together).await?;
    server.stop(&bench.servers.time).await
}

fn note(acknowledged: &Acknowledged, ids: impl IntoIterator<Item = TaskId>) {
    acknowledged
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(ids);
}

/// Measures one way of registering. In the round that does not count, it finds the best number in flight.
async fn case(
    bench: &Bench,
    round: u32,
    report: &mut Report,
    case: &'static str,
    tried: &[usize],
    batch: u64,
    request: impl Fn(Window, &Acknowledged) -> Sent,
) -> anyhow::Result<()> {
    if round != WARM_UP {
        let in_flight = bench
            .best(case)
            .or_else(|| tried.last().copied())
            .unwrap_or(1);
        let (per_second, check) = measure(bench, in_flight, batch, &request).await?;
        report.rate(case, round, per_second, check);
        return Ok(());
    }
    let mut best = (0.0, 0);
    for in_flight in tried {
        let (per_second, _) = measure(bench, *in_flight, batch, &request).await?;
        report.note(format!(
            "{case} with {in_flight} in flight: {per_second:.0}/s"
        ));
        if per_second > best.0 {
            best = (per_second, *in_flight);
        }
    }
    let mut found = bench.best.lock().unwrap_or_else(PoisonError::into_inner);
    found.push((case, best.1));
    Ok(())
}

async fn measure(
    bench: &Bench,
    in_flight: usize,
    batch: u64,
    request: &impl Fn(Window, &Acknowledged) -> Sent,
) -> anyhow::Result<(f64, Check)> {
    let (window, acknowledged) = (Window::of(bench), Acknowledged::default());
    let load = Load::flat_out(bench.tasks / batch, in_flight);
    let outcome = generator::send(&bench.servers.time, load, |_| {
        request(window, &acknowledged)
    })
    .await?;
    let sent = bench.tasks / batch * batch;
    let check = window.check(bench, true, &acknowledged).await?;
    Ok((sent as f64 / outcome.took.as_secs_f64(), check))
}
