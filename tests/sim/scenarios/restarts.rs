//! A stage beside the wheels that panics is started again, and goes on where it stopped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::world::{World, callback, published, register};

use tickwheel::{
    doubles::store::faulty::{Call, Fate, Faulty, Hook},
    flow::{
        base::panics::{self, Strike},
        stages::{node::Node, wheel::recover},
    },
    model::{ids::TaskId, state::Outcome},
    store::Underway,
};

const SECOND: Duration = Duration::from_secs(1);

/// Panics in the next calls of an operation, as many as are armed.
fn panics_in(operation: &'static str, armed: &Arc<AtomicUsize>) -> Hook {
    let armed = Arc::clone(armed);
    Arc::new(move |call: Call| {
        let one_less = |left: usize| left.checked_sub(1);
        let panics =
            call.operation == operation && armed.fetch_update(SeqCst, SeqCst, one_less).is_ok();
        assert!(!panics, "a panic that the test asked for");
        Fate::Go
    })
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_leases_that_panics_goes_on_with_what_it_watched() {
    let world = World::new(2, 10_000);
    let armed = Arc::new(AtomicUsize::new(0));
    let hook = panics_in("heartbeats", &armed);
    let node = world.node_with(1, Arc::new(move |_, call| hook(call)));
    let dies_once = Arc::new(|_: TaskId, attempt: u32| {
        let outcome = (attempt > 1).then_some(Outcome::Succeeded { result: None });
        (SECOND / 10, outcome)
    });
    let worker = world.worker(node.service(), dies_once);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(5 * SECOND);
    let seldom_looked_at = || {
        let mut task = callback(start);
        task.draft.claim_timeout = Some(Duration::from_secs(600));
        task.draft.heartbeat_timeout = Some(Duration::from_secs(5));
        task
    };
    let tasks = register(
        &node.service(),
        vec![seldom_looked_at(), seldom_looked_at()],
    )
    .await;
    armed.store(2, SeqCst);
    world.pass(30 * SECOND).await;
    assert_eq!(armed.load(SeqCst), 0, "nothing panicked");
    for task in tasks {
        let runs = world.executions_of(task.id);
        assert_eq!(runs.len(), 2, "{runs:?}");
        let waited = runs[1].began.since(runs[0].began);
        assert!(waited <= 12 * SECOND, "{waited:?}");
    }
    world.check();
    worker.abort();
}

/// A process dies with tasks handed over and not claimed, and with tasks to come. In the next process a stage
/// that reads this state panics: twice in an operation, or by its name. Returns how many of the former tasks
/// are handed over again at once, and the count of pending tasks.
pub(super) async fn after_panics(
    operation: Option<&'static str>,
    strike: Option<Strike>,
) -> (usize, (u64, bool)) {
    let world = World::on_disk(2, 10_000);
    let disk = world.disk();
    let armed = Arc::new(AtomicUsize::new(0));
    let start = |number: u64| {
        let hook = panics_in(operation.unwrap_or_default(), &armed);
        let own = Arc::clone(&disk) as Arc<dyn Underway>;
        let store = Arc::new(Faulty::of_own(own, world.time.clone(), hook));
        let publisher = world.queue.handle();
        let mut context = world.context(number, &publisher, Arc::new(|_| Fate::Go));
        context.store = Arc::clone(&store) as _;
        context.underway = Some(store);
        Node::start(context, SECOND)
    };
    let before = start(1);
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let mut tasks = vec![callback(now.after(5 * SECOND)); 10];
    tasks.extend(vec![callback(now.after(3600 * SECOND)); 7]);
    let tasks = register(&before.service(), tasks).await;
    world.pass(10 * SECOND).await;
    before.stop(10 * SECOND).await;
    let handed_over = |id| published(&world, id).len();
    assert!(tasks[..10].iter().all(|task| handed_over(task.id) == 1));
    recover::free_wheels(&*disk, &disk.shape(), &world.time)
        .await
        .unwrap();
    armed.store(if operation.is_some() { 2 } else { 0 }, SeqCst);
    panics::strike(strike);
    let node = start(2);
    world.pass(5 * SECOND).await;
    assert_eq!(armed.load(SeqCst), 0, "{operation:?} did not panic");
    let is_over = panics::strikes_left() == 0;
    let is_lasting = strike.is_some_and(|strike| strike.times == u32::MAX);
    assert!(is_over || is_lasting, "{strike:?} did not panic");
    panics::strike(None);
    let again = tasks[..10].iter().filter(|task| handed_over(task.id) > 1);
    let again = again.count();
    let stats = node.service().stats().await.unwrap();
    let pending = stats.pending.iter().map(|pending| pending.tasks).sum();
    (again, (pending, stats.exact))
}

#[tokio::test(start_paused = true)]
async fn what_the_process_before_has_left_is_gone_through_though_that_panics() {
    assert_eq!(after_panics(Some("looks"), None).await, (10, (7, true)));
}

#[tokio::test(start_paused = true)]
async fn what_the_process_before_has_left_is_counted_though_that_panics() {
    assert_eq!(after_panics(Some("firsts"), None).await, (10, (7, true)));
}
