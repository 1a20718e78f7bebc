//! Tasks that fall due while the queue takes nothing go out when the queue is back, however far the next looks are.

use std::time::Duration;

use tickwheel::{
    doubles::queue::memory::Fault,
    flaw::{self, Flaw},
    flow::base::api::NewTask,
    model::{
        ids::TaskId, target::Target, task::Priority, time::Millis, undelivered::LOOK_PATIENCE,
        wheel::WheelNumber,
    },
    queue::message::topic,
};

use crate::world::{World, callback, published, register};

const SECOND: Duration = Duration::from_secs(1);

/// How long behind the return of the queue the last task may go out.
const SOON: Duration = Duration::from_secs(2);

fn task(start: Millis, claim_timeout: Duration) -> NewTask {
    let mut task = callback(start);
    task.draft.claim_timeout = Some(claim_timeout);
    task
}

/// Registers tasks before an outage, which fall due in it, and during it. Returns when each went out first behind the return of
/// the queue, and how often.
async fn outage(claim_timeout: Duration, away: Duration) -> Vec<(Duration, usize)> {
    let world = World::new(2, 10_000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let begin = world.time.now().after(6 * SECOND);
    let fall_due = (0..10).map(|n| task(begin.after(away / 10 * n), claim_timeout));
    let before = register(&node.service(), fall_due.collect()).await;
    let mut ids: Vec<TaskId> = before.iter().map(|task| task.id).collect();
    world.time.sleep_until_wall(begin).await;
    world.queue.faults().outage(true);
    for _ in 0..10 {
        let now = world.time.now();
        let near = register(&node.service(), vec![task(now, claim_timeout)]).await;
        ids.extend(near.iter().map(|task| task.id));
        world.pass(away / 10).await;
    }
    world.queue.faults().outage(false);
    let back = world.time.now();
    world.pass(SOON).await;
    world.check();
    let went = |id: &TaskId| {
        let times = published(&world, *id);
        let first = times
            .iter()
            .min()
            .map_or(Duration::MAX, |at| at.since(back));
        (first, times.len())
    };
    ids.iter().map(went).collect()
}

#[tokio::test(start_paused = true)]
async fn what_falls_due_in_an_outage_goes_out_with_the_queue() {
    for claim_timeout in [5, 60, 300] {
        for away in [10, 67, 400] {
            for (after, times) in outage(claim_timeout * SECOND, away * SECOND).await {
                let case = format!("claim timeout {claim_timeout} s, away {away} s");
                assert!(after <= SOON, "{case}: {after:?}");
                // Its memory and its look may both have it.
                assert!((1..=2).contains(&times), "{case}: {times} times");
            }
        }
    }
}

/// The distance of the looks of a task with a claim timeout of a minute.
const STEP: Duration = Duration::from_secs(68);

/// A look waits in its place also where another node took the task into its memory and died. Here that node has no heir, whose
/// memory would have the task as well.
#[tokio::test(start_paused = true)]
async fn a_look_that_cannot_publish_goes_out_with_the_queue() {
    flaw::switch(Some(Flaw::HeldLeftToLook));
    for behind_look in [5, 20, 100] {
        let world = World::new(1, 1000);
        let node = world.node(1);
        world.pass(3 * SECOND).await;
        let start = world.time.now().after(SECOND / 2);
        world.queue.faults().plan(1_000_000, Fault::UnconfirmedLost);
        let id = register(&node.service(), vec![task(start, 60 * SECOND)]).await[0].id;
        assert_eq!(id.look_step().duration(), STEP);
        node.crash();
        let _next = world.node(2);
        let at = start.after(STEP + behind_look * SECOND);
        world.time.sleep_until_wall(at).await;
        assert_eq!(published(&world, id), []);
        world.queue.faults().clear();
        world.pass(SECOND).await;
        assert_eq!(published(&world, id).len(), 1, "{behind_look}");
        world.check();
    }
}

/// While others pass, a look that cannot publish is put further on, so that it does not stop its wheel.
#[tokio::test(start_paused = true)]
async fn a_look_whose_topic_is_silent_stops_no_wheel() {
    let world = World::new(1, 10_000);
    let sick = topic("work", Priority::Normal);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    world.queue.create_topic(&sick, None);
    world.queue.faults().silent(&sick, true);
    let start = world.time.now().after(SECOND / 2);
    let id = register(&node.service(), vec![task(start, 60 * SECOND)]).await[0].id;
    for _ in 0..200 {
        let mut well = callback(world.time.now());
        well.draft.target = Target::Callback {
            name: "well".to_owned(),
        };
        register(&node.service(), vec![well]).await;
        world.pass(SECOND).await;
    }
    let wheel = WheelNumber::from_low_bits(0);
    let fired = world.store.clock_row(wheel).unwrap().fired.due;
    let behind = world.time.now().since(fired);
    assert!(behind <= LOOK_PATIENCE + 15 * SECOND, "{behind:?}");
    assert_eq!(published(&world, id), []);
    world.queue.faults().silent(&sick, false);
    world.pass(STEP + STEP / 2 + 5 * SECOND).await;
    assert!(!published(&world, id).is_empty());
    world.check();
}
