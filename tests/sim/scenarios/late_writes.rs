//! Writes that are late, repeated or outlived do not change the decisions that came meanwhile.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use crate::world::{World, callback, record, register};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::base::{
        api::{NewTask, RescheduleOutcome},
        entries::{entry_writer::EntryWriter, watermarks::Watermarks},
    },
    model::{
        draft::Defaults,
        entry::{DoneReason, Entry, Kind},
        ids::TaskId,
        task::Body,
        time::Millis,
        wheel::WheelNumber,
    },
    store::WheelStore,
};

const SECOND: Duration = Duration::from_secs(1);

/// An entry whose write was answered with an error is written again. Meanwhile another node has marked it as
/// done. The repetition has the write time of the first write, so it does not bring the entry back.
#[tokio::test(start_paused = true)]
async fn a_repeated_write_does_not_undo_what_came_after_the_first() {
    let world = World::new(1, 64);
    let _node = world.node(1);
    world.pass(5 * SECOND).await;
    let due = world.time.now().after(60 * SECOND);
    let id = TaskId::new(due, WheelNumber::new(0).unwrap(), 7);
    let writes = AtomicUsize::new(0);
    let hook = Arc::new(move |call: Call| match call.operation {
        "put_entries" if writes.fetch_add(1, Ordering::SeqCst) == 0 => Fate::LoseReply,
        _ => Fate::Go,
    });
    let context = Arc::new(world.context(2, &world.queue.handle(), hook));
    let spec = Arc::new(callback(due).draft.complete(&Defaults::SERVICE));
    let entry = Entry::look(id, 0, due, None, due, spec, context.time.stamp());
    // The first write is on its way for a second; the mark is made in this time.
    world.pass(SECOND).await;
    let mark = entry.marked_done(DoneReason::Cancelled, world.time.now(), world.time.stamp());
    for written in world.store.put_entries(&[mark]).await {
        written.unwrap();
    }
    world.pass(SECOND).await;
    let placer = EntryWriter::new(Arc::clone(&context), Watermarks::new(Arc::clone(&context)));
    for placed in placer.place(vec![entry]).await {
        placed.unwrap();
    }
    let kinds: Vec<Kind> = world
        .store
        .entries()
        .into_iter()
        .filter_map(|(_, entry)| entry)
        .filter(|entry| entry.key.id == id)
        .map(|entry| entry.kind)
        .collect();
    assert!(
        matches!(kinds[..], [Kind::Done { .. }]),
        "brought back: {kinds:?}"
    );
}

/// A record whose content does not travel in its entry.
fn large_record(start: Millis) -> NewTask {
    let mut task = record(start);
    if let Body::Inline(content) = &mut task.draft.body {
        content.payload = Bytes::from(vec![7; 5000]);
    }
    task
}

/// The mark of a cancel is written, and its answer comes when the slot has long been closed, fired and
/// erased. The content is deleted by then. The record must not be kept and go out without it, so the caller
/// is told that the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn a_cancel_that_took_longer_than_erasing_takes_keeps_no_record_without_content() {
    let mut world = World::new(1, 1000);
    world.settings.erase_delay = 4 * SECOND;
    world.queue.create_topic("users", None);
    let node = world.node(1);
    let slow = Arc::new(AtomicBool::new(false));
    let delays = Arc::clone(&slow);
    let other = world.node_with(
        2,
        Arc::new(move |_, call| match call.operation {
            "put_entries" if delays.swap(false, Ordering::SeqCst) => Fate::AnswerLate(20 * SECOND),
            _ => Fate::Go,
        }),
    );
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let id = register(&node.service(), vec![large_record(start)]).await[0].id;
    world.time.sleep_until_wall(start.before(4 * SECOND)).await;
    slow.store(true, Ordering::SeqCst);
    let told = other.service().cancel(id).await;
    assert!(!slow.load(Ordering::SeqCst), "nothing was written");
    assert!(told.is_err(), "{told:?}");
    world.pass(60 * SECOND).await;
    assert!(world.queue.records("users").is_empty());
    assert!(world.store.all_parked().is_empty());
}

/// A near record whose topic is away is tried again from memory until its durable record takes over; after
/// that both would send it.
#[tokio::test(start_paused = true)]
async fn a_near_record_is_sent_by_memory_or_by_its_durable_record_and_not_by_both() {
    let world = World::new(1, 1000);
    world.queue.create_topic("users", None);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    world.queue.faults().outage(true);
    let start = world.time.now().after(SECOND);
    for _ in 0..10 {
        register(&node.service(), vec![record(start)]).await;
    }
    world.pass(60 * SECOND).await;
    world.queue.faults().outage(false);
    world.pass(120 * SECOND).await;
    assert_eq!(world.queue.records("users").len(), 10);
}

/// A record is moved, and the mark of its old place fails. The caller may be told that it is moved only when
/// the old place is marked; otherwise it goes out at both starts.
#[tokio::test(start_paused = true)]
async fn a_move_whose_mark_fails_is_not_answered_as_done() {
    let mut outcomes = BTreeSet::new();
    for failing_from in 0..4 {
        let world = World::new(1, 1000);
        world.queue.create_topic("users", None);
        let node = world.node(1);
        let (armed, writes) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
        let fails = Arc::clone(&armed);
        let other = world.node_with(
            2,
            Arc::new(move |_, call| {
                let counts = call.operation == "put_entries" && fails.load(Ordering::SeqCst);
                match counts && writes.fetch_add(1, Ordering::SeqCst) >= failing_from {
                    true => Fate::Fail,
                    false => Fate::Go,
                }
            }),
        );
        world.pass(5 * SECOND).await;
        let start = world.time.now().after(20 * SECOND);
        let id = register(&node.service(), vec![record(start)]).await[0].id;
        world.pass(SECOND).await;
        armed.store(true, Ordering::SeqCst);
        let later = start.after(30 * SECOND);
        let told = other.service().reschedule(id, later, None).await;
        armed.store(false, Ordering::SeqCst);
        world.pass(120 * SECOND).await;
        let out: Vec<Millis> = world
            .queue
            .records("users")
            .iter()
            .map(|one| one.at)
            .collect();
        let moved = matches!(told, Ok(Some((RescheduleOutcome::Rescheduled, _))));
        if moved {
            assert_eq!(out.len(), 1, "{failing_from}: {out:?}");
            assert!(out[0] >= later, "{failing_from}: {out:?}");
        }
        assert!(!out.is_empty(), "{failing_from}: lost");
        outcomes.insert(moved);
    }
    // Both outcomes occur: a move that fails on its way, and a complete one.
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
}
