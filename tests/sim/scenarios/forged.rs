//! Claims with messages that were never published leave no row where the queue is the node's own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate, Faulty},
    flow::{
        base::api::{ClaimAnswer, ClaimRequest, View},
        stages::node::Node,
    },
    model::{draft::Defaults, ids::TaskId, task::Spec, time::Millis, wheel::WheelNumber},
    store::{Freshness, TaskStore as _},
};

use crate::world::{World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

fn claim(id: TaskId, spec: &Arc<Spec>, published: Millis) -> ClaimRequest {
    ClaimRequest {
        id,
        generation: 0,
        expected_attempt: 0,
        spec: Some(Arc::clone(spec)),
        published: Some(published),
        with_content: false,
        admitted: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_forged_message_leaves_no_row_where_the_queue_is_the_nodes_own_and_a_real_one_costs_no_read()
 {
    let world = World::on_disk(1, 10_000);
    let (disk, searches) = (world.disk(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&searches);
    let hook = Arc::new(move |call: Call| {
        counted.fetch_add(usize::from(call.operation == "find_entries"), SeqCst);
        Fate::Go
    });
    let own = Arc::clone(&disk) as _;
    let store = Arc::new(Faulty::of_own(own, world.time.clone(), hook));
    let publisher = world.queue.handle();
    let mut context = world.context(1, &publisher, Arc::new(|_| Fate::Go));
    context.store = Arc::clone(&store) as _;
    context.underway = Some(store);
    let node = Node::start(context, SECOND);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let made_up = TaskId::new(now, WheelNumber::new(0).unwrap(), 77);
    let spec = Arc::new(callback(now).draft.complete(&Defaults::SERVICE));
    let forged = service.claim("w", vec![claim(made_up, &spec, now)]).await;
    assert!(matches!(forged[..], [ClaimAnswer::Stale]), "{forged:?}");
    let rows = disk.tasks(&[made_up], Freshness::Quorum).await.unwrap();
    assert_eq!(rows, [None]);
    assert!(service.get(made_up, View::Basic).await.unwrap().is_none());
    searches.store(0, SeqCst);
    let worker = world.worker(node.service(), succeeds(SECOND));
    let tasks = register(&service, vec![callback(now); 20]).await;
    world.pass(5 * SECOND).await;
    for task in tasks {
        assert_eq!(world.executions_of(task.id).len(), 1);
    }
    assert_eq!(searches.load(SeqCst), 0, "reads of entries by id");
    worker.abort();
}
