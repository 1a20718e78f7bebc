//! A sequence of tasks keeps its order, and goes on, when nodes die, fail or are slow in the middle of its steps.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::{
            api::VisibleState,
            panics::{self, Strike},
        },
        life::asked::{Answer, AskedTask},
    },
    model::{client_id, ids::TaskId, key::OnConflict, state::Outcome, time::Millis},
};

use super::ordering::{all_succeed, executions, one, one_at_a_time, ordered};
use crate::world::{World, published, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// Registers, runs, cancels and moves tasks of a key at a node that dies or fails at operation `at` of a kind that `counts`.
/// Returns how many there were.
async fn run(world: World, at: usize, fate: Fate) -> usize {
    let (calls, armed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let fates = {
        let (calls, armed) = (Arc::clone(&calls), Arc::clone(&armed));
        move |_, call: Call| {
            let counts = armed.load(SeqCst) == 1
                && matches!(
                    call.operation,
                    "put_index"
                        | "remove_index"
                        | "index_range"
                        | "record"
                        | "swap_record"
                        | "swap_tasks"
                );
            if counts && calls.fetch_add(1, SeqCst) == at {
                fate
            } else {
                Fate::Go
            }
        }
    };
    let dying = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    // A node that dies gives up its part of the queue, so workers poll.
    let workers = [&dying, &other]
        .map(|node| world.polling_worker(node.service(), |_| None, succeeds(SECOND)));
    world.pass(3 * SECOND).await;
    armed.store(1, SeqCst);
    let acknowledged: Arc<Mutex<Vec<TaskId>>> = Arc::default();
    let (service, known, time) = (
        dying.service(),
        Arc::clone(&acknowledged),
        world.time.clone(),
    );
    // A call at a node that dies never returns.
    tokio::spawn(async move {
        let start = time.now().after(SECOND);
        for number in 0..4 {
            let start = start.after(SECOND / 5 * number);
            let registered = service.register(vec![ordered(start, "a")]).await;
            known
                .lock()
                .unwrap()
                .extend(registered.into_iter().flatten().map(|task| task.id));
        }
    });
    world.pass(SECOND / 2).await;
    let before = acknowledged.lock().unwrap().clone();
    let mut after = Vec::new();
    for number in 0..3 {
        let start = world.time.now().after(6 * SECOND + SECOND * number);
        after.push(one(&other.service(), ordered(start, "a")).await);
    }
    // In front of those, at the node that dies.
    let (service, first) = (dying.service(), after[2]);
    let to = world.time.now().after(5 * SECOND);
    let moved = tokio::spawn(async move { service.reschedule(first, to, None).await });
    let (service, cancelled) = (dying.service(), after[1]);
    tokio::spawn(async move { drop(service.cancel(cancelled).await) });
    world.pass(120 * SECOND).await;
    let is_moved = moved.is_finished() && matches!(moved.await, Ok(Ok(Some(_))));
    for id in before.iter().chain([&after[0], &after[2]]) {
        let end = world.end_of(&other.service(), *id, SECOND).await;
        assert_eq!(end, VisibleState::Succeeded, "{id} with {fate:?} at {at}");
    }
    let all: Vec<TaskId> = acknowledged
        .lock()
        .unwrap()
        .iter()
        .chain(&after)
        .copied()
        .collect();
    let order = one_at_a_time(&world, &all);
    let place = |id: &TaskId| order.iter().position(|one| one == id);
    let mut wanted = before.clone();
    wanted.extend(if is_moved {
        [after[2], after[0]]
    } else {
        [after[0], after[0]]
    });
    let places: Vec<Option<usize>> = wanted.iter().map(place).collect();
    assert!(
        places.is_sorted(),
        "{fate:?} at {at}: {order:?}, wanted {wanted:?}"
    );
    assert_eq!(world.store.clock_violations(), Vec::<String>::new());
    for worker in workers {
        worker.abort();
    }
    calls.load(SeqCst)
}

/// Stops, fails or loses a reply at the operations of the node, some or all of them.
async fn run_all(world: fn(u16, i64) -> World, first: usize, every: usize, fates: &[Fate]) {
    let total = run(world(1, 64), usize::MAX, Fate::Go).await;
    assert!(total > 40, "only {total} operations");
    for at in (first..total.min(120)).step_by(every) {
        for fate in fates {
            run(world(1, 64), at, *fate).await;
        }
    }
}

const DIES: [Fate; 2] = [Fate::StopBefore, Fate::StopAfter];
const FAILS: [Fate; 3] = [
    Fate::Fail,
    Fate::LoseReply,
    Fate::ApplyLater(Duration::from_secs(4)),
];

#[tokio::test(start_paused = true)]
async fn a_sequence_goes_on_in_order_when_a_node_dies_at_some_operations() {
    run_all(World::new, 3, 29, &DIES).await;
}

#[tokio::test(start_paused = true)]
async fn a_sequence_goes_on_in_order_when_some_operations_fail_or_lose_their_replies() {
    run_all(World::new, 5, 37, &FAILS).await;
}

#[tokio::test(start_paused = true)]
async fn a_sequence_goes_on_in_order_when_a_node_dies_at_some_operations_on_disk() {
    run_all(World::on_disk, 7, 43, &DIES).await;
}

/// Runs a part of the points; each part is a test of its own, so that they share the cores and each is named when it fails.
/// Parts together take every second point of death and every fifth of the others: each point costs some five seconds.
macro_rules! parts {
    ($($name:ident: $first:literal, $every:literal, $fates:ident;)*) => {$(
        #[tokio::test(start_paused = true)]
        #[ignore = "it runs the cluster some tens of times: make test-all"]
        async fn $name() {
            run_all(World::new, $first, $every, &$fates).await;
        }
    )*};
}

parts! {
    a_sequence_goes_on_in_order_wherever_a_node_dies_1: 0, 4, DIES;
    a_sequence_goes_on_in_order_wherever_a_node_dies_2: 2, 4, DIES;
    a_sequence_goes_on_in_order_whatever_fails_or_loses_its_reply_1: 1, 10, FAILS;
    a_sequence_goes_on_in_order_whatever_fails_or_loses_its_reply_2: 6, 10, FAILS;
}

/// The end of the first task is about to give the turn to the last one, when another that starts before that is registered.
async fn registered_meanwhile() -> bool {
    let world = World::new(1, 64);
    let slow = Arc::new(AtomicUsize::new(0));
    let fates = {
        let slow = Arc::clone(&slow);
        move |_, call: Call| match (call.operation, slow.load(SeqCst)) {
            ("swap_record", 1) => {
                slow.store(2, SeqCst);
                Fate::Delay(2 * SECOND)
            }
            _ => Fate::Go,
        }
    };
    let ending = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let first = one(&other.service(), ordered(now, "a")).await;
    let last = one(&other.service(), ordered(now.after(2 * SECOND), "a")).await;
    let worker = world.worker(ending.service(), succeeds(4 * SECOND));
    world.pass(3 * SECOND).await;
    assert_eq!(executions(&world, &[first, last]).len(), 1);
    worker.abort();
    slow.store(1, SeqCst);
    // The first one ends now, and its end writes the turn two seconds later.
    while slow.load(SeqCst) < 2 {
        world.pass(SECOND / 20).await;
    }
    let between = ordered(Millis(last.first_start().0 - 500), "a");
    let meanwhile = AskedTask {
        id: Some(TaskId::new(between.start, last.wheel(), 77).with_look_step(last.look_step())),
        task: between,
        request: None,
        on_conflict: OnConflict::Reject,
    };
    let meanwhile = other
        .service()
        .register_asked(vec![meanwhile])
        .await
        .remove(0);
    let Answer::Created(meanwhile) = meanwhile.unwrap() else {
        panic!("it is new");
    };
    world.pass(3 * SECOND).await;
    let worker = world.worker(ending.service(), succeeds(SECOND));
    world.pass(60 * SECOND).await;
    let ids = [first, meanwhile.id, last];
    all_succeed(&world, &other.service(), &ids).await;
    let order = one_at_a_time(&world, &ids);
    worker.abort();
    order == ids
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_registered_while_the_turn_is_passed_on_keeps_its_place() {
    assert!(registered_meanwhile().await);
}

/// The scenarios above see a place that nobody is told of, and a task that is claimed without its turn.
#[tokio::test(start_paused = true)]
async fn planted_flaws_are_found() {
    flaw::switch(Some(Flaw::LatePlaceUntold));
    let kept = registered_meanwhile().await;
    flaw::switch(None);
    assert!(!kept, "the later task went first");
    flaw::switch(Some(Flaw::TurnNotAsked));
    let world = World::new(1, 64);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND));
    world.pass(3 * SECOND).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        let start = Millis(world.time.now().0 + number);
        ids.push(one(&node.service(), ordered(start, "a")).await);
    }
    world.pass(5 * SECOND).await;
    flaw::switch(None);
    let found = executions(&world, &ids);
    assert!(
        found[1].began < found[0].ended,
        "two run at once: {found:?}"
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_dies_keeps_the_others_waiting_for_seconds() {
    let world = World::new(1, 64);
    let armed = Arc::new(AtomicUsize::new(0));
    let fates = {
        let armed = Arc::clone(&armed);
        move |_, call: Call| match (call.operation, armed.load(SeqCst)) {
            ("put_index", 1) => Fate::StopAfter,
            _ => Fate::Go,
        }
    };
    let dying = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 10));
    world.pass(3 * SECOND).await;
    armed.store(1, SeqCst);
    let start = world.time.now().after(SECOND);
    let service = dying.service();
    tokio::spawn(async move { service.register(vec![ordered(start, "a")]).await });
    world.pass(SECOND / 10).await;
    let id = one(&other.service(), ordered(start.after(SECOND), "a")).await;
    world.pass(20 * SECOND).await;
    all_succeed(&world, &other.service(), &[id]).await;
    let waited = world.executions_of(id)[0].began.since(start);
    assert!((10 * SECOND..15 * SECOND).contains(&waited), "{waited:?}");
    assert!(
        published(&world, id).len() <= 3,
        "it is not sent again and again"
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_repeated_registration_keeps_the_place_that_the_first_could_not_make_sure() {
    let world = World::new(1, 64);
    let armed = Arc::new(AtomicUsize::new(0));
    let fates = {
        let armed = Arc::clone(&armed);
        move |_, call: Call| match (call.operation, armed.load(SeqCst)) {
            ("swap_record", 1) => Fate::Fail,
            _ => Fate::Go,
        }
    };
    let asked = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(5 * SECOND));
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let holder = one(&other.service(), ordered(now, "a")).await;
    let behind = one(&other.service(), ordered(now.after(2 * SECOND), "a")).await;
    world.pass(SECOND).await;
    assert_eq!(executions(&world, &[holder]).len(), 1, "it has the turn");
    // In front of both: the turn has to be told.
    let id = client_id::make(now.before(5 * SECOND), 10 * SECOND, 1, 99);
    let task = AskedTask {
        task: ordered(id.first_start(), "a"),
        id: Some(id),
        request: None,
        on_conflict: OnConflict::Ignore,
    };
    armed.store(1, SeqCst);
    let first = asked.service().register_asked(vec![task.clone()]).await;
    assert!(matches!(first[..], [Err(_)]), "{first:?}");
    armed.store(0, SeqCst);
    let again = asked.service().register_asked(vec![task]).await;
    assert!(matches!(again[..], [Ok(Answer::Existing(_))]), "{again:?}");
    world.pass(40 * SECOND).await;
    let ids = [holder, id, behind];
    all_succeed(&world, &other.service(), &ids).await;
    assert_eq!(one_at_a_time(&world, &ids), ids);
    worker.abort();
}

/// A registration without an answer wrote its entry late, into a slot that the wheel had passed. Its task came to its turn, and
/// the claim could not be written. Nothing else comes to this task, and it must not hold the others for days. The task behind it
/// is registered this much later.
async fn goes_on_behind_a_late_entry(behind_later: Duration, is_repeated: bool) {
    let mut world = World::new(1, 64);
    world.settings.sweep_delay = 600 * SECOND;
    let (armed, swaps) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let fates = |number| {
        let (armed, swaps) = (Arc::clone(&armed), Arc::clone(&swaps));
        move |_, call: Call| match (call.operation, armed.load(SeqCst), number) {
            ("put_entries", 1, 1) => Fate::ApplyLater(10 * SECOND),
            // The first one is the end of the holder.
            ("swap_tasks", 2, 2) if swaps.fetch_add(1, SeqCst) == 1 => Fate::Fail,
            // The turn is taken from the task that was never registered.
            ("swap_record", 3, _) => {
                armed.store(4, SeqCst);
                Fate::Delay(3 * SECOND)
            }
            _ => Fate::Go,
        }
    };
    let asked = world.node_with(1, Arc::new(fates(1)));
    let other = world.node_with(2, Arc::new(fates(2)));
    let now = world.time.now().after(5 * SECOND);
    let runs = move |id: TaskId, _| {
        let is_first = id.first_start() == now;
        let takes = if is_first { 20 * SECOND } else { SECOND };
        (takes, Some(Outcome::Succeeded { result: None }))
    };
    let worker = world.worker(other.service(), Arc::new(runs));
    world.pass(5 * SECOND).await;
    let mut long = ordered(now, "a");
    long.draft.claim_timeout = Some(30 * SECOND);
    long.draft.heartbeat_timeout = Some(30 * SECOND);
    let holder = one(&other.service(), long).await;
    world.pass(SECOND).await;
    armed.store(1, SeqCst);
    let id = client_id::make(now.after(2 * SECOND), 10 * SECOND, 1, 99);
    let half = AskedTask {
        task: ordered(id.first_start(), "a"),
        id: Some(id),
        request: None,
        on_conflict: OnConflict::Ignore,
    };
    let answer = asked.service().register_asked(vec![half.clone()]).await;
    assert!(matches!(answer[..], [Err(_)]), "{answer:?}");
    armed.store(0, SeqCst);
    world.pass(16 * SECOND).await;
    armed.store(2, SeqCst);
    world.pass(behind_later).await;
    let behind = one(&other.service(), ordered(now.after(20 * SECOND), "a")).await;
    let mut all = vec![holder, behind];
    if is_repeated {
        armed.store(3, SeqCst);
        while armed.load(SeqCst) == 3 {
            world.pass(SECOND).await;
        }
        let answer = asked.service().register_asked(vec![half]).await;
        assert!(matches!(answer[..], [Ok(_)]), "{answer:?}");
        all.push(id);
    }
    world.pass(600 * SECOND).await;
    assert!(swaps.load(SeqCst) > 1, "a claim failed");
    all_succeed(&world, &other.service(), &all).await;
    one_at_a_time(&world, &all);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_late_entry_whose_claim_failed_holds_no_sequence() {
    goes_on_behind_a_late_entry(SECOND, false).await;
}

/// The stage that ends such registrations panics, and so does its work on the sequence.
#[tokio::test(start_paused = true)]
async fn a_late_entry_holds_no_sequence_though_the_reminder_panics() {
    for work in ["held turns", "held turn"] {
        panics::strike(Some(Strike {
            work,
            after: 0,
            times: 2,
        }));
        goes_on_behind_a_late_entry(SECOND, false).await;
        assert_eq!(panics::strikes_left(), 0, "{work} did not panic");
    }
}

/// The sweep has removed the entry by then.
#[tokio::test(start_paused = true)]
async fn a_late_entry_that_is_gone_holds_no_sequence() {
    goes_on_behind_a_late_entry(1200 * SECOND, false).await;
}

/// Its client asks again while the turn is taken from it.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_registered_while_it_loses_the_turn_runs() {
    goes_on_behind_a_late_entry(1200 * SECOND, true).await;
}
