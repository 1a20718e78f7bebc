//! A task that takes the place of another has its checks and the rows of its labels, whatever its node dies at.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    app::executor::Executor,
    doubles::store::faulty::Fate,
    flow::{
        life::asked::{Answer, AskedTask},
        stages::{query::filter::Filter, service::Service},
    },
    model::{
        action::{Actions, Check, CheckTime, Deed},
        callback::Policy,
        email::Email,
        ids::TaskId,
        key::OnConflict,
        notify::EndStates,
        state::State,
        task::Body,
        time::Millis,
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    letters::Letters,
    world::{Simulated, World, callback, succeeds},
};

const SECOND: Duration = Duration::from_secs(1);

/// A task that replaces the one before it, is checked 40 s behind its start, and is found by its label.
fn replacing(start: Millis) -> AskedTask {
    let mut task = callback(start);
    let draft = &mut task.draft;
    draft.key = Some("reset-7".to_owned());
    let Body::Inline(content) = &mut draft.body else {
        panic!("its payload is small")
    };
    content.labels = vec![("tenant".to_owned(), "acme".to_owned())];
    let email = Email {
        to: vec!["ada@example.org".to_owned()],
        cc: Vec::new(),
        subject: "{{task.id}}".to_owned(),
        body: "well".to_owned(),
    };
    draft.actions = Some(Box::new(Actions {
        at_ends: Vec::new(),
        checks: vec![Check {
            at: CheckTime::After(SECOND * 40),
            states: EndStates::of([State::Succeeded]).unwrap().into(),
            then: Some(Deed::Email(Box::new(email))),
            otherwise: None,
        }],
    }));
    AskedTask {
        task,
        id: None,
        request: None,
        on_conflict: OnConflict::Replace,
    }
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

async fn listed(service: &Service) -> BTreeSet<TaskId> {
    let wanted = Filter {
        callback: Some("work".to_owned()),
        labels: [("tenant".to_owned(), "acme".to_owned())].into(),
        ..Filter::default()
    };
    let page = service.list(&wanted, None, 100).await.unwrap();
    page.tasks.into_iter().map(|task| task.id).collect()
}

/// Replaces a task at a node that dies at operation `at`, and whose client does not repeat. Returns how many operations the
/// replacement took.
async fn run(at: usize, fate: Fate) -> usize {
    let (world, letters) = (World::new(1, 64), Letters::default());
    let (calls, armed) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let fates = {
        let (calls, armed) = (Arc::clone(&calls), Arc::clone(&armed));
        move |_, _| {
            let dies = armed.load(SeqCst) && calls.fetch_add(1, SeqCst) == at;
            if dies { fate } else { Fate::Go }
        }
    };
    let dying = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    execute(&other, &letters);
    let worker = world.worker(other.service(), succeeds(SECOND / 4));
    let policy = Policy {
        indexed: ["tenant".to_owned()].into(),
        ..Policy::default()
    };
    let service = other.service();
    let set = service
        .callbacks()
        .configure("work", policy, &|_| true)
        .await;
    set.unwrap();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(20 * SECOND);
    let first = service.register_asked(vec![replacing(start)]).await.pop();
    let Some(Ok(Answer::Created(old))) = first else {
        panic!("{first:?}")
    };
    armed.store(true, SeqCst);
    let asked = replacing(start.after(5 * SECOND));
    // A call on a node that dies never returns.
    let dead = dying.service();
    let call = tokio::spawn(async move { dead.register_asked(vec![asked]).await });
    world.pass(SECOND).await;
    armed.store(false, SeqCst);
    call.abort();
    world.pass(180 * SECOND).await;
    let ran: BTreeSet<TaskId> = world
        .executions
        .lock()
        .unwrap()
        .iter()
        .map(|run| run.id)
        .collect();
    assert_eq!(ran.len(), 1, "{fate:?} at {at}: {ran:?}");
    let told: BTreeSet<String> = letters
        .taken()
        .into_iter()
        .map(|(_, it)| it.subject)
        .collect();
    let wanted: BTreeSet<String> = ran.iter().map(ToString::to_string).collect();
    assert_eq!(told, wanted, "{fate:?} at {at}: its check, {}", old.id);
    let listed = listed(&service).await;
    assert!(listed.is_superset(&ran), "{fate:?} at {at}: {listed:?}");
    world.check();
    worker.abort();
    calls.load(SeqCst)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_replaces_another_is_whole_wherever_its_node_dies() {
    let total = run(usize::MAX, Fate::Go).await;
    assert!(total >= 9, "{total} operations");
    for at in 0..total.min(14) {
        for fate in [Fate::StopBefore, Fate::StopAfter] {
            run(at, fate).await;
        }
    }
}
