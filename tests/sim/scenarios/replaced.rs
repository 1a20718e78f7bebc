//! A task takes the place of another that has its key, while nodes die, fail and lose replies; one of the two runs, once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::{
        base::api::VisibleState,
        life::asked::{Answer, AskedTask},
        stages::service::Service,
    },
    model::{ids::TaskId, key::OnConflict, state::Outcome, time::Millis},
};

use crate::world::{Simulated, World, callback, succeeds};

const SECOND: Duration = Duration::from_secs(1);

fn replacing(start: Millis) -> AskedTask {
    let mut task = callback(start);
    task.draft.key = Some("reset-7".to_owned());
    AskedTask {
        task,
        id: None,
        request: None,
        on_conflict: OnConflict::Replace,
    }
}

/// Registers as a client that repeats until it has an answer.
async fn until_answered(service: &Service, world: &World, asked: AskedTask) -> TaskId {
    loop {
        match service.register_asked(vec![asked.clone()]).await.pop() {
            Some(Ok(Answer::Created(task) | Answer::Replaced(task))) => return task.id,
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(_)) | None => world.pass(SECOND / 4).await,
        }
    }
}

/// Replaces a task at a node that dies or fails at operation `at`; its client repeats, or does not. Returns how many
/// operations the replacement took.
async fn run(repeats: bool, at: usize, fate: Fate) -> usize {
    let world = World::new(1, 64);
    let (calls, armed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let fates = {
        let (calls, armed) = (Arc::clone(&calls), Arc::clone(&armed));
        move |_, _| {
            let counts = armed.load(SeqCst) == 1;
            if counts && calls.fetch_add(1, SeqCst) == at {
                fate
            } else {
                Fate::Go
            }
        }
    };
    let dying: Simulated = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 4));
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(20 * SECOND);
    let old = until_answered(&other.service(), &world, replacing(start)).await;
    let asked = replacing(start.after(5 * SECOND));
    armed.store(1, SeqCst);
    let first = {
        let (service, asked) = (dying.service(), asked.clone());
        // A call on a node that dies never returns.
        tokio::spawn(async move { service.register_asked(vec![asked]).await })
    };
    world.pass(SECOND).await;
    armed.store(0, SeqCst);
    let operations = calls.load(SeqCst);
    let answered = if repeats {
        Some(until_answered(&other.service(), &world, asked).await)
    } else if first.is_finished() {
        match first.await.unwrap().pop() {
            Some(Ok(Answer::Replaced(task))) => Some(task.id),
            _ => None,
        }
    } else {
        None
    };
    world.pass(90 * SECOND).await;
    let executions = world.executions.lock().unwrap().clone();
    assert_eq!(executions.len(), 1, "{fate:?} at {at}: {executions:?}");
    if let Some(new) = answered {
        assert_eq!(executions[0].id, new, "{fate:?} at {at}");
        let end = world.end_of(&other.service(), old, SECOND).await;
        assert_eq!(end, VisibleState::Cancelled);
    }
    world.check();
    worker.abort();
    operations
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every operation: make test-all"]
async fn one_of_the_two_tasks_runs_wherever_the_replacement_stops() {
    run_all(1).await;
}

#[tokio::test(start_paused = true)]
async fn one_of_the_two_tasks_runs_where_the_replacement_stops() {
    run_all(4).await;
}

/// Stops at each operation that is a multiple of `every`.
async fn run_all(every: usize) {
    for repeats in [true, false] {
        let total = run(repeats, usize::MAX, Fate::Go).await;
        assert!(total >= 7, "{total} operations");
        for at in (0..total.min(14)).step_by(every) {
            for fate in [
                Fate::StopBefore,
                Fate::StopAfter,
                Fate::Fail,
                Fate::LoseReply,
            ] {
                run(repeats, at, fate).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_replacements_at_once_the_last_one_runs() {
    let world = World::new(1, 64);
    let nodes = [world.node(1), world.node(2)];
    let worker = world.worker(nodes[0].service(), succeeds(SECOND));
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(20 * SECOND);
    let services = nodes.each_ref().map(Simulated::service);
    let [one, two] = services.each_ref().map(|service| {
        service.register_asked(vec![replacing(start), replacing(start), replacing(start)])
    });
    let (one, two) = tokio::join!(one, two);
    let answers: Vec<Answer> = one.into_iter().chain(two).map(Result::unwrap).collect();
    let created = answers
        .iter()
        .filter(|answer| matches!(answer, Answer::Created(_)));
    assert_eq!(created.count(), 1, "{answers:?}");
    world.pass(60 * SECOND).await;
    assert_eq!(world.executions.lock().unwrap().len(), 1);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_running_task_is_told_to_stop_and_does_not_start_again() {
    let world = World::new(1, 64);
    let node = world.node(1);
    let fails = Arc::new(|_, _| {
        let error = "no".to_owned();
        (5 * SECOND, Some(Outcome::Retry { error, after: None }))
    });
    let worker = world.worker(node.service(), fails);
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let old = until_answered(&node.service(), &world, replacing(now)).await;
    world.pass(2 * SECOND).await;
    assert_eq!(world.executions_of(old).len(), 1, "it runs");
    let later = now.after(600 * SECOND);
    let new = until_answered(&node.service(), &world, replacing(later)).await;
    world.pass(60 * SECOND).await;
    assert_eq!(world.executions_of(old).len(), 1, "it does not start again");
    let end = world.end_of(&node.service(), old, SECOND).await;
    assert_eq!(end, VisibleState::Cancelled);
    let waits = node.service().id_by_key("work", "reset-7").await.unwrap();
    assert_eq!(waits, Some(new));
    world.check();
    worker.abort();
}
