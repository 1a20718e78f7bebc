//! A node bounds floods of reads: others wait a moment and are then told to come back, and real
//! tasks are still found.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::future::join_all;

use crate::world::{Simulated, World, callback, register};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::{
        base::api::{Fault, View},
        stages::{query::filter::Filter, service::Service},
    },
    limits,
    model::{ids::TaskId, time::Millis, wheel::WheelNumber},
};

const SECOND: Duration = Duration::from_secs(1);

/// How long a read takes.
const TAKES: Duration = Duration::from_millis(200);

/// The times when reads began.
type Begun = Arc<Mutex<Vec<Millis>>>;

/// A node whose reads of some kind take long once they are slow.
fn slow_node(world: &World, operation: &'static str) -> (Simulated, Begun, Arc<AtomicUsize>) {
    let (begun, slow) = (Begun::default(), Arc::new(AtomicUsize::new(0)));
    let (noted, is_slow, time) = (Arc::clone(&begun), Arc::clone(&slow), world.time.clone());
    let node = world.node_with(
        1,
        Arc::new(move |_, call| {
            if call.operation != operation || is_slow.load(SeqCst) == 0 {
                return Fate::Go;
            }
            noted.lock().unwrap().push(time.now());
            Fate::Delay(TAKES)
        }),
    );
    (node, begun, slow)
}

/// The largest number of reads under way together.
fn at_once(begun: &Begun) -> usize {
    let begun = begun.lock().unwrap();
    let together = begun.iter().map(|at| {
        let within = |other: &&Millis| **other <= *at && at.since(**other) < TAKES;
        begun.iter().filter(within).count()
    });
    together.max().unwrap_or(0)
}

/// Ids that no client ever got.
fn invented(world: &World, count: u64) -> Vec<TaskId> {
    let start = world.time.now().after(3600 * SECOND);
    let wheel = WheelNumber::new(0).unwrap();
    (0..count)
        .map(|number| TaskId::new(start, wheel, number))
        .collect()
}

fn is_to_come_back<T>(answer: &Result<T, Fault>) -> bool {
    matches!(answer, Err(Fault::Unavailable { retry_after, .. }) if !retry_after.is_zero())
}

async fn is_found(service: &Service, id: TaskId) {
    let found = service.get(id, View::Basic).await.unwrap();
    assert!(found.is_some());
}

#[tokio::test(start_paused = true)]
async fn thousands_of_invented_ids_are_read_a_few_at_once_and_the_others_told_to_come_back() {
    let world = World::new(1, 10_000);
    let (node, begun, slow) = slow_node(&world, "find_entries");
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(600 * SECOND);
    let real = register(&service, vec![callback(start)]).await.remove(0).id;
    slow.store(1, SeqCst);
    let (ids, asked) = (invented(&world, 6000), world.time.now());
    let answers = join_all(ids.iter().map(|id| service.get(*id, View::Basic))).await;
    let waited = world.time.now().since(asked);
    assert!(
        waited <= limits::PLACE_WAIT_MAX + limits::SEARCH_WAIT_MAX + 3 * SECOND,
        "{waited:?}"
    );
    let refused = answers.iter().filter(|answer| is_to_come_back(answer));
    let refused = refused.count();
    assert!(refused > 3000, "{refused} are refused");
    let told = answers.iter().filter(|answer| matches!(answer, Ok(None)));
    assert_eq!(told.count() + refused, ids.len());
    let most = at_once(&begun);
    assert!(most <= limits::FINDS_IN_FLIGHT_MAX, "{most} reads at once");
    is_found(&service, real).await;
}

#[tokio::test(start_paused = true)]
async fn cancels_of_thousands_of_invented_ids_search_a_few_at_once() {
    let world = World::new(1, 10_000);
    let (node, begun, slow) = slow_node(&world, "find_entries");
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(600 * SECOND);
    let real = register(&service, vec![callback(start)]).await.remove(0).id;
    slow.store(1, SeqCst);
    let ids = invented(&world, 10_000);
    let batches = ids.chunks(1000);
    let asked = world.time.now();
    let cancels = batches.map(|batch| service.cancel_all(batch));
    let answers: Vec<_> = join_all(cancels).await.into_iter().flatten().collect();
    let waited = world.time.now().since(asked);
    assert!(waited <= 30 * SECOND, "{waited:?}");
    let refused = answers.iter().filter(|answer| is_to_come_back(answer));
    assert!(refused.count() > 5000, "most of them");
    assert!(answers.iter().all(|answer| !matches!(answer, Ok(Some(_)))));
    begun.lock().unwrap().clear();
    is_found(&service, real).await;
}

#[tokio::test(start_paused = true)]
async fn lists_are_read_a_few_at_once() {
    let world = World::new(1, 10_000);
    let (node, begun, slow) = slow_node(&world, "clock");
    let service = node.service();
    world.pass(3 * SECOND).await;
    slow.store(1, SeqCst);
    let filter = Filter::default();
    let lists = (0..600).map(|_| service.list(&filter, None, 10));
    let answers = join_all(lists).await;
    slow.store(0, SeqCst);
    let refused = answers.iter().filter(|answer| is_to_come_back(answer));
    let refused = refused.count();
    assert!(refused > 100 && refused < 600, "{refused} are refused");
    assert!(
        answers
            .iter()
            .all(|answer| answer.is_ok() || is_to_come_back(answer))
    );
    // The reads of the wheel's own clocks come on top.
    let most = at_once(&begun);
    assert!(
        most <= limits::LISTS_IN_FLIGHT_MAX + 4,
        "{most} lists at once"
    );
}
