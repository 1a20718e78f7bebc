//! Actions and checks are done at least once, by one internal task each, whatever their node dies at.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    app::executor::Executor,
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{base::api::NewTask, stages::service::Service},
    model::{
        action::{Action, Actions, Check, CheckTime, Deed, When},
        email::Email,
        family::Kin,
        ids::TaskId,
        notify::{EndStates, TreeStates},
        state::{Outcome, State},
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    letters::Letters,
    world::{Behaviour, Simulated, World, callback, register},
};

const SECOND: Duration = Duration::from_secs(1);

fn email(subject: &str) -> Deed {
    Deed::Email(Box::new(Email {
        to: vec!["ada@example.org".to_owned()],
        cc: Vec::new(),
        subject: format!("{subject} {{{{task.id}}}}"),
        body: "{{task.state}} {{task.error}}".to_owned(),
    }))
}

/// A task with an action and a check.
fn acting(world: &World, after: Duration) -> NewTask {
    let mut task = callback(world.time.now().after(after));
    task.draft.actions = Some(Box::new(Actions {
        at_ends: vec![Action {
            when: When::Run(EndStates::ALL),
            deed: email("ended"),
        }],
        checks: vec![Check {
            at: CheckTime::After(SECOND * 40),
            states: EndStates::of([State::Succeeded]).unwrap().into(),
            then: Some(email("well")),
            otherwise: Some(email("late")),
        }],
    }));
    task
}

fn execute(node: &Simulated, letters: &Letters) {
    let executor = Executor {
        service: node.service(),
        node: "node".to_owned(),
        time: node.time.clone(),
        drain_limit: SECOND,
        allowed: Default::default(),
        mail: Some(Arc::new(letters.clone())),
    };
    tokio::spawn(executor.run(CancellationToken::new()));
}

fn behaviour(bad: Vec<TaskId>) -> Behaviour {
    Arc::new(move |id, _| {
        let outcome = if bad.contains(&id) {
            let error = "no route".to_owned();
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    })
}

/// The e-mails by their subjects: their bodies, and the tasks that sent them.
fn sent(letters: &Letters) -> BTreeMap<String, (BTreeSet<String>, BTreeSet<TaskId>)> {
    let mut sent: BTreeMap<String, (BTreeSet<String>, BTreeSet<TaskId>)> = BTreeMap::new();
    for (name, email) in letters.taken() {
        let (bodies, names) = sent.entry(email.subject).or_default();
        bodies.insert(email.body);
        names.insert(name);
    }
    sent
}

async fn ids(service: &Service, tasks: Vec<NewTask>) -> Vec<TaskId> {
    let views = register(service, tasks).await;
    views.iter().map(|view| view.id).collect()
}

/// Tells what was wrong after tasks were registered and ended at a node that dies at its n-th call from then on.
async fn crash(nth: usize, fate: Fate) -> Result<(), String> {
    let (world, letters) = (World::new(1, 1000), Letters::default());
    let (armed, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let arms = Arc::clone(&armed);
    let fates = move |_, _: Call| {
        let dies = arms.load(SeqCst) && seen.fetch_add(1, SeqCst) == nth;
        if dies { fate } else { Fate::Go }
    };
    let dying = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    execute(&dying, &letters);
    execute(&other, &letters);
    world.pass(SECOND * 3).await;
    let good = ids(&other.service(), vec![acting(&world, SECOND)]).await[0];
    let bad = ids(&other.service(), vec![acting(&world, SECOND)]).await[0];
    let silent = ids(
        &other.service(),
        vec![callback(world.time.now().after(SECOND))],
    )
    .await[0];
    armed.store(true, SeqCst);
    let behaviour = behaviour(vec![bad]);
    let worker = world.worker(dying.service(), Arc::clone(&behaviour));
    // A registration at a node that has died is not answered, and may or may not count.
    let service = dying.service();
    let registered = service.register(vec![acting(&world, SECOND * 2)]);
    let registered = world.time.within(SECOND, registered).await;
    let new = registered
        .and_then(|mut views| views.pop()?.ok())
        .map(|view| view.id);
    world.pass(SECOND * 2).await;
    worker.abort();
    world.worker(other.service(), behaviour);
    world.pass(SECOND * 180).await;
    let sent = sent(&letters);
    let mut wanted = vec![
        (format!("ended {good}"), "succeeded "),
        (format!("well {good}"), "succeeded "),
        (format!("ended {bad}"), "failed no route"),
        (format!("late {bad}"), "failed no route"),
    ];
    if let Some(new) = new {
        wanted.push((format!("ended {new}"), "succeeded "));
        wanted.push((format!("well {new}"), "succeeded "));
    }
    for (subject, body) in wanted {
        match sent.get(&subject) {
            Some((bodies, names)) if names.len() == 1 && bodies.iter().eq([body]) => {}
            found => return Err(format!("{subject}: {found:?}")),
        }
    }
    let of_silent = sent
        .keys()
        .find(|subject| subject.contains(&silent.to_string()));
    of_silent.map_or(Ok(()), |subject| Err(format!("nobody asked for {subject}")))
}

/// Runs a world in a runtime of its own, so that its nodes end with it.
fn alone<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(world)
}

fn survives(fate: Fate, step: usize) {
    for nth in (0..60).step_by(step) {
        assert_eq!(alone(crash(nth, fate)), Ok(()), "{fate:?} at {nth}");
    }
}

#[test]
fn actions_are_done_though_their_node_dies_at_a_step() {
    survives(Fate::StopBefore, 11);
    survives(Fate::StopAfter, 9);
}

#[test]
#[ignore = "a minute: make test-all"]
fn actions_are_done_though_their_node_dies_before_any_of_its_steps() {
    survives(Fate::StopBefore, 1);
}

#[test]
#[ignore = "a minute: make test-all"]
fn actions_are_done_though_their_node_dies_after_any_of_its_steps() {
    survives(Fate::StopAfter, 1);
}

/// Tells what was wrong after a tree ended at a node that dies at its n-th call from then on.
async fn crash_at_a_tree(nth: usize, fate: Fate) -> Result<usize, String> {
    let (world, letters) = (World::new(1, 1000), Letters::default());
    let (armed, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (arms, counts) = (Arc::clone(&armed), Arc::clone(&seen));
    let fates = move |_, _: Call| {
        let dies = arms.load(SeqCst) && counts.fetch_add(1, SeqCst) == nth;
        if dies { fate } else { Fate::Go }
    };
    let dying = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    execute(&dying, &letters);
    execute(&other, &letters);
    world.pass(SECOND * 3).await;
    let kin = |mut task: NewTask, parent, is_parent| {
        task.draft.kin = Some(Box::new(Kin {
            parent,
            is_parent,
            ..Kin::default()
        }));
        task
    };
    let mut root = kin(callback(world.time.now().after(SECOND)), None, true);
    root.draft.actions = Some(Box::new(Actions {
        at_ends: vec![Action {
            when: When::Tree(TreeStates {
                completed: true,
                faulted: true,
                cancelled: true,
            }),
            deed: Deed::Email(Box::new(Email {
                to: vec!["ada@example.org".to_owned()],
                cc: Vec::new(),
                subject: "tree".to_owned(),
                body: "{{task.tree_state}}".to_owned(),
            })),
        }],
        checks: Vec::new(),
    }));
    let root = ids(&other.service(), vec![root]).await[0];
    let child = kin(callback(world.time.now().after(SECOND)), Some(root), false);
    ids(&other.service(), vec![child]).await;
    armed.store(true, SeqCst);
    let behaviour = behaviour(Vec::new());
    let worker = world.worker(dying.service(), Arc::clone(&behaviour));
    world.pass(SECOND * 3).await;
    worker.abort();
    world.worker(other.service(), behaviour);
    world.pass(SECOND * 300).await;
    match sent(&letters).get("tree") {
        Some((bodies, names)) if names.len() == 1 && bodies.iter().eq(["completed"]) => {
            Ok(seen.load(SeqCst))
        }
        found => Err(format!("{fate:?} at {nth}: {found:?}")),
    }
}

#[test]
fn the_end_of_a_tree_is_followed_though_its_node_dies_at_a_step() {
    let all = alone(crash_at_a_tree(usize::MAX, Fate::Go)).unwrap();
    assert!(all > 40, "{all} calls");
    for (first, fate) in [Fate::StopBefore, Fate::StopAfter].into_iter().enumerate() {
        for nth in (first..60).step_by(9) {
            alone(crash_at_a_tree(nth, fate)).unwrap();
        }
    }
}

/// Tells whether the action of an end is done while the store takes no entries for half a minute from the end on.
async fn done_behind_an_outage() -> bool {
    let (world, letters) = (World::new(1, 1000), Letters::default());
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
    execute(&node, &letters);
    world.pass(SECOND * 3).await;
    let task = ids(&node.service(), vec![acting(&world, SECOND)]).await[0];
    world.worker(node.service(), behaviour(Vec::new()));
    world.pass(SECOND * 21 / 20).await;
    away.store(true, SeqCst);
    world.pass(SECOND * 30).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 60).await;
    sent(&letters).contains_key(&format!("ended {task}"))
}

#[test]
fn an_action_is_done_behind_an_outage_of_the_store() {
    assert!(alone(done_behind_an_outage()));
}

/// The scenario above sees an end that is finished before the tasks of its actions are durable.
#[test]
fn an_action_that_is_not_awaited_is_found() {
    flaw::switch(Some(Flaw::EndToldTooSoon));
    let done = alone(done_behind_an_outage());
    flaw::switch(None);
    assert!(!done);
}

/// Tells whether a task is checked if it was acknowledged, though the store refuses so many writes of entries.
async fn checked_behind_refusals(refusals: usize) -> bool {
    let (world, letters) = (World::new(1, 1000), Letters::default());
    let calls = AtomicUsize::new(0);
    let armed = Arc::new(AtomicBool::new(false));
    let arms = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        let is_entry = call.operation == "put_entries" && arms.load(SeqCst);
        if is_entry && calls.fetch_add(1, SeqCst) < refusals {
            Fate::Fail
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    execute(&node, &letters);
    world.pass(SECOND * 3).await;
    armed.store(true, SeqCst);
    let task = acting(&world, SECOND * 30);
    let registered = node.service().register(vec![task]).await;
    armed.store(false, SeqCst);
    world.worker(node.service(), behaviour(Vec::new()));
    world.pass(SECOND * 180).await;
    let sent = sent(&letters);
    let mut acknowledged = registered.into_iter().flatten();
    acknowledged.all(|view| sent.contains_key(&format!("well {}", view.id)))
}

const REFUSALS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 21, 34];

#[test]
fn a_task_that_is_acknowledged_is_checked() {
    for refusals in REFUSALS {
        assert!(alone(checked_behind_refusals(refusals)), "{refusals}");
    }
}

/// The scenario above sees a task that is registered though its check is not durable.
#[test]
fn a_check_that_is_not_awaited_is_found() {
    flaw::switch(Some(Flaw::CheckNotAwaited));
    let mut worlds = REFUSALS.into_iter();
    let found = worlds.any(|refusals| !alone(checked_behind_refusals(refusals)));
    flaw::switch(None);
    assert!(found);
}

/// An e-mail says how the task ended also when it is redriven before the mail goes out.
#[tokio::test(start_paused = true)]
async fn an_e_mail_tells_its_own_end_behind_a_redrive() {
    let (world, letters) = (World::new(1, 1000), Letters::default());
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let mut dies = acting(&world, SECOND);
    dies.draft.max_attempts = Some(1);
    let task = ids(&node.service(), vec![dies]).await[0];
    let fails: Behaviour = Arc::new(|_, attempt| {
        let error = format!("no route {attempt}");
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    world.worker(node.service(), fails);
    world.pass(SECOND * 20).await;
    node.service().run(task, None).await.unwrap();
    world.pass(SECOND * 20).await;
    execute(&node, &letters);
    world.pass(SECOND * 120).await;
    let sent = sent(&letters);
    let (bodies, names) = &sent[&format!("ended {task}")];
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    assert_eq!(
        (bodies, names.len()),
        (vec!["dead no route 1", "dead no route 2"], 2)
    );
}
