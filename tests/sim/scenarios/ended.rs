//! A task that has ended is in the lists of its callback, once and in its state, whatever its node dies at. The store of these
//! worlds cannot list ended tasks itself.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::api::{NewTask, View, VisibleState},
        stages::{query::filter::Filter, service::Service},
    },
    model::{
        callback::Policy,
        error_class::error_class,
        ids::TaskId,
        row::{Expect, TaskRow},
        state::{Outcome, State, Transition},
    },
    store::{
        Freshness,
        index::{IndexKind, IndexPut, Partition, Place},
    },
};
use xxhash_rust::xxh3::xxh3_128;

use crate::world::{Behaviour, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
/// No call of a node is the one that it dies at.
const NEVER: usize = usize::MAX;

async fn one(service: &Service, task: NewTask) -> TaskId {
    register(service, vec![task]).await.remove(0).id
}

/// All that a list shows, by pages of two.
async fn listed(service: &Service, filter: &Filter) -> BTreeMap<TaskId, Vec<VisibleState>> {
    let (mut shown, mut cursor) = (BTreeMap::<_, Vec<_>>::new(), None);
    for _ in 0..500 {
        let page = service.list(filter, cursor, 2).await.unwrap();
        for task in page.tasks {
            shown.entry(task.id).or_default().push(task.state);
        }
        cursor = page.next;
        if cursor.is_none() {
            return shown;
        }
    }
    panic!("the list has no end");
}

/// Returns how many tasks a list by their error shows, or what is wrong with the lists of tasks that have ended so.
async fn wrong(service: &Service, ended: &[(TaskId, VisibleState)]) -> Result<usize, String> {
    let of = |state| Filter {
        callback: Some("work".to_owned()),
        state,
        ..Filter::default()
    };
    let all = ended.iter().map(|(id, state)| (*id, vec![*state]));
    let all: BTreeMap<_, _> = all.collect();
    let shown = listed(service, &of(None)).await;
    if shown != all {
        return Err(format!("a list of all shows {shown:?} for {all:?}"));
    }
    for (id, state) in ended {
        let shown = listed(service, &of(Some(*state))).await;
        if shown != BTreeMap::from([(*id, vec![*state])]) {
            return Err(format!("a list of {state:?} shows {shown:?} for {id}"));
        }
    }
    // An attempt whose node died may have ended by another error.
    let class = error_class("no route");
    let mut failed = BTreeMap::new();
    for (id, states) in all {
        let task = service.get(id, View::Basic).await.unwrap().unwrap();
        if task.error.is_some_and(|error| error_class(&error) == class) {
            failed.insert(id, states);
        }
    }
    for state in [None, Some(VisibleState::Dead)] {
        let by_error = Filter {
            error: Some(class.clone()),
            ..of(state)
        };
        let mut wanted = failed.clone();
        wanted.retain(|_, states| state.is_none_or(|state| states[0] == state));
        let shown = listed(service, &by_error).await;
        if shown != wanted {
            return Err(format!("a list by an error shows {shown:?} for {wanted:?}"));
        }
    }
    Ok(failed.len())
}

/// The first succeeds, the second fails for good, and the third dies.
fn behaviour(good: TaskId, bad: TaskId) -> Behaviour {
    Arc::new(move |id, _| {
        let error = "no route".to_owned();
        let outcome = if id == good {
            Outcome::Succeeded { result: None }
        } else if id == bad {
            Outcome::Failed { error }
        } else {
            Outcome::Retry { error, after: None }
        };
        (SECOND / 10, Some(outcome))
    })
}

async fn lists_succeeded(world: &World, service: &Service) {
    let policy = Policy {
        list_succeeded: true,
        ..Policy::default()
    };
    let callbacks = service.callbacks();
    callbacks
        .configure("work", policy, &|_| true)
        .await
        .unwrap();
    world.pass(SECOND * 3).await;
}

/// The calls that a node made from the first end on, and the kind of the rows of the index that each was about.
type Calls = Arc<Mutex<Vec<(&'static str, Option<IndexKind>)>>>;

/// The same after tasks have ended at a node that dies at its n-th call from then on.
async fn crash(nth: usize, fate: Fate, calls: &Calls) -> Result<usize, String> {
    let world = World::new(1, 1000);
    let (armed, seen) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let (watched, made) = (Arc::clone(&armed), Arc::clone(calls));
    let fates = move |_, call: Call| {
        if !watched.load(SeqCst) {
            return Fate::Go;
        }
        made.lock().unwrap().push((call.operation, call.index));
        if seen.fetch_add(1, SeqCst) == nth {
            fate
        } else {
            Fate::Go
        }
    };
    let dying = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    world.pass(SECOND * 3).await;
    let service = other.service();
    lists_succeeded(&world, &service).await;
    let soon = || callback(world.time.now().after(SECOND));
    let (good, bad) = (one(&service, soon()).await, one(&service, soon()).await);
    let mut dies = soon();
    dies.draft.max_attempts = Some(1);
    let dead = one(&service, dies).await;
    let far = callback(world.time.now().after(SECOND * 30));
    let far = one(&service, far).await;
    armed.store(true, SeqCst);
    let behaviour = behaviour(good, bad);
    let worker = world.worker(dying.service(), Arc::clone(&behaviour));
    world.pass(SECOND * 2).await;
    // A call at a node that has died never returns, so the client asks the other one.
    let cancel = async |service: Arc<Service>| service.cancel(far).await.is_ok();
    let asked = world.time.within(SECOND, cancel(dying.service())).await;
    if asked != Some(true) {
        assert!(cancel(other.service()).await);
    }
    armed.store(false, SeqCst);
    // It may wait for an answer for ever, and would keep its part of the queue.
    worker.abort();
    world.worker(other.service(), behaviour);
    world.pass(SECOND * 120).await;
    let ended = [
        (good, VisibleState::Succeeded),
        (bad, VisibleState::Failed),
        (dead, VisibleState::Dead),
        (far, VisibleState::Cancelled),
    ];
    wrong(&service, &ended).await
}

/// Runs a world in a runtime of its own, so that its nodes end with it.
fn alone<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(world)
}

#[test]
#[ignore = "searches every call: make test-all"]
fn ended_tasks_are_listed_though_their_node_dies_at_any_call_around_their_ends() {
    let calls = Calls::default();
    assert_eq!(alone(crash(NEVER, Fate::Go, &calls)), Ok(2));
    let calls = calls.lock().unwrap().clone();
    // A node tells others about its callbacks meanwhile, in rows of another kind.
    let puts = |kind| {
        let calls = calls.iter().enumerate();
        let puts = calls.filter(move |(_, call)| **call == ("put_index", Some(kind)));
        puts.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let (ended, letters) = (puts(IndexKind::Ended), puts(IndexKind::Dead));
    assert_eq!((ended.len(), letters.len()), (4, 1), "{calls:?}");
    let last = *ended.iter().chain(&letters).max().unwrap();
    for fate in [Fate::StopBefore, Fate::StopAfter] {
        for (nth, call) in calls[..=last].iter().enumerate() {
            let outcome = alone(crash(nth, fate, &Calls::default()));
            assert!(outcome.is_ok(), "{fate:?} at {nth}, {call:?}: {outcome:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_succeeds_has_no_row_unless_its_callback_asks_for_it() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(SECOND * 3).await;
    let soon = || callback(world.time.now().after(SECOND / 2));
    let (good, bad) = (one(&service, soon()).await, one(&service, soon()).await);
    world.worker(node.service(), behaviour(good, bad));
    for (task, end) in [(good, VisibleState::Succeeded), (bad, VisibleState::Failed)] {
        assert_eq!(world.end_of(&service, task, SECOND * 60).await, end);
    }
    // Entries that were fired stay readable for ten minutes: then only rows of ended tasks are found.
    world.pass(SECOND * 900).await;
    let ended = Filter {
        callback: Some("work".to_owned()),
        ..Filter::default()
    };
    let shown = listed(&service, &ended).await;
    assert_eq!(
        shown.keys().collect::<Vec<_>>(),
        [&bad],
        "the good one has no row"
    );
}

/// Tells what is wrong with the lists when no row of an ended task could be written for three minutes from the end on.
async fn outage() -> Result<(), String> {
    let world = World::new(1, 1000);
    let away = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&away);
    let fates = move |_, call: Call| {
        if call.operation == "put_index" && refuses.load(SeqCst) {
            Fate::Fail
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    let service = node.service();
    world.pass(SECOND * 3).await;
    lists_succeeded(&world, &service).await;
    let good = one(&service, callback(world.time.now().after(SECOND))).await;
    away.store(true, SeqCst);
    world.worker(node.service(), behaviour(good, good));
    world.pass(SECOND * 180).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 180).await;
    wrong(&service, &[(good, VisibleState::Succeeded)])
        .await
        .map(drop)
}

#[test]
fn ended_tasks_are_listed_behind_an_outage_of_the_index() {
    assert_eq!(alone(outage()), Ok(()));
}

/// The scenario above sees an end step that takes a row for written that was not.
#[test]
fn a_row_of_an_ended_task_that_is_left_is_found() {
    flaw::switch(Some(Flaw::EndedRowLeft));
    let outcome = alone(outage());
    flaw::switch(None);
    assert!(outcome.is_err());
}

/// The row of the index that the end steps of a task with an error write. Stored bytes: they never change.
fn filed_by_error(row: &TaskRow) -> IndexPut {
    let mut name = (row.detail.end_time.unwrap().0 / 86_400_000)
        .to_be_bytes()
        .to_vec();
    name.push(0xff);
    name.extend_from_slice(b"work");
    let class = error_class(row.detail.error.as_ref().unwrap());
    name.extend_from_slice(&xxh3_128(class.as_bytes()).to_be_bytes());
    let partition = Partition::new(IndexKind::Ended, name).unwrap();
    let sort = row.id.uuid().as_bytes().to_vec();
    IndexPut::new(Place::new(partition, sort).unwrap(), Bytes::new(), 1).unwrap()
}

#[tokio::test(start_paused = true)]
#[ignore = "writes a hundred thousand rows to a disk: make test-all"]
#[expect(
    clippy::disallowed_methods,
    reason = "the time that the work takes is no virtual time"
)]
async fn a_page_of_tasks_by_their_error_is_found_among_a_hundred_thousand_ended_ones() {
    const TASKS: u64 = 100_000;
    let world = World::on_disk(1, 1000);
    let node = world.node(1);
    let (service, store) = (node.service(), world.plain_store());
    world.pass(SECOND * 3).await;
    let failed = one(&service, callback(world.time.now())).await;
    let worker = world.worker(node.service(), behaviour(failed, failed));
    let end = world.end_of(&service, failed, SECOND * 60).await;
    assert_eq!(end, VisibleState::Succeeded);
    worker.abort();
    let row = store.tasks(&[failed], Freshness::Quorum).await.unwrap();
    let row = row.into_iter().flatten().next().unwrap();
    let kinds = ["timeout", "no route", "refused", "bad answer", "full disk"];
    for thousand in 0..TASKS / 1000 {
        let row_of = |number: u64| {
            let mut row = row.clone();
            row.id = TaskId::new(row.detail.start, failed.wheel(), number);
            row.state = State::Failed;
            let rare = number % 1000 == 999;
            let kind = kinds[usize::try_from(number % 4).unwrap()];
            row.detail.error = Some(if rare { kinds[4] } else { kind }.to_owned());
            Transition {
                expect: Expect::Absent,
                row,
                ttl: None,
            }
        };
        let rows: Vec<_> = (thousand * 1000..(thousand + 1) * 1000)
            .map(row_of)
            .collect();
        assert!(store.swap_tasks(&rows).await.iter().all(Result::is_ok));
        let filed: Vec<_> = rows.iter().map(|one| filed_by_error(&one.row)).collect();
        assert!(store.put_index(&filed).await.iter().all(Result::is_ok));
    }
    let all = Filter {
        callback: Some("work".to_owned()),
        state: Some(VisibleState::Failed),
        ..Filter::default()
    };
    let of_kind = |kind: &str| Filter {
        error: Some(error_class(kind)),
        ..all.clone()
    };
    for (what, filter) in [
        ("failed", all.clone()),
        ("failed with a usual error", of_kind("no route")),
        (
            "failed with the error of one in a thousand",
            of_kind("full disk"),
        ),
    ] {
        let (mut tasks, mut cursor, mut requests) = (0, None, 0);
        let began = Instant::now();
        while tasks < 100 {
            let page = service.list(&filter, cursor, 100 - tasks).await.unwrap();
            (tasks, requests) = (tasks + page.tasks.len(), requests + 1);
            cursor = page.next;
            assert!(tasks == 100 || cursor.is_some(), "{what}: {tasks}");
        }
        let took = began.elapsed();
        println!("100 of {TASKS} tasks, {what}: {took:?}, {requests} requests");
        // Rows that say the error are read, not the rows of all tasks.
        assert!(
            filter.error.is_none() || requests == 1,
            "{what}: {requests}"
        );
        assert!(took < SECOND * 30, "{what}: {took:?}");
    }
}
