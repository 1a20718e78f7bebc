//! A request that waits for the end of a task is answered at once by the node that writes the end, and soon by others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::api::{SettleRequest, TaskView, View, VisibleState},
        stages::service::Service,
    },
    model::{ids::TaskId, state::Outcome, time::Millis},
    time_source::TimeSource,
};
use tokio::task::JoinHandle;

use crate::world::{World, callback, first_claim, register};

const SECOND: Duration = Duration::from_secs(1);

/// Waits for the end of a task, and returns it with the time of the answer.
fn wait(
    service: Arc<Service>,
    time: &TimeSource,
    id: TaskId,
) -> JoinHandle<(Option<TaskView>, Millis)> {
    let time = time.clone();
    tokio::spawn(async move {
        let wait = Duration::from_secs(60);
        let task = service.get_when_terminal(id, View::Full, wait).await;
        (task.unwrap(), time.now())
    })
}

/// Settles the first attempt of a task.
async fn settle(service: &Service, id: TaskId) {
    let report = SettleRequest {
        id,
        attempt: 1,
        outcome: Outcome::Succeeded { result: None },
        answered: None,
    };
    service.settle("w", vec![report]).await;
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_answered_by_the_settle_and_not_by_the_next_read() {
    let world = World::new(2, 1000);
    let (node, other) = (world.node(1), world.node(2));
    let (service, time) = (node.service(), &world.time);
    world.pass(3 * SECOND).await;
    let tasks = vec![callback(time.now()), callback(time.now())];
    let tasks = register(&service, tasks).await;
    let (id, second) = (tasks[0].id, tasks[1].id);
    service
        .claim("w", vec![first_claim(id), first_claim(second)])
        .await;
    let here: Vec<_> = (0..3).map(|_| wait(node.service(), time, id)).collect();
    let hung_up = wait(node.service(), time, id);
    let there = wait(other.service(), time, id);
    let cancelled = wait(node.service(), time, second);
    // Reads of a request are tens of milliseconds apart.
    world.pass(7 * SECOND + Duration::from_millis(3)).await;
    hung_up.abort();
    let settled = time.now();
    settle(&service, id).await;
    assert_eq!(time.now(), settled);
    for answer in here {
        let (task, at) = answer.await.unwrap();
        assert_eq!(task.unwrap().state, VisibleState::Succeeded);
        assert_eq!(at, settled, "it waited for its next read");
    }
    let (task, at) = there.await.unwrap();
    assert_eq!(task.unwrap().state, VisibleState::Succeeded);
    let late = at.since(settled);
    assert!(
        late <= Duration::from_millis(60),
        "another node answers {late:?} later"
    );
    // An end of another kind, of a task that another one does not wake.
    world.pass(Duration::from_millis(101)).await;
    service.cancel(second).await.unwrap();
    let asked = time.now();
    settle(&service, second).await;
    let (task, at) = cancelled.await.unwrap();
    assert_eq!((task.unwrap().state.is_terminal(), at), (true, asked));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_task_that_has_not_started_is_told_at_once() {
    let world = World::new(1, 100_000);
    let node = world.node(1);
    let (service, time) = (node.service(), &world.time);
    world.pass(3 * SECOND).await;
    let task = callback(time.now().after(3600 * SECOND));
    let id = register(&service, vec![task]).await.remove(0).id;
    let waiting = wait(node.service(), time, id);
    world.pass(4 * SECOND + Duration::from_millis(7)).await;
    let cancelled = time.now();
    service.cancel(id).await.unwrap();
    let (task, at) = waiting.await.unwrap();
    assert_eq!(
        (task.unwrap().state, at),
        (VisibleState::Cancelled, cancelled)
    );
    // A wait that finds no end is answered when it is over, with the task as it is.
    let later = callback(time.now().after(3600 * SECOND));
    let id = register(&service, vec![later]).await.remove(0).id;
    let began = time.now();
    let (task, at) = wait(node.service(), time, id).await.unwrap();
    assert_eq!(task.unwrap().state, VisibleState::Scheduled);
    assert_eq!(at, began.after(60 * SECOND));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_task_that_nobody_claims_searches_for_it_at_its_beginning_and_end() {
    let world = World::new(1, 1000);
    let searches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&searches);
    let fates = move |_, call: Call| {
        counted.fetch_add(usize::from(call.operation == "find_entries"), SeqCst);
        Fate::Go
    };
    let node = world.node_with(1, Arc::new(fates));
    let (service, time) = (node.service(), &world.time);
    world.pass(3 * SECOND).await;
    let id = register(&service, vec![callback(time.now())]).await[0].id;
    world.pass(SECOND).await;
    searches.store(0, SeqCst);
    service.get(id, View::Basic).await.unwrap();
    let once = searches.swap(0, SeqCst);
    assert!(once > 0, "nobody has claimed it: its entry is searched for");
    let (task, _) = wait(node.service(), time, id).await.unwrap();
    assert_eq!(task.unwrap().state, VisibleState::Enqueued);
    let both = searches.swap(0, SeqCst);
    // Its entry is a look by now, which is found a little later.
    service.get(id, View::Basic).await.unwrap();
    assert_eq!(both, once + searches.load(SeqCst));
}
