//! A damaged row of a wait costs nobody else anything, and its waiter no more than the time to its deadline.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tickwheel::{
    flow::{
        base::api::{NewTask, TaskView, View, VisibleState},
        stages::service::Service,
    },
    model::{
        ids::TaskId,
        join::{self, After, Asked, Condition},
        state::Outcome,
        target::Target,
        time::Millis,
    },
    schema::join_partition,
    store::index::{IndexKind, IndexPut, IndexStore, Partition, Place},
};

use crate::world::{Behaviour, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);

fn waiting(start: Millis, rules: After, ids: &[TaskId]) -> NewTask {
    let mut task = callback(start);
    task.draft.after = Some(Box::new(Asked {
        after: After {
            tasks: u32::try_from(ids.len()).unwrap(),
            ..rules
        },
        ids: ids.to_vec(),
    }));
    task
}

const fn rules(condition: Condition, deadline: Option<Millis>) -> After {
    After {
        condition,
        later: false,
        deadline,
        tasks: 0,
    }
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    let view = service.get(id, View::Basic).await.unwrap();
    view.unwrap_or_else(|| panic!("{id} is not there"))
}

/// The run of one task fails, if there is such a one.
fn runs(bad: Option<TaskId>) -> Behaviour {
    Arc::new(move |id, _| {
        let error = "no".to_owned();
        let outcome = if Some(id) == bad {
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND, Some(outcome))
    })
}

/// Writes a row of the index that nobody understands.
async fn spoil(world: &World, kind: IndexKind, of: TaskId, sort: Bytes) {
    let partition = Partition::new(kind, join_partition(of)).unwrap();
    let place = Place::new(partition, sort).unwrap();
    let put = IndexPut::new(place, Bytes::from_static(b"\xff"), world.time.stamp()).unwrap();
    for put in world.store.put_index(&[put]).await {
        put.unwrap();
    }
}

/// A node of a later version may have written it, or a disk may have spoiled it.
#[tokio::test(start_paused = true)]
async fn a_dependency_that_cannot_be_understood_is_missing_at_the_deadline() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let start = now.after(SECOND * 10);
    // No worker comes for the one that is spoiled: its end would be told to its waiters, whatever its row says.
    let mut unread = callback(start);
    unread.draft.target = Target::Callback {
        name: "play".to_owned(),
    };
    let first = register(&service, vec![callback(start), unread, callback(start)]).await;
    let [good, spoiled, fails] = [first[0].id, first[1].id, first[2].id];
    let limit = now.after(SECOND * 120);
    let deadline = Some(limit);
    let both = [good, spoiled];
    let waiters = vec![
        waiting(now, rules(Condition::AllSucceeded, deadline), &both),
        waiting(now, rules(Condition::AllEnded, deadline), &both),
        waiting(now, rules(Condition::AllEnded, None), &[good]),
        waiting(now, rules(Condition::AllSucceeded, None), &[spoiled, fails]),
    ];
    let waiters = register(&service, waiters).await;
    world.store.spoil_row(spoiled);
    world.worker(node.service(), runs(Some(fails)));
    world.pass(SECOND * 100).await;
    // Others go on meanwhile: one that does not wait for it, and one that waits for a task which has failed as well.
    assert_eq!(
        read(&service, waiters[2].id).await.state,
        VisibleState::Succeeded
    );
    let failed = read(&service, waiters[3].id).await;
    assert_eq!(failed.state, VisibleState::Cancelled, "{failed:?}");
    for waiter in &waiters[..2] {
        let view = read(&service, waiter.id).await;
        assert_eq!(view.state, VisibleState::Waiting, "{view:?}");
    }
    world.pass(SECOND * 30).await;
    for waiter in &waiters[..2] {
        let view = read(&service, waiter.id).await;
        assert_eq!(view.state, VisibleState::Failed, "{view:?}");
        let error = view.error.unwrap();
        assert_eq!(join::reason(&error), Some("dependency_missing"), "{error}");
        assert!(error.contains(&spoiled.to_string()), "{error}");
        assert!(world.executions_of(waiter.id).is_empty());
        let end = view.end_time.unwrap();
        assert!(end < limit.after(SECOND * 5), "ended at {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_of_a_wait_that_cannot_be_understood_is_asked_for_and_written_anew() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let first = vec![callback(now), callback(now.after(SECOND * 20))];
    let first = register(&service, first).await;
    let ids = [first[0].id, first[1].id];
    let wants = rules(Condition::AllSucceeded, None);
    let two = vec![waiting(now, wants, &ids), waiting(now, wants, &ids[1..])];
    let two = register(&service, two).await;
    let (waiter, other) = (two[0].id, two[1].id);
    world.worker(node.service(), runs(None));
    world.pass(SECOND * 5).await;
    // The end of the first was in it.
    spoil(&world, IndexKind::Join, waiter, join_partition(ids[0])).await;
    // Names that are none, among those that the waiter waits for and among those that wait.
    spoil(&world, IndexKind::Join, waiter, Bytes::from_static(b"x")).await;
    spoil(&world, IndexKind::Waiter, ids[1], Bytes::from_static(b"x")).await;
    let waits = read(&service, waiter).await.waits.unwrap();
    assert_eq!((waits.ids, waits.open), (ids.to_vec(), Some(ids.to_vec())));
    world.pass(SECOND * 20).await;
    assert_eq!(read(&service, other).await.state, VisibleState::Succeeded);
    world.pass(SECOND * 120).await;
    let view = read(&service, waiter).await;
    assert_eq!(view.state, VisibleState::Succeeded, "{view:?}");
    assert_eq!(view.waits.unwrap().open, Some(Vec::new()));
}

/// A waiter whose rows are gone waits for nothing that anybody knows.
#[tokio::test(start_paused = true)]
async fn a_wait_without_rows_ends_at_its_deadline() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let first = register(&service, vec![callback(now.after(SECOND * 600))]).await[0].id;
    let deadline = Some(now.after(SECOND * 60));
    let wants = rules(Condition::AllEnded, deadline);
    let waiter = register(&service, vec![waiting(now, wants, &[first])]).await[0].id;
    let partition = Partition::new(IndexKind::Join, join_partition(waiter)).unwrap();
    let removal = tickwheel::store::index::IndexRemoval {
        place: Place::new(partition, join_partition(first)).unwrap(),
        written: world.time.stamp(),
    };
    for removed in world.store.remove_index(&[removal]).await {
        removed.unwrap();
    }
    world.pass(SECOND * 50).await;
    assert_eq!(read(&service, waiter).await.state, VisibleState::Waiting);
    world.pass(SECOND * 20).await;
    let view = read(&service, waiter).await;
    assert_eq!(view.state, VisibleState::Failed, "{view:?}");
    let error = view.error.unwrap();
    assert_eq!(join::reason(&error), Some("dependency_missing"), "{error}");
}
