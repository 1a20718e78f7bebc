//! A schedule goes on when its look came while no node could take it, and when the clock of its node was wrong for a while.

use std::{collections::BTreeMap, time::Duration};

use tickwheel::{
    flow::stages::service::Service,
    model::schedule::life::{Missed, Overlap, ScheduleSpec},
};

use crate::world::{World, callback, succeeds};

const SECOND: Duration = Duration::from_secs(1);

const EVERY: Duration = Duration::from_secs(120);

/// Creates a schedule. Its looks come 30 to 55 s before its times.
async fn put(service: &Service) {
    let spec = ScheduleSpec {
        crons: Vec::new(),
        every: Some(EVERY),
        zone: "UTC".to_owned(),
        start: None,
        end: None,
        limit: None,
        jitter: Duration::ZERO,
        overlap: Overlap::Allow,
        missed: Missed::All,
        window: 3600 * SECOND,
        pause_on_failure: false,
        note: String::new(),
        labels: BTreeMap::new(),
        task: callback(service.time().now()).draft,
    };
    let put = service.schedules().put("ping", spec, None, 1, &|_| true);
    put.await.expect("a schedule");
}

/// The queue is away while the look at a schedule is due, at one node or more.
async fn an_outage_over_a_look(nodes: u64) {
    let world = World::new(1, 1000);
    let nodes: Vec<_> = (1..=nodes).map(|number| world.node(number)).collect();
    let worker = world.worker(nodes[0].service(), succeeds(SECOND));
    world.pass(5 * SECOND).await;
    put(&nodes[0].service()).await;
    let created = world.time.now();
    world.pass(30 * SECOND).await;
    world.queue.faults().outage(true);
    world.pass(100 * SECOND).await;
    world.queue.faults().outage(false);
    world.pass(30 * SECOND).await;
    let executions = world.executions.lock().unwrap().clone();
    assert_eq!(executions.len(), 1, "the run of the first time");
    assert!(executions[0].began >= created.after(EVERY));
    world.pass(100 * SECOND).await;
    assert_eq!(world.executions.lock().unwrap().len(), 2);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_when_the_queue_was_away_at_its_look() {
    an_outage_over_a_look(1).await;
    an_outage_over_a_look(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_when_a_clock_was_behind_by_an_hour_for_seconds() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND));
    world.pass(5 * SECOND).await;
    put(&node.service()).await;
    world.pass(30 * SECOND).await;
    node.time.set_wall_error_ms(-3_600_000);
    world.pass(10 * SECOND).await;
    node.time.set_wall_error_ms(0);
    world.pass(110 * SECOND).await;
    assert_eq!(world.executions.lock().unwrap().len(), 1, "the first time");
    world.pass(120 * SECOND).await;
    assert_eq!(world.executions.lock().unwrap().len(), 2);
    worker.abort();
}
