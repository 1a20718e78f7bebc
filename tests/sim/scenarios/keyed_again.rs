//! A tree with a key takes it back before it goes on again, and a call that dies in the middle blocks the key for no longer than
//! a round.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::{
        base::api::{NewTask, TaskView, View},
        life::asked::Answer,
        stages::{service::Service, tree::retry::NotRetried},
    },
    model::{
        family::{Kin, TreeOutcome},
        ids::TaskId,
        key::OnConflict,
        state::Outcome,
    },
};

use super::{
    keyed::{ask, dying, id_of, keyed},
    notify::alone,
};
use crate::world::{Behaviour, World, callback};

const SECOND: Duration = Duration::from_secs(1);

/// A root that dies at its first attempt, and may have children.
fn root(world: &World) -> NewTask {
    let mut task = callback(world.time.now().after(SECOND));
    task.draft.max_attempts = Some(1);
    task.draft.kin = Some(Box::new(Kin {
        is_parent: true,
        ..Kin::default()
    }));
    task
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    service.get(id, View::Basic).await.unwrap().unwrap()
}

/// Lets a tree with a key fail, and runs it again at a node that dies or fails at operation `nth` from then on. Its client gives
/// up, and another one asks for the key until it has it. Returns how many operations there were.
async fn run(nth: usize, fate: Fate) -> usize {
    let world = World::new(1, 64);
    let ((dying, armed, calls), other) = (dying(&world, (nth, fate)), world.node(2));
    world.pass(3 * SECOND).await;
    let service = other.service();
    let tree = ask(&service, keyed(root(&world), OnConflict::Reject)).await;
    let tree = id_of(&tree.unwrap().unwrap()).unwrap();
    let dies: Behaviour = Arc::new(move |id, attempt| {
        let error = "no route".to_owned();
        let outcome = if id == tree && attempt == 1 {
            Outcome::Retry { error, after: None }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND, Some(outcome))
    });
    let worker = world.polling_worker(other.service(), |_| None, dies);
    world.pass(10 * SECOND).await;
    let ended = read(&service, tree).await.tree;
    assert_eq!(ended.map(|tree| tree.outcome), Some(TreeOutcome::Faulted));
    armed.store(true, std::sync::atomic::Ordering::SeqCst);
    let calling = dying.service();
    tokio::spawn(async move { calling.retries().retry(tree, None).await });
    world.pass(SECOND / 10).await;
    let far = world.time.now().after(10_000 * SECOND);
    loop {
        match ask(&service, keyed(callback(far), OnConflict::Reject)).await {
            Some(Ok(Answer::Created(_))) => break,
            Some(Ok(Answer::KeyTaken(task))) => assert_eq!(task.id, tree),
            Some(Ok(other)) => panic!("{fate:?} at {nth}: {other:?}"),
            Some(Err(_)) | None => {}
        }
        world.pass(5 * SECOND).await;
        let waited = world.time.now().after(9000 * SECOND) > far;
        assert!(!waited, "{fate:?} at {nth}: the key is not free");
    }
    let operations = calls.load(std::sync::atomic::Ordering::SeqCst);
    let ended = read(&service, tree).await;
    let end = ended.tree.expect("a live task has the key").at;
    assert!(end <= world.time.now(), "{fate:?} at {nth}: {ended:?}");
    world.pass(1500 * SECOND).await;
    // Nothing of the call that died comes later.
    assert_eq!(read(&service, tree).await.tree, ended.tree);
    let again = service.retries().retry(tree, None).await.unwrap().unwrap();
    let (taken, done) = (Err(NotRetried::KeyTaken), Err(NotRetried::NothingFailed));
    assert!(
        again == taken || again == done,
        "{fate:?} at {nth}: {again:?}"
    );
    worker.abort();
    operations
}

#[test]
fn a_key_is_free_again_though_a_retry_dies_half_done() {
    let all = alone(run(usize::MAX, Fate::Go));
    assert!(all > 8, "{all} operations");
    for nth in 0..20 {
        alone(run(nth, Fate::StopAfter));
    }
}

#[test]
#[ignore = "a minute: make test-all"]
fn a_key_is_free_again_whatever_happens_to_a_retry() {
    for fate in [
        Fate::StopBefore,
        Fate::StopAfter,
        Fate::Fail,
        Fate::LoseReply,
        Fate::ApplyLater(3 * SECOND),
    ] {
        for nth in 0..40 {
            alone(run(nth, fate));
        }
    }
}
