//! At rest each dead task has one letter and no other task has one, whatever fails between the row and the letter.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::{
            api::{View, VisibleState},
            tables::letters::{Part, Scope, Spot},
        },
        life::{asked::AskedTask, erase::Erased},
        stages::{letters::walk::Wanted, service::Service},
    },
    model::{
        dead_letter::{DEAD_RETENTION, Letter},
        ids::TaskId,
        key::OnConflict,
        look_step::LookStep,
        state::Outcome,
        time::Millis,
        wheel::WheelNumber,
    },
    schema::encode_letter,
    store::index::{IndexPut, IndexRange, Place},
};

use crate::world::{Behaviour, Simulated, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Fails at each of its first attempts, then succeeds.
fn fails(attempts: u32) -> Behaviour {
    Arc::new(move |_, attempt| {
        let outcome = if attempt <= attempts {
            Outcome::Retry {
                error: format!("no answer after {attempt}00 ms"),
                after: None,
            }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    })
}

fn all() -> Wanted {
    Wanted {
        scope: Scope::All,
        error: None,
    }
}

/// The letters as they lie in the store: those of the callback, and those of all. Tells times of death by task.
async fn letters(world: &World, ids: &[TaskId]) -> [BTreeMap<String, usize>; 2] {
    let mut found = [BTreeMap::new(), BTreeMap::new()];
    let today = world.time.now().0 / 86_400_000;
    for (scope, found) in [Scope::All, Scope::Callback("work".to_owned())]
        .iter()
        .zip(&mut found)
    {
        for day in today - 40..=today {
            for shard in 0..=u8::MAX {
                let range = IndexRange {
                    partition: Part { day, shard }.partition(scope).unwrap(),
                    after: None,
                    rows_max: 1000,
                };
                for row in world.plain_store().index_range(&range).await.unwrap().rows {
                    let id = ids
                        .iter()
                        .find(|id| row.sort.ends_with(id.uuid().as_bytes()));
                    *found.entry(id.unwrap().to_string()).or_default() += 1;
                }
            }
        }
    }
    found
}

/// Checks the law, in the store and as people see it.
async fn check(world: &World, service: &Service, ids: &[TaskId], what: &str) {
    let mut dead = BTreeSet::new();
    for id in ids {
        let view = service.get(*id, View::Basic).await.unwrap();
        if view.is_some_and(|view| view.state == VisibleState::Dead) {
            dead.insert(*id);
        }
    }
    let expected: BTreeMap<String, usize> = dead.iter().map(|id| (id.to_string(), 1)).collect();
    assert_eq!(
        letters(world, ids).await,
        [expected.clone(), expected],
        "{what}"
    );
    let groups = service.dead_letters().groups(&all()).await.unwrap().groups;
    let counted: u64 = groups.iter().map(|group| group.tasks).sum();
    assert_eq!(counted, dead.len() as u64, "{what}");
    let page = service
        .dead_letters()
        .list(&all(), None, 1000)
        .await
        .unwrap();
    let listed: BTreeSet<TaskId> = page.letters.iter().map(|listed| listed.letter.id).collect();
    assert_eq!(listed, dead, "{what}");
}

/// A node that stops at its n-th call of an operation from the moment it is armed.
fn stopping(
    world: &World,
    operation: &'static str,
    fate: fn() -> Fate,
) -> (Simulated, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        if call.operation == operation && watched.load(SeqCst) {
            fate()
        } else {
            Fate::Go
        }
    };
    (world.node_with(1, Arc::new(fates)), armed)
}

async fn registered(world: &World, service: &Service, count: usize) -> Vec<TaskId> {
    let tasks = vec![callback(world.time.now()); count];
    let views = register(service, tasks).await;
    views.into_iter().map(|view| view.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_death_whose_letter_was_not_written_gets_it_from_the_look() {
    for fate in [|| Fate::StopBefore, || Fate::StopAfter] {
        let world = World::new(1, 1000);
        let (one, armed) = stopping(&world, "put_index", fate);
        let other = world.node(2);
        // All reports go to the node that stops at the letter of the first death.
        let worker = world.worker(one.service(), fails(3));
        world.pass(3 * SECOND).await;
        let ids = registered(&world, &other.service(), 3).await;
        armed.store(true, SeqCst);
        world.pass(20 * SECOND).await;
        worker.abort();
        let worker = world.worker(other.service(), fails(3));
        for id in &ids {
            let end = world.end_of(&other.service(), *id, SECOND * 120).await;
            assert_eq!(end, VisibleState::Dead);
        }
        world.pass(60 * SECOND).await;
        check(&world, &other.service(), &ids, "a crash at the letter").await;
        world.check();
        worker.abort();
    }
}

/// A page of letters takes more of one shard than a read of it brings.
#[tokio::test(start_paused = true)]
async fn letters_that_lie_in_one_shard_are_all_listed() {
    const LETTERS: usize = 40;
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), fails(3));
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(5 * SECOND);
    let ids = (1..).map(|number| {
        let id = TaskId::new(start, WheelNumber::new(0).unwrap(), number);
        id.with_look_step(LookStep::covering(60 * SECOND))
    });
    let ids = ids.filter(|id| Part::of(*id, start).shard == 0);
    let ids: Vec<TaskId> = ids.take(LETTERS).collect();
    let asked = ids.iter().map(|id| AskedTask {
        task: callback(start),
        id: Some(*id),
        request: None,
        on_conflict: OnConflict::Ignore,
    });
    for answer in node.service().register_asked(asked.collect()).await {
        answer.unwrap();
    }
    for id in &ids {
        let end = world.end_of(&node.service(), *id, SECOND * 120).await;
        assert_eq!(end, VisibleState::Dead);
    }
    for page in [LETTERS + 1, LETTERS / 2] {
        let (mut listed, mut behind) = (BTreeSet::new(), None);
        loop {
            let letters = node.service().dead_letters().clone();
            let read = letters.list(&all(), behind, page).await.unwrap();
            listed.extend(read.letters.iter().map(|listed| listed.letter.id));
            behind = read.next;
            if behind.is_none() {
                break;
            }
        }
        assert_eq!(listed, ids.iter().copied().collect(), "pages of {page}");
    }
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_redrive_that_stops_before_it_removes_the_letter_leaves_none_at_rest() {
    for fate in [|| Fate::StopBefore, || Fate::StopAfter] {
        let world = World::new(1, 1000);
        let (one, armed) = stopping(&world, "remove_index", fate);
        let other = world.node(2);
        // The second of the three succeeds in its second life; the others die again.
        let worker = world.worker(other.service(), fails(6));
        world.pass(3 * SECOND).await;
        let ids = registered(&world, &other.service(), 3).await;
        for id in &ids {
            let end = world.end_of(&other.service(), *id, SECOND * 60).await;
            assert_eq!(end, VisibleState::Dead);
        }
        world.pass(30 * SECOND).await;
        check(&world, &other.service(), &ids, "three deaths").await;
        armed.store(true, SeqCst);
        let (service, asked) = (one.service(), ids[0]);
        let asked = tokio::spawn(async move { service.dead_letters().redrive(&[asked]).await });
        world.pass(5 * SECOND).await;
        asked.abort();
        let rest = other.service().dead_letters().redrive(&ids[1..]).await;
        assert!(
            rest.iter()
                .all(|answer| answer.as_ref().is_ok_and(|one| one.as_ref().unwrap().0))
        );
        for life in [VisibleState::Dead, VisibleState::Succeeded] {
            for id in &ids {
                let end = world.end_of(&other.service(), *id, SECOND * 120).await;
                assert_eq!(end, life);
            }
            world.pass(60 * SECOND).await;
            check(
                &world,
                &other.service(),
                &ids,
                &format!("the next life: {life:?}"),
            )
            .await;
            for answer in other.service().dead_letters().redrive(&ids).await {
                let (redriven, _) = answer.unwrap().unwrap();
                assert_eq!(redriven, life == VisibleState::Dead);
            }
        }
        world.check();
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn two_redrives_at_once_have_one_winner_and_the_task_runs_once_more() {
    let world = World::new(1, 1000);
    let (one, other) = (world.node(1), world.node(2));
    let worker = world.worker(other.service(), fails(3));
    world.pass(3 * SECOND).await;
    let ids = registered(&world, &other.service(), 5).await;
    for id in &ids {
        world.end_of(&other.service(), *id, SECOND * 60).await;
    }
    let (first, second) = (one.service(), other.service());
    let (first, second) = tokio::join!(
        first.dead_letters().redrive(&ids),
        second.dead_letters().redrive(&ids)
    );
    for (first, second) in first.into_iter().zip(second) {
        let won = |answer: Result<Option<(bool, _)>, _>| answer.unwrap().unwrap().0;
        assert!(won(first) != won(second), "one of the two has won");
    }
    for id in &ids {
        let end = world.end_of(&other.service(), *id, SECOND * 60).await;
        assert_eq!(end, VisibleState::Succeeded);
        assert_eq!(world.executions_of(*id).len(), 4);
    }
    world.pass(60 * SECOND).await;
    check(&world, &other.service(), &ids, "all have ended").await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_redriven_call_by_call_and_each_task_once() {
    check_filter(World::new(4, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_redriven_call_by_call_and_each_task_once_on_disk() {
    check_filter(World::on_disk(4, 1000)).await;
}

async fn check_filter(world: World) {
    let node = world.node(1);
    let service = node.service();
    let worker = world.worker(service.clone(), fails(3));
    world.pass(3 * SECOND).await;
    let ids = registered(&world, &service, 25).await;
    for id in &ids {
        world.end_of(&service, *id, SECOND * 60).await;
    }
    world.pass(30 * SECOND).await;
    let wanted = Wanted {
        scope: Scope::Callback("work".to_owned()),
        error: Some("no answer after # ms".to_owned()),
    };
    let (mut next, mut calls, mut redriven) = (None, 0, 0);
    loop {
        let desk = service.dead_letters();
        let page = desk.list(&wanted, next, 10).await.unwrap();
        let found: Vec<TaskId> = page.letters.iter().map(|listed| listed.letter.id).collect();
        assert!(found.len() <= 10);
        for answer in desk.redrive(&found).await {
            let (was_dead, _) = answer.unwrap().unwrap();
            assert!(was_dead);
        }
        (calls, redriven) = (calls + 1, redriven + found.len());
        match page.next {
            Some(spot) => next = Some(spot),
            None => break,
        }
    }
    assert_eq!((calls, redriven), (3, 25));
    for id in &ids {
        let end = world.end_of(&service, *id, SECOND * 60).await;
        assert_eq!(end, VisibleState::Succeeded);
        assert_eq!(world.executions_of(*id).len(), 4);
    }
    world.pass(60 * SECOND).await;
    check(&world, &service, &ids, "all run again").await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_stops_half_way_is_finished_by_a_reader() {
    let world = World::new(1, 1000);
    let (one, armed) = stopping(&world, "delete_bodies", || Fate::StopBefore);
    let other = world.node(2);
    let worker = world.worker(other.service(), fails(3));
    world.pass(3 * SECOND).await;
    let ids = registered(&world, &other.service(), 1).await;
    world.end_of(&other.service(), ids[0], SECOND * 60).await;
    world.pass(30 * SECOND).await;
    armed.store(true, SeqCst);
    let (service, id) = (one.service(), ids[0]);
    let asked = tokio::spawn(async move { service.dead_letters().delete(id).await });
    world.pass(10 * SECOND).await;
    asked.abort();
    assert!(
        other
            .service()
            .get(id, View::Basic)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        letters(&world, &ids).await[0].len(),
        1,
        "its letter was left"
    );
    let page = other
        .service()
        .dead_letters()
        .list(&all(), None, 10)
        .await
        .unwrap();
    assert!(page.letters.is_empty());
    check(&world, &other.service(), &ids, "a reader has met it").await;
    let again = other.service().dead_letters().delete(id).await.unwrap();
    assert!(matches!(again, Erased::Unknown), "{again:?}");
    worker.abort();
}

#[tokio::test(start_paused = true)]
#[ignore = "passes a month of virtual time: make test-all"]
async fn a_dead_task_is_read_and_listed_for_thirty_days_and_no_longer() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), fails(3));
    world.pass(3 * SECOND).await;
    let ids = registered(&world, &node.service(), 1).await;
    let end = world.end_of(&node.service(), ids[0], SECOND * 60).await;
    assert_eq!(end, VisibleState::Dead);
    world.pass(SECOND * 30).await;
    let died: Millis = world.time.now();
    worker.abort();
    // Nodes that run have something to do each second of a month.
    node.crash();
    drop(node);
    world.pass(DEAD_RETENTION - DAY).await;
    let node = world.node(2);
    check(&world, &node.service(), &ids, "a day before the end").await;
    let read = node.service().get(ids[0], View::Basic).await.unwrap();
    assert!(read.is_some());
    node.crash();
    drop(node);
    world.pass(DAY).await;
    assert!(world.time.now() >= died.after(DEAD_RETENTION));
    let node = world.node(3);
    let read = node.service().get(ids[0], View::Basic).await.unwrap();
    assert!(read.is_none());
    check(&world, &node.service(), &ids, "past the end").await;
}

#[tokio::test(start_paused = true)]
#[ignore = "writes two million rows of the index to a disk for a minute: make test-all"]
#[expect(
    clippy::disallowed_methods,
    reason = "the time that the work takes is no virtual time"
)]
async fn a_million_letters_are_counted_rightly_and_a_page_of_them_is_quick() {
    const LETTERS: u64 = 1_000_000;
    let world = World::on_disk(1, 1000);
    let node = world.node(1);
    let (service, store) = (node.service(), world.plain_store());
    let now = world.time.now();
    for thousand in 0..LETTERS / 1000 {
        let mut rows = Vec::new();
        for number in thousand * 1000..(thousand + 1) * 1000 {
            let time = Millis(now.0 - i64::try_from(number % 1000 * 80_000).unwrap());
            let id = TaskId::new(time, WheelNumber::new(0).unwrap(), number);
            let letter = Letter {
                callback: "work".to_owned(),
                error: format!(
                    "error of kind {}",
                    ["one", "two", "three"][(number % 3) as usize]
                ),
                attempts: 3,
                time,
                stamp: time.0 * 1000,
                kept: DEAD_RETENTION,
            };
            let (part, spot) = (
                Part::of(id, time),
                Spot {
                    time,
                    id: id.uuid(),
                },
            );
            let scope = Scope::All;
            let (entry, end) = part.entry(&scope, &letter).unwrap();
            rows.push(
                IndexPut::new(entry, Bytes::new(), part.day)
                    .unwrap()
                    .until(end),
            );
            let place = Place::new(part.partition(&scope).unwrap(), spot.sort()).unwrap();
            let value = encode_letter(&letter, true);
            rows.push(IndexPut::new(place, value, letter.stamp).unwrap());
        }
        assert!(store.put_index(&rows).await.iter().all(Result::is_ok));
    }
    let began = Instant::now();
    let groups = service.dead_letters().groups(&all()).await.unwrap();
    let counted = began.elapsed();
    let tasks: Vec<u64> = groups.groups.iter().map(|group| group.tasks).collect();
    assert_eq!(
        (tasks, groups.cut),
        (vec![333_334, 333_333, 333_333], false)
    );
    // None of these letters has a task, so a list removes those that it reads.
    let began = Instant::now();
    let page = service
        .dead_letters()
        .list(&all(), None, 100)
        .await
        .unwrap();
    let listed = began.elapsed();
    assert!(page.letters.is_empty() && page.next.is_some());
    let groups = service.dead_letters().groups(&all()).await.unwrap().groups;
    assert_eq!(
        groups.iter().map(|group| group.tasks).sum::<u64>(),
        LETTERS - 100
    );
    println!("a million letters: counted in {counted:?}, a page of 100 in {listed:?}");
}
