//! A job over a filter reaches all of its tasks and no other, each once, whatever its leading node dies at.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::api::{View, VisibleState},
        stages::{jobs::desk::Registered, service::Service},
    },
    model::{
        ids::TaskId,
        job::{Job, JobFilter, JobKind, JobState, KEPT},
        state::Outcome,
    },
    store::index::IndexKind,
};
use uuid::Uuid;

use crate::world::{Behaviour, Simulated, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
const AHEAD: Duration = Duration::from_secs(600);
const MATCHING: usize = 30;
const OTHERS: usize = 10;

/// A node that dies at its n-th write from the moment it is armed.
fn dying(world: &World, nth: usize, fate: fn() -> Fate) -> (Simulated, Arc<AtomicBool>) {
    let (armed, seen) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let watched = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        let counts = call.writes && watched.load(SeqCst);
        if counts && seen.fetch_add(1, SeqCst) == nth {
            fate()
        } else {
            Fate::Go
        }
    };
    (world.node_with(1, Arc::new(fates)), armed)
}

/// Ten tasks a second, so that there are three pages.
fn job(world: &World, kind: JobKind) -> Job {
    let filter = JobFilter {
        callback: Some("work".to_owned()),
        collection: Some("bulk".to_owned()),
        to: (!kind.is_of_ended()).then(|| world.time.now().after(AHEAD * 2)),
        ..JobFilter::default()
    };
    Job {
        rate_milli: Some(10_000),
        request: Some(1),
        start: match kind {
            JobKind::Reschedule => Some(world.time.now().after(AHEAD * 5)),
            JobKind::Run => Some(world.time.now()),
            _ => None,
        },
        ..Job::new(kind, filter, world.time.now())
    }
}

/// Registers a job with a key; once more at another node when the first dies at it.
async fn registered(world: &World, nodes: [&Service; 2], job: &Job) -> Uuid {
    for service in nodes {
        // A node that dies never answers.
        let asked = service.jobs().register(Some(7), job.clone());
        match world.time.within(SECOND * 2, asked).await {
            Some(Ok(Registered::Created(id, _) | Registered::Again(id, _))) => return id,
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(_)) | None => {}
        }
    }
    panic!("both nodes failed");
}

async fn ended(world: &World, service: &Service, id: Uuid, limit: Duration) -> Job {
    let end = world.time.now().after(limit);
    loop {
        let job = service.jobs().get(id).await.unwrap().unwrap();
        if job.state.has_ended() || world.time.now() >= end {
            return job;
        }
        world.pass(SECOND / 2).await;
    }
}

/// Registers tasks that match, and others; returns their ids.
async fn tasks(world: &World, service: &Service) -> (Vec<TaskId>, Vec<TaskId>) {
    let start = |number: usize| world.time.now().after(AHEAD + SECOND * number as u32);
    let of = |collection: &str, count: usize| {
        let collection = collection.to_owned();
        let tasks = (0..count).map(move |number| {
            let mut task = callback(start(number));
            task.draft.collection = Some(collection.clone());
            task
        });
        tasks.collect::<Vec<_>>()
    };
    let matching = register(service, of("bulk", MATCHING)).await;
    let others = register(service, of("other", OTHERS)).await;
    let ids = |views: Vec<tickwheel::flow::base::api::TaskView>| {
        views.iter().map(|view| view.id).collect()
    };
    (ids(matching), ids(others))
}

/// Makes tasks dead by a worker whose attempts all fail.
async fn kill(world: &World, service: &Arc<Service>, ids: &[TaskId]) {
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route".to_owned();
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    let worker = world.worker(Arc::clone(service), fails);
    for id in ids {
        service.run(*id, None).await.unwrap();
    }
    for id in ids {
        let end = world.end_of(service, *id, SECOND * 600).await;
        assert_eq!(end, VisibleState::Dead);
    }
    world.pass(SECOND * 10).await;
    worker.abort();
}

/// Runs a world in a runtime of its own, so that its nodes end with it.
fn crashed(kind: JobKind, nth: usize, fate: fn() -> Fate) -> Result<(), String> {
    crashed_by(kind, false, nth, fate)
}

/// The same; the tasks are found by rows, if that is said.
fn crashed_by(kind: JobKind, by_rows: bool, nth: usize, fate: fn() -> Fate) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(crash((kind, by_rows), nth, fate))
}

/// Tells the damage after a job whose first leader died at its n-th write.
async fn crash(
    (kind, by_rows): (JobKind, bool),
    nth: usize,
    fate: fn() -> Fate,
) -> Result<(), String> {
    let world = World::new(2, 1000);
    let (leader, armed) = dying(&world, nth, fate);
    let other = world.node(2);
    world.pass(SECOND * 3).await;
    let service = other.service();
    let (matching, others) = tasks(&world, &service).await;
    if kind.is_of_ended() {
        let all: Vec<TaskId> = matching.iter().chain(&others).copied().collect();
        kill(&world, &service, &all).await;
    }
    let job = Job {
        by_rows,
        ..job(&world, kind)
    };
    let start = job.start;
    armed.store(true, SeqCst);
    // The node that is asked begins at once. Its own last write may be the one that it dies at.
    let id = registered(&world, [&leader.service(), &service], &job).await;
    let job = ended(&world, &service, id, SECOND * 120).await;
    let mut wrong = Vec::new();
    if job.state != JobState::Completed || job.counts.done != MATCHING as u64 {
        wrong.push(format!("{:?} {:?} {:?}", job.state, job.counts, job.error));
    }
    for id in &matching {
        let view = service.get(*id, View::Basic).await.unwrap();
        let fits = view.as_ref().map(|view| match kind {
            JobKind::Cancel => view.state == VisibleState::Cancelled,
            JobKind::Reschedule => Some(view.start) == start && view.generation == 1,
            // No worker asks for them, so they wait for one.
            JobKind::Run => view.start < world.time.now() && view.generation == 1,
            JobKind::Redrive => view.state != VisibleState::Dead && view.generation == 2,
            JobKind::Delete | JobKind::Backfill | JobKind::Reopen => false,
        });
        if fits != Some(true) && !(kind == JobKind::Delete && fits.is_none()) {
            wrong.push(format!(
                "{id}: {:?}",
                view.map(|view| (view.state, view.start, view.generation))
            ));
        }
    }
    for id in &others {
        let view = service.get(*id, View::Basic).await.unwrap();
        let state = if kind.is_of_ended() {
            VisibleState::Dead
        } else {
            VisibleState::Scheduled
        };
        if view.as_ref().map(|view| view.state) != Some(state) {
            wrong.push(format!(
                "{id} is another's: {:?}",
                view.map(|view| view.state)
            ));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

fn survives(kind: JobKind) {
    for nth in 0..60 {
        let fate = if nth % 2 == 0 {
            || Fate::StopBefore
        } else {
            || Fate::StopAfter
        };
        let result = crashed(kind, nth, fate);
        assert_eq!(result, Ok(()), "{kind:?} {nth} {:?}", fate());
    }
}

#[test]
fn a_cancel_over_a_filter_survives_its_leader_at_every_write() {
    survives(JobKind::Cancel);
}

#[test]
fn a_reschedule_over_a_filter_survives_its_leader_at_every_write() {
    survives(JobKind::Reschedule);
}

#[test]
fn a_redrive_over_a_filter_survives_its_leader_at_some_writes() {
    for nth in [1, 4, 9] {
        let result = crashed(JobKind::Redrive, nth, || Fate::StopAfter);
        assert_eq!(result, Ok(()), "{nth}");
    }
}

#[test]
fn a_delete_over_a_filter_survives_its_leader_at_some_writes() {
    for nth in [1, 4, 9] {
        let result = crashed(JobKind::Delete, nth, || Fate::StopBefore);
        assert_eq!(result, Ok(()), "{nth}");
    }
}

#[test]
fn a_delete_of_ended_tasks_survives_its_leader_at_some_writes() {
    for nth in [0, 2, 3, 5, 8] {
        let result = crashed_by(JobKind::Delete, true, nth, || Fate::StopBefore);
        assert_eq!(result, Ok(()), "{nth}");
    }
}

/// A key that comes again when the job of its first request is forgotten names a new job, which runs, too.
#[tokio::test(start_paused = true)]
async fn a_job_whose_key_comes_again_after_days_is_led() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let service = node.service();
    let first = registered(&world, [&service, &service], &job(&world, JobKind::Cancel)).await;
    let end = ended(&world, &service, first, SECOND * 60).await;
    assert_eq!(end.state, JobState::Completed);
    world.pass(SECOND * 3).await;
    // One machine has one clock.
    let days_ms = i64::try_from((KEPT + AHEAD).as_millis()).unwrap();
    world.time.set_wall_error_ms(days_ms);
    node.time.set_wall_error_ms(days_ms);
    let again = Job {
        request: Some(2),
        ..job(&world, JobKind::Cancel)
    };
    let second = registered(&world, [&service, &service], &again).await;
    assert_eq!(second, first);
    let end = ended(&world, &service, second, SECOND * 60).await;
    assert_eq!(end.state, JobState::Completed);
}

/// The scenarios above see a page that counts as done before its tasks are changed.
#[test]
fn a_page_that_is_left_before_its_work_is_found() {
    flaw::switch(Some(Flaw::JobPageLeftFirst));
    let mut found = 0;
    for nth in 0..8 {
        let result = crashed(JobKind::Cancel, nth, || Fate::StopBefore);
        found += usize::from(result.is_err());
    }
    flaw::switch(None);
    assert!(found > 0, "no crash lost a task");
}

/// Nothing can be said about the other job, and its place in the list is the first.
#[tokio::test(start_paused = true)]
async fn a_job_that_panics_keeps_no_other_from_its_turn() {
    let world = World::new(1, 1000);
    let panics = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&panics);
    let fates = move |_, call: Call| {
        if call.index == Some(IndexKind::Dead) && !call.writes {
            counts.fetch_add(1, SeqCst);
            panic!("a panic that the test asked for");
        }
        Fate::Go
    };
    let node = world.node_with(1, Arc::new(fates));
    let service = node.service();
    world.pass(SECOND * 3).await;
    let (matching, _) = tasks(&world, &service).await;
    let mut ids = Vec::new();
    for (number, kind) in [JobKind::Redrive, JobKind::Cancel].into_iter().enumerate() {
        let asked = service
            .jobs()
            .register(Some(number as u128), job(&world, kind));
        let Registered::Created(id, _) = asked.await.unwrap() else {
            panic!("it is there");
        };
        ids.push(id);
    }
    let cancel = ended(&world, &service, ids[1], SECOND * 60).await;
    assert!(panics.load(SeqCst) > 1, "the other did not panic");
    assert_eq!(cancel.state, JobState::Completed, "{cancel:?}");
    assert_eq!(cancel.counts.done, matching.len() as u64);
    let other = service.jobs().get(ids[0]).await.unwrap().unwrap();
    assert!(!other.state.has_ended(), "it is tried again and again");
}
