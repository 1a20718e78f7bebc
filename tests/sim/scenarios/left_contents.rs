//! A content that is kept apart stays in the store until its task is claimed, where messages do not leave the process.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    doubles::store::faulty::{Call, Fate, Hook},
    flow::{
        base::{
            api::{ClaimedTask, NewTask, VisibleState},
            budget::Budget,
        },
        stages::{node::Node, poll::PollRequest, service::Service},
    },
    model::{
        ids::TaskId,
        preference::mix,
        task::{Body, Content, Priority},
        time::Millis,
    },
    queue::message,
    store::WheelStore as _,
};

use crate::world::{World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
const BYTES: usize = 300_000;

fn large(start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.body = Body::Inline(Content {
        payload: Bytes::from(vec![7; BYTES]),
        ..Content::default()
    });
    task
}

async fn poll(service: &Arc<Service>, max: usize) -> Vec<ClaimedTask> {
    let polled = service.poll(PollRequest {
        worker: "worker".to_owned(),
        callbacks: vec!["work".to_owned()],
        max,
        wait: SECOND,
        version: None,
    });
    polled.await.unwrap().accept()
}

/// How many bytes the messages of the callback have, each.
fn messages(world: &World) -> Vec<usize> {
    let records = world
        .queue
        .records(&message::topic("work", Priority::Normal));
    records.iter().map(|one| one.record.value.len()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_poll_has_the_content_that_its_message_went_without() {
    let world = World::new(1, 1000).in_one_process();
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    register(&service, vec![large(world.time.now().after(SECOND))]).await;
    world.pass(2 * SECOND).await;
    assert!(
        matches!(messages(&world)[..], [bytes] if bytes < 2000),
        "{:?}",
        messages(&world)
    );
    let tasks = poll(&service, 10).await;
    let payloads = tasks
        .iter()
        .map(|task| task.content.as_ref().unwrap().payload.len());
    assert_eq!(payloads.collect::<Vec<_>>(), [BYTES]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_leaves_the_process_has_its_content() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    register(&node.service(), vec![large(world.time.now().after(SECOND))]).await;
    world.pass(2 * SECOND).await;
    assert!(matches!(messages(&world)[..], [bytes] if bytes > BYTES));
}

/// An answer has eight megabytes at most, however small the messages are.
#[tokio::test(start_paused = true)]
async fn a_poll_is_given_no_more_than_its_answer_may_hold() {
    let world = World::new(1, 1000).in_one_process();
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(SECOND);
    register(&service, vec![large(start); 60]).await;
    world.pass(2 * SECOND).await;
    let (mut rounds, mut given) = (0, 0);
    while given < 60 {
        let tasks = poll(&service, 60).await;
        assert!(
            tasks.len() * BYTES <= tickwheel::limits::POLL_BYTES_MAX,
            "{}",
            tasks.len()
        );
        given += tasks.len();
        rounds += 1;
        assert!(rounds < 20, "{given} in {rounds} polls");
    }
    assert!(rounds > 1);
}

/// Polls that come together read no more contents at once than the node may hold.
#[tokio::test(start_paused = true)]
async fn contents_of_many_polls_have_one_budget() {
    let world = World::new(1, 1000).in_one_process();
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (reads, at_once, time) = (Arc::clone(&open), Arc::clone(&most), world.time.clone());
    let hook: Hook = Arc::new(move |call: Call| {
        if call.operation != "bodies" {
            return Fate::Go;
        }
        at_once.fetch_max(reads.fetch_add(1, SeqCst) + 1, SeqCst);
        let (reads, time) = (Arc::clone(&reads), time.clone());
        tokio::spawn(async move {
            time.sleep(SECOND / 2).await;
            reads.fetch_sub(1, SeqCst);
        });
        Fate::Delay(SECOND / 2)
    });
    let publisher = world.queue.handle();
    let mut context = world.context(1, &publisher, hook);
    // Three quarters of it are for contents on their way to a worker: three of them.
    context.contents = Budget::new(4 * BYTES as u64);
    let node = Node::start(context, SECOND);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(SECOND);
    register(&service, vec![large(start); 12]).await;
    world.pass(2 * SECOND).await;
    let polls = (0..12).map(|_| async {
        let mut given = 0;
        while given == 0 {
            given = poll(&service, 1).await.len();
        }
        given
    });
    let given: usize = futures_util::future::join_all(polls)
        .await
        .into_iter()
        .sum();
    assert_eq!((given, most.load(SeqCst)), (12, 3));
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_content_is_gone_is_not_handed_out() {
    let world = World::new(1, 1000).in_one_process();
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(SECOND);
    let tasks = register(&service, vec![large(start), callback(start)]).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    let written = world.time.stamp();
    world.store.delete_bodies(&ids[..1], written).await.unwrap();
    world.pass(2 * SECOND).await;
    let handed: Vec<TaskId> = poll(&service, 10)
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    assert_eq!(handed, ids[1..], "the other one of the poll is");
    let state = world.end_of(&service, ids[0], SECOND).await;
    assert_eq!(state, VisibleState::Enqueued, "no attempt was spent");
}

/// The files in which contents lie on disk.
fn content_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            content_files(&path, found);
        } else if folder.ends_with("blobs") {
            found.push(path);
        }
    }
}

#[tokio::test(start_paused = true)]
#[expect(
    clippy::disallowed_methods,
    reason = "the database writes in real time, and virtual time stands still meanwhile"
)]
async fn a_content_that_is_damaged_on_disk_keeps_no_other_task_from_a_poll() {
    const TASKS: usize = 70;
    let world = World::on_disk(1, 64).in_one_process();
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(20 * SECOND);
    let noise = |n: u64| {
        let bytes = (0..BYTES as u64 / 8).flat_map(|at| mix(mix(n) ^ at).to_le_bytes());
        let mut task = large(start);
        task.draft.body = Body::Inline(Content {
            payload: bytes.collect::<Vec<u8>>().into(),
            ..Content::default()
        });
        task
    };
    let tasks = register(&service, (0..TASKS as u64).map(noise).collect()).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    // A buffer of 16 MiB is written out by a thread of the database, in real time.
    let (mut bytes, mut first) = (Vec::new(), PathBuf::new());
    for _ in 0..400 {
        let mut files = Vec::new();
        content_files(world.directory(), &mut files);
        first = files.into_iter().min().unwrap_or_default();
        bytes = fs::read(&first).unwrap_or_default();
        if bytes.len() > 15 << 20 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(bytes.len() > 15 << 20, "contents lie in files of their own");
    // In place: the database may not have written the last of its contents yet.
    let file = fs::OpenOptions::new().write(true).open(&first).unwrap();
    let at = BYTES / 2;
    file.write_all_at(&[bytes[at] ^ 0xff], at as u64).unwrap();
    // Until the database has taken the file for its own, it reads what it still has in memory.
    for _ in 0..400 {
        if world.disk().bodies(&ids).await.is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    world.pass(21 * SECOND).await;
    let mut given = 0;
    for _ in 0..10 {
        given += poll(&service, TASKS).await.len();
    }
    assert_eq!(given, TASKS - 1);
}
