//! A run that was decided on before an outage is decided on again when it would go out late: none is doubled, lost or uncounted,
//! whatever the node that comes back dies at.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::records::callbacks::GateChange,
        stages::{schedules::desk::Changed, service::Service},
    },
    model::{
        gate::GateState,
        ids::TaskId,
        schedule::life::{Missed, Overlap, Schedule, ScheduleSpec, State},
        time::Millis,
    },
};

use super::schedules::{NAME, put, spec};
use crate::world::{Simulated, World, record, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const EVERY: Duration = Duration::from_secs(20);
const LIMIT: u64 = 9;

/// The node is away from the 70th second to the 145th. Others may be handed over in time, or are passed with one of these.
const MISSED: [u64; 2] = [80, 100];

pub(super) async fn read(service: &Service) -> Schedule {
    service.schedules().get(NAME).await.unwrap().unwrap()
}

pub(super) async fn created(service: &Service, spec: ScheduleSpec) -> Millis {
    let Changed::Created(outcome) = put(service, spec).await else {
        panic!("it is new");
    };
    outcome.schedule.created
}

/// A node that dies at its n-th write.
pub(super) fn dying(world: &World, nth: usize, fate: fn() -> Fate) -> Simulated {
    let seen = AtomicUsize::new(0);
    let fates = move |_, call: Call| {
        if call.writes && seen.fetch_add(1, SeqCst) == nth {
            fate()
        } else {
            Fate::Go
        }
    };
    world.node_with(2, Arc::new(fates))
}

/// The times of the runs that began, in seconds since the schedule was created, and how many tasks each of them has.
pub(super) fn begun(world: &World, created: Millis) -> BTreeMap<u64, usize> {
    let executions = world.executions.lock().unwrap();
    let tasks: BTreeSet<TaskId> = executions.iter().map(|one| one.id).collect();
    let mut begun = BTreeMap::new();
    for task in tasks {
        let time = task.first_start().since(created).as_secs();
        *begun.entry(time).or_default() += 1;
    }
    begun
}

/// Tells the damage where the only node is away for a while, and the one that comes then dies at its n-th write. The third one
/// comes so much later.
fn outage(
    (missed, overlap): (Missed, Overlap),
    nth: usize,
    fate: fn() -> Fate,
    later: Duration,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(async {
        let world = World::new(2, 1000);
        let node = world.node(1);
        let worker = world.worker(node.service(), succeeds(SECOND / 10));
        world.pass(SECOND * 3).await;
        let spec = ScheduleSpec {
            missed,
            overlap,
            limit: Some(LIMIT),
            ..spec(&world)
        };
        let created = created(&node.service(), spec).await;
        world.pass(SECOND * 70).await;
        node.crash();
        worker.abort();
        world.pass(SECOND * 75).await;
        let second = dying(&world, nth, fate);
        let worker = world.worker(second.service(), succeeds(SECOND / 10));
        world.pass(SECOND * 20).await;
        second.crash();
        worker.abort();
        world.pass(later).await;
        let third = world.node(3);
        let worker = world.worker(third.service(), succeeds(SECOND / 10));
        world.pass(MINUTE * 5).await;
        let schedule = read(&third.service()).await;
        worker.abort();
        world.check();
        // A look that the second node wrote just before its death says that its run went out, so one may be late.
        let missed: &[u64] = if later.is_zero() { &MISSED } else { &[] };
        told(&world, created, &schedule, missed)
    })
}

/// Each time up to the last run ran once, or was counted; those that were surely missed did not run.
fn told(world: &World, created: Millis, schedule: &Schedule, missed: &[u64]) -> Result<(), String> {
    let begun = begun(world, created);
    let mut wrong = Vec::new();
    if begun.values().any(|times| *times != 1) {
        wrong.push("a time has two runs".to_owned());
    }
    let times = begun.keys().last().map_or(0, |last| last / EVERY.as_secs());
    let counted = begun.len() as u64 + schedule.missed + schedule.skipped;
    if counted != times {
        wrong.push(format!("{counted} of {times} times are counted"));
    }
    if begun.len() as u64 != LIMIT || schedule.state != State::Ended {
        wrong.push(format!(
            "{} of {LIMIT} runs: {:?}",
            begun.len(),
            schedule.state
        ));
    }
    if schedule.missed == 0 {
        wrong.push("nothing was missed".to_owned());
    }
    if let Some(late) = missed.iter().find(|time| begun.contains_key(time)) {
        wrong.push(format!("run {late} was late"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let (missed, skipped) = (schedule.missed, schedule.skipped);
    wrong.push(format!("{begun:?}, {missed} missed, {skipped} skipped"));
    Err(wrong.join("; "))
}

const POLICIES: [(Missed, Overlap); 3] = [
    (Missed::Skip, Overlap::Allow),
    (Missed::Latest, Overlap::Allow),
    (Missed::Skip, Overlap::Skip),
];

#[test]
fn runs_that_were_missed_are_counted_whatever_write_their_node_dies_at() {
    for nth in 0..24 {
        for fate in [|| Fate::StopBefore, || Fate::StopAfter] {
            for policy in POLICIES {
                assert_eq!(
                    outage(policy, nth, fate, Duration::ZERO),
                    Ok(()),
                    "{policy:?} {nth} {:?}",
                    fate()
                );
            }
        }
    }
}

/// The wheel of a run that was decided on and not entered is behind when the third node looks for it.
#[test]
fn runs_that_were_not_entered_are_not_lost_over_a_second_outage() {
    for nth in 0..24 {
        for fate in [|| Fate::StopBefore, || Fate::StopAfter] {
            for policy in [POLICIES[0], POLICIES[2]] {
                assert_eq!(
                    outage(policy, nth, fate, MINUTE),
                    Ok(()),
                    "{policy:?} {nth} {:?}",
                    fate()
                );
            }
        }
    }
}

#[test]
fn a_run_that_is_withdrawn_before_it_is_void_would_be_found() {
    flaw::switch(Some(Flaw::WithdrawnBeforeMarked));
    let found =
        (0..24).find_map(|nth| outage(POLICIES[0], nth, || Fate::StopBefore, Duration::ZERO).err());
    flaw::switch(None);
    let found = found.expect("a crash in between");
    assert!(found.contains("times are counted"), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_over_hours_lets_one_run_go() {
    let world = World::new(4, 10_000);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    world.pass(SECOND * 3).await;
    let latest = ScheduleSpec {
        every: Some(SECOND),
        missed: Missed::Latest,
        ..spec(&world)
    };
    let created = created(&node.service(), latest).await;
    world.pass(SECOND * 30).await;
    for time in [&world.time, &node.time] {
        time.set_wall_error_ms(2 * 3_600_000);
    }
    world.pass(SECOND * 60).await;
    let leapt = created.after(SECOND * (7200 + 28));
    let executions = world.executions.lock().unwrap().clone();
    let behind = executions.iter().filter(|one| one.began >= leapt);
    let late = behind.filter(|one| one.began.since(one.id.first_start()) > SECOND * 2);
    assert!(late.count() <= 1, "{:?}", begun(&world, created));
    let schedule = read(&node.service()).await;
    let times = world.time.now().since(created).as_secs();
    let counted = begun(&world, created).len() as u64 + schedule.missed;
    assert!(counted.abs_diff(times) <= 2, "{counted} of {times} times");
    assert!(schedule.missed > 7100, "{}", schedule.missed);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_went_out_in_time_waits_for_its_worker_over_an_outage() {
    let world = World::new(2, 10_000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let skip = ScheduleSpec {
        every: Some(MINUTE * 10),
        missed: Missed::Skip,
        ..spec(&world)
    };
    let created = created(&node.service(), skip).await;
    world.pass(MINUTE * 11).await;
    node.crash();
    world.pass(MINUTE * 5).await;
    let second = world.node(2);
    world.pass(MINUTE).await;
    let worker = world.worker(second.service(), succeeds(SECOND / 10));
    world.pass(MINUTE * 4).await;
    assert_eq!(
        begun(&world, created).into_iter().collect::<Vec<_>>(),
        [(600, 1), (1200, 1)]
    );
    assert_eq!(read(&second.service()).await.missed, 0);
    world.check();
    worker.abort();
}

async fn set_gate(service: &Service, state: GateState) {
    let change = GateChange {
        collection: String::new(),
        state,
        reason: "a test".to_owned(),
        until: None,
        who: String::new(),
    };
    service.callbacks().set_gate("work", &change).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_opens_lets_the_runs_go_that_it_has_held() {
    let world = World::new(2, 10_000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let skip = ScheduleSpec {
        every: Some(MINUTE),
        missed: Missed::Skip,
        ..spec(&world)
    };
    let service = node.service();
    let created = created(&service, skip).await;
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    set_gate(&service, GateState::Paused).await;
    world.pass(MINUTE * 3 - SECOND * 5).await;
    assert_eq!(begun(&world, created), BTreeMap::new());
    set_gate(&service, GateState::Open).await;
    world.pass(SECOND * 30).await;
    assert_eq!(
        begun(&world, created).into_iter().collect::<Vec<_>>(),
        [(60, 1), (120, 1), (180, 1)]
    );
    assert_eq!(read(&service).await.missed, 0);
    worker.abort();
}

/// A record is published once, also where the next look at its schedule comes long after it.
#[tokio::test(start_paused = true)]
async fn records_of_a_slow_schedule_are_published_once() {
    let world = World::new(2, 10_000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let records = ScheduleSpec {
        every: Some(MINUTE * 10),
        task: record(world.time.now()).draft,
        ..spec(&world)
    };
    world.queue.create_topic("users", None);
    let created = created(&node.service(), records).await;
    world.pass(MINUTE * 45).await;
    let published = world.queue.records("users");
    let published: Vec<u64> = published
        .iter()
        .map(|one| one.at.since(created).as_secs())
        .collect();
    assert_eq!(published, [600, 1200, 1800, 2400]);
}
