//! While a node of an earlier version is in the cluster, tasks that it would damage are refused, and others are not. A refusal
//! leaves nothing from which the task comes to life later.

use std::time::Duration;

use tickwheel::{
    flow::{
        base::api::{Fault, NewTask, View},
        life::{
            asked::{Answer, AskedTask, RequestMark},
            register_tree::{ChildStart, NewChild, NewTree},
        },
        stages::service::Service,
    },
    model::{
        action::When,
        chain::{FollowStart, FollowUp},
        ids::{NodeId, TaskId},
        key::OnConflict,
        kin::Kin,
        look_step::LookStep,
        notify::EndStates,
        state::State,
        wheel::WheelNumber,
    },
    store::NodeRow,
};
use uuid::Uuid;

use crate::world::{World, callback};

const SECOND: Duration = Duration::from_secs(1);

fn plain(world: &World) -> NewTask {
    callback(world.time.now().after(SECOND * 600))
}

fn chained(world: &World) -> NewTask {
    let mut task = plain(world);
    task.draft.then = vec![FollowUp {
        when: When::Run(EndStates::of([State::Succeeded]).unwrap()),
        start: FollowStart::After(SECOND),
        with_result: false,
        in_tree: false,
        task: plain(world).draft,
    }];
    task
}

/// Registers a task with a follow-up between two without; tells which were taken.
async fn taken(world: &World, service: &Service) -> [bool; 3] {
    let tasks = vec![plain(world), chained(world), plain(world)];
    let answers = service.register(tasks).await;
    let told = |answer: &Result<_, Fault>| match answer {
        Ok(_) => true,
        Err(Fault::Upgrading { field: "then" }) => false,
        Err(fault) => panic!("{fault}"),
    };
    let told: Vec<bool> = answers.iter().map(told).collect();
    told.try_into().unwrap()
}

/// A node of an earlier version writes itself into the list and says nothing of its level.
async fn earlier(world: &World) {
    let row = NodeRow {
        node: NodeId(Uuid::from_u128(77)),
        name: "earlier".to_owned(),
        address: "10.0.0.9:7711".to_owned(),
        wall: world.time.now(),
        ready: false,
    };
    world.plain_store().put_node(&row).await.unwrap();
    world.pass(SECOND * 2).await;
}

fn asked(task: NewTask, id: Option<TaskId>) -> AskedTask {
    AskedTask {
        task,
        id,
        request: None,
        on_conflict: OnConflict::Ignore,
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_with_a_child_that_an_earlier_version_would_damage_is_refused_as_a_whole() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(SECOND * 5).await;
    let kin = |task: &mut NewTask, is_parent, after_parent| {
        task.draft.kin = Some(Box::new(Kin {
            parent: None,
            is_parent,
            after_parent,
            undoes: false,
            children_within: None,
        }));
    };
    let (mut root, mut child) = (plain(&world), plain(&world));
    kin(&mut root, true, false);
    kin(&mut child, false, true);
    let step = LookStep::covering(SECOND * 60);
    let id = TaskId::new(root.start, WheelNumber::new(0).unwrap(), 7).with_look_step(step);
    let tree = || NewTree {
        root: asked(root.clone(), Some(id)),
        children: vec![NewChild {
            start: ChildStart::After(SECOND),
            draft: child.draft.clone(),
            children: Vec::new(),
        }],
    };
    earlier(&world).await;
    let refused = service.register_tree(tree()).await;
    let field = "after_parent";
    assert!(
        matches!(&refused, Err(Fault::Upgrading { field: of }) if *of == field),
        "{refused:?}"
    );
    assert!(service.get(id, View::Basic).await.unwrap().is_none());
    world.pass(SECOND * 40).await;
    let taken = service.register_tree(tree()).await;
    assert!(matches!(taken, Ok(Answer::Created(_))), "{taken:?}");
    // Every released program knows cancelled trees.
    earlier(&world).await;
    assert!(service.trees().cancel(id).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_refused_meanwhile_does_not_get_the_key_that_it_asked_for() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(SECOND * 5).await;
    let keyed = |mut task: NewTask| {
        task.draft.key = Some("invoice-7".to_owned());
        asked(task, None)
    };
    earlier(&world).await;
    let refused = service.register_asked(vec![keyed(chained(&world))]).await;
    let is_refused = |answer: &Result<_, Fault>| matches!(answer, Err(Fault::Upgrading { .. }));
    assert!(refused.iter().all(is_refused), "{refused:?}");
    // Another one with the same key is a new task, now and later.
    let mut taken = service.register_asked(vec![keyed(plain(&world))]).await;
    let Some(Ok(Answer::Created(task))) = taken.pop() else {
        panic!("{taken:?}");
    };
    assert!(task.spec.then.is_empty(), "{task:?}");
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_version_would_forget_is_refused_while_one_is_there() {
    let world = World::new(1, 1000);
    let (one, two) = (world.node(1), world.node(2));
    // Before a node has read the list it asks for it.
    assert_eq!(taken(&world, &one.service()).await, [true; 3]);
    world.pass(SECOND * 5).await;
    for _ in 0..3 {
        earlier(&world).await;
        for node in [&one, &two] {
            let told = taken(&world, &node.service()).await;
            assert_eq!(told, [true, false, true]);
        }
    }
    // A node that starts meanwhile knows it at once.
    let third = world.node(3);
    assert_eq!(taken(&world, &third.service()).await, [true, false, true]);
    // Its row ends by itself, half a minute behind its death.
    world.pass(SECOND * 20).await;
    assert_eq!(taken(&world, &one.service()).await, [true, false, true]);
    world.pass(SECOND * 15).await;
    for node in [&one, &two, &third] {
        assert_eq!(taken(&world, &node.service()).await, [true; 3]);
    }
}

/// Requests that come twice: by an id, by a mark, and each of them with a key as well.
fn repeated(task: &NewTask, first: u64) -> Vec<AskedTask> {
    let id = |number: u64| {
        let step = LookStep::covering(SECOND * 60);
        TaskId::new(task.start, WheelNumber::new(0).unwrap(), number).with_look_step(step)
    };
    let by_id = |number: u64| asked(task.clone(), Some(id(number)));
    let by_mark = |number: u64| AskedTask {
        request: Some(mark(number)),
        ..asked(task.clone(), None)
    };
    let keyed = |mut asked: AskedTask, number: u64| {
        asked.task.draft.key = Some(format!("key {number}"));
        asked
    };
    vec![
        by_id(first),
        by_mark(first + 1),
        keyed(by_id(first + 2), first + 2),
        keyed(by_mark(first + 3), first + 3),
    ]
}

fn mark(number: u64) -> RequestMark {
    RequestMark {
        key: format!("request {number}"),
        hash: u128::from(number),
    }
}

/// Registers chains, and trees with a child that waits for its parent.
async fn registered(
    service: &Service,
    chain: &NewTask,
    (root, child): (&NewTask, &NewTask),
) -> Vec<Result<Answer, Fault>> {
    let mut answers = service.register_asked(repeated(chain, 1)).await;
    for root in repeated(root, 5) {
        let tree = NewTree {
            root,
            children: vec![NewChild {
                start: ChildStart::After(SECOND),
                draft: child.draft.clone(),
                children: Vec::new(),
            }],
        };
        answers.push(service.register_tree(tree).await);
    }
    answers
}

/// The task is there already, so there is nothing that an earlier version could damage.
#[tokio::test(start_paused = true)]
async fn what_was_taken_before_an_earlier_version_came_is_answered_again() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(SECOND * 5).await;
    let (chain, mut root, mut child) = (chained(&world), plain(&world), chained(&world));
    for (task, is_parent) in [(&mut root, true), (&mut child, false)] {
        task.draft.kin = Some(Box::new(Kin {
            parent: None,
            is_parent,
            after_parent: !is_parent,
            undoes: false,
            children_within: None,
        }));
    }
    let first = registered(&service, &chain, (&root, &child)).await;
    earlier(&world).await;
    let again = registered(&service, &chain, (&root, &child)).await;
    assert_eq!((first.len(), again.len()), (8, 8));
    for (place, answers) in first.into_iter().zip(again).enumerate() {
        let (Ok(Answer::Created(first)), Ok(Answer::Existing(again))) = &answers else {
            panic!("{place}: {answers:?}");
        };
        assert_eq!(first.id, again.id, "{place}");
    }
    // Another body under the mark of one of them, and new tasks.
    let other = AskedTask {
        request: Some(RequestMark { hash: 9, ..mark(2) }),
        ..asked(chain.clone(), None)
    };
    let other = service.register_asked(vec![other]).await;
    assert!(matches!(other[..], [Ok(Answer::OtherRequest)]), "{other:?}");
    for answer in service.register_asked(repeated(&chain, 20)).await {
        assert!(matches!(answer, Err(Fault::Upgrading { .. })), "{answer:?}");
    }
}
