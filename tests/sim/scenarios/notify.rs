//! The end of a task is told at least once, whatever its node dies at; tasks that ask for nothing tell nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::Value;
use tickwheel::{
    app::executor::Executor,
    doubles::{
        queue::memory::Fault,
        store::faulty::{Call, Fate},
    },
    flaw::{self, Flaw},
    flow::{base::api::NewTask, stages::service::Service},
    model::{
        callback::Policy,
        ids::TaskId,
        notify::{Destination, EndStates, Notify},
        state::Outcome,
    },
};
use tokio_util::sync::CancellationToken;

use crate::world::{Behaviour, Simulated, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
pub(super) const TOPIC: &str = "ends";

/// A task whose end is told.
fn told(world: &World, after: Duration) -> NewTask {
    let mut task = callback(world.time.now().after(after));
    task.draft.notify = Some(Notify::of_run(
        Destination::Kafka {
            topic: TOPIC.to_owned(),
        },
        EndStates::ALL,
    ));
    task
}

/// Runs the service's own tasks at a node, for as long as the world lives.
pub(super) fn execute(node: &Simulated) {
    let executor = Executor {
        service: node.service(),
        node: "node".to_owned(),
        time: node.time.clone(),
        drain_limit: SECOND,
        allowed: Default::default(),
        mail: None,
    };
    tokio::spawn(executor.run(CancellationToken::new()));
}

/// Each message that was told, by its task.
pub(super) fn messages(world: &World) -> BTreeMap<String, Vec<Value>> {
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for published in world.queue.records(TOPIC) {
        let message: Value = serde_json::from_slice(&published.record.value).unwrap();
        let task = message["data"]["task_id"].as_str().unwrap().to_owned();
        let key = published.record.key.as_deref();
        assert_eq!(key, Some(task.as_bytes()), "{message}");
        told.entry(task).or_default().push(message);
    }
    told
}

/// The first tasks succeed, the others fail for good.
fn behaviour(good: &[TaskId]) -> Behaviour {
    let good = good.to_vec();
    Arc::new(move |id, _| {
        let outcome = if good.contains(&id) {
            Outcome::Succeeded { result: None }
        } else {
            let error = "no route".to_owned();
            Outcome::Failed { error }
        };
        (SECOND / 10, Some(outcome))
    })
}

/// Tells what was wrong after tasks have ended at a node that dies at its n-th call from the first end on.
async fn crash(nth: usize, fate: Fate) -> Result<(), String> {
    let world = World::new(1, 1000);
    world.queue.create_topic(TOPIC, None);
    let (armed, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let dying = dying(&world, &armed, &seen, nth, fate);
    let other = world.node(2);
    execute(&dying);
    execute(&other);
    world.pass(SECOND * 3).await;
    let good = ids(&other.service(), vec![told(&world, SECOND)]).await;
    let bad = ids(&other.service(), vec![told(&world, SECOND)]).await;
    let far = ids(&other.service(), vec![told(&world, SECOND * 30)]).await;
    let silent = ids(
        &other.service(),
        vec![callback(world.time.now().after(SECOND))],
    )
    .await;
    armed.store(true, SeqCst);
    let behaviour = behaviour(&[good[0], silent[0]]);
    let worker = world.worker(dying.service(), Arc::clone(&behaviour));
    world.pass(SECOND * 2).await;
    // A call at a node that has died never returns, so the client asks the other one.
    let cancel = async |service: Arc<Service>| service.cancel(far[0]).await.is_ok();
    let asked = world.time.within(SECOND, cancel(dying.service())).await;
    if asked != Some(true) {
        assert!(cancel(other.service()).await);
    }
    // It may wait for an answer for ever, and would keep its part of the queue.
    worker.abort();
    world.worker(other.service(), behaviour);
    world.pass(SECOND * 120).await;
    let told = messages(&world);
    for (id, state) in [
        (good[0], "succeeded"),
        (bad[0], "failed"),
        (far[0], "cancelled"),
    ] {
        let messages = told.get(&id.to_string()).cloned().unwrap_or_default();
        let wrong = messages.iter().any(|message| {
            message["data"]["state"] != state || message["type"] != format!("task.{state}")
        });
        let names: BTreeSet<&str> = messages
            .iter()
            .filter_map(|message| message["id"].as_str())
            .collect();
        if messages.is_empty() || wrong || names.len() != 1 {
            return Err(format!("{state} task {id}: {messages:?}"));
        }
    }
    match told.get(&silent[0].to_string()) {
        None => Ok(()),
        Some(messages) => Err(format!("nobody asked for {messages:?}")),
    }
}

/// A node that dies at its n-th call, from the time on when it is armed.
pub(super) fn dying(
    world: &World,
    armed: &Arc<AtomicBool>,
    seen: &Arc<std::sync::atomic::AtomicUsize>,
    nth: usize,
    fate: Fate,
) -> Simulated {
    let (armed, seen) = (Arc::clone(armed), Arc::clone(seen));
    let fates = move |_, _: Call| {
        if armed.load(SeqCst) && seen.fetch_add(1, SeqCst) == nth {
            fate
        } else {
            Fate::Go
        }
    };
    world.node_with(1, Arc::new(fates))
}

pub(super) async fn ids(service: &Service, tasks: Vec<NewTask>) -> Vec<TaskId> {
    let views = register(service, tasks).await;
    views.iter().map(|view| view.id).collect()
}

/// Runs a world in a runtime of its own, so that its nodes end with it.
pub(super) fn alone<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(world)
}

fn survives(fate: Fate) {
    for nth in 0..70 {
        assert_eq!(alone(crash(nth, fate)), Ok(()), "{fate:?} at {nth}");
    }
}

#[test]
fn an_end_is_told_though_its_node_dies_before_any_of_its_steps() {
    survives(Fate::StopBefore);
}

#[test]
fn an_end_is_told_though_its_node_dies_after_any_of_its_steps() {
    survives(Fate::StopAfter);
}

/// Tells what was wrong with the record of a death at a node that dies at its n-th call from the death on.
async fn crash_of_a_death(nth: usize, fate: Fate) -> Result<(), String> {
    const DEATHS: &str = "deaths";
    let world = World::new(1, 1000);
    world.queue.create_topic(DEATHS, None);
    let (armed, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let dying = dying(&world, &armed, &seen, nth, fate);
    let other = world.node(2);
    execute(&dying);
    execute(&other);
    world.pass(SECOND * 3).await;
    let policy = Policy {
        dead_letter_topic: Some(DEATHS.to_owned()),
        ..Policy::default()
    };
    let service = other.service();
    let set = service
        .callbacks()
        .configure("work", policy, &|_| true)
        .await;
    set.map_err(|fault| fault.to_string())?;
    world.pass(SECOND * 3).await;
    let mut dies = callback(world.time.now().after(SECOND));
    dies.draft.max_attempts = Some(1);
    let dead = ids(&service, vec![dies]).await;
    armed.store(true, SeqCst);
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route".to_owned();
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    let worker = world.worker(dying.service(), Arc::clone(&fails));
    world.pass(SECOND * 3).await;
    worker.abort();
    world.worker(service, fails);
    world.pass(SECOND * 120).await;
    let keys: BTreeSet<_> = world
        .queue
        .records(DEATHS)
        .into_iter()
        .map(|one| one.record.key.clone())
        .collect();
    if keys == BTreeSet::from([Some(dead[0].to_string().into())]) {
        Ok(())
    } else {
        Err(format!("{dead:?}: {keys:?}"))
    }
}

#[test]
fn a_death_has_its_record_though_its_node_dies_at_any_of_its_steps() {
    for fate in [Fate::StopBefore, Fate::StopAfter] {
        for nth in 0..40 {
            assert_eq!(
                alone(crash_of_a_death(nth, fate)),
                Ok(()),
                "{fate:?} at {nth}"
            );
        }
    }
}

/// Tells whether an end is told while the store takes no entries for half a minute from it on.
async fn told_behind_an_outage() -> bool {
    let world = World::new(1, 1000);
    world.queue.create_topic(TOPIC, None);
    let away = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&away);
    let fates = move |_, call: Call| {
        if call.operation == "put_entries" && refuses.load(SeqCst) {
            Fate::Fail
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    execute(&node);
    world.pass(SECOND * 3).await;
    let good = ids(&node.service(), vec![told(&world, SECOND)]).await;
    world.worker(node.service(), behaviour(&good));
    world.pass(SECOND * 21 / 20).await;
    away.store(true, SeqCst);
    world.pass(SECOND * 30).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 60).await;
    messages(&world).contains_key(&good[0].to_string())
}

#[test]
fn an_end_is_told_behind_an_outage_of_the_store() {
    assert!(alone(told_behind_an_outage()));
}

/// The scenario above sees an end that counts as told before the task that tells it is durable.
#[test]
fn an_end_that_counts_as_told_too_soon_is_found() {
    flaw::switch(Some(Flaw::EndToldTooSoon));
    let told = alone(told_behind_an_outage());
    flaw::switch(None);
    assert!(!told);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_missing_or_lossy_is_told_once_it_answers() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    execute(&node);
    world.pass(SECOND * 3).await;
    let good = ids(&node.service(), vec![told(&world, SECOND)]).await;
    world.worker(node.service(), behaviour(&good));
    world.pass(SECOND * 600).await;
    assert!(messages(&world).is_empty(), "the topic does not exist");
    world.queue.create_topic(TOPIC, None);
    world.pass(SECOND * 61).await;
    assert_eq!(messages(&world).len(), 1);
    let lossy = ids(&node.service(), vec![told(&world, SECOND)]).await;
    world.pass(SECOND).await;
    world.queue.faults().plan(3, Fault::UnconfirmedLost);
    world.pass(SECOND * 300).await;
    assert!(messages(&world).contains_key(&lossy[0].to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_while_it_delivers_is_followed_by_another() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    execute(&node);
    world.pass(SECOND * 3).await;
    let good = ids(&node.service(), vec![told(&world, SECOND)]).await;
    world.worker(node.service(), behaviour(&good));
    // It tries, and its topic is missing.
    world.pass(SECOND * 20).await;
    node.crash();
    world.queue.create_topic(TOPIC, None);
    let other = world.node(2);
    execute(&other);
    world.pass(SECOND * 120).await;
    assert_eq!(messages(&world).len(), 1);
    drop(good);
}

/// Each end is told: of the death, of the death behind a redrive, and none of a deletion.
#[tokio::test(start_paused = true)]
async fn a_redrive_is_told_again_and_a_deletion_is_not() {
    let world = World::new(1, 1000);
    world.queue.create_topic(TOPIC, None);
    let node = world.node(1);
    execute(&node);
    world.pass(SECOND * 3).await;
    let mut dies = told(&world, SECOND);
    dies.draft.max_attempts = Some(1);
    let bad = ids(&node.service(), vec![dies]).await;
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route".to_owned();
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    world.worker(node.service(), fails);
    world.pass(SECOND * 60).await;
    let service = node.service();
    service.run(bad[0], None).await.unwrap();
    world.pass(SECOND * 60).await;
    service.dead_letters().delete(bad[0]).await.unwrap();
    world.pass(SECOND * 120).await;
    let told = messages(&world).remove(&bad[0].to_string()).unwrap();
    let ends: Vec<(u64, u64)> = told
        .iter()
        .filter_map(|message| {
            let data = &message["data"];
            Some((data["generation"].as_u64()?, data["attempt"].as_u64()?))
        })
        .collect();
    assert_eq!(ends, [(0, 1), (1, 2)]);
    assert_ne!(told[0]["id"], told[1]["id"]);
}
