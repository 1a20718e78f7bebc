//! A row that a node cannot understand costs only its own task, and rows of a later version are
//! left to that version.

use std::time::Duration;

use tickwheel::{
    flow::{
        base::api::{
            CancelOutcome, ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest,
            SettleAnswer, SettleRequest, VisibleState,
        },
        stages::{query::filter::Filter, service::Service},
    },
    limits,
    model::{
        entry::{Key, KeyCode},
        ids::TaskId,
        state::Outcome,
        task::{Body, Content},
        wheel::WheelNumber,
    },
    store::{TaskStore, WheelStore},
};

use crate::world::{World, callback, published, record, register};

const SECOND: Duration = Duration::from_secs(1);

const fn claim(id: TaskId, expected_attempt: u32) -> ClaimRequest {
    ClaimRequest {
        id,
        generation: 0,
        expected_attempt,
        spec: None,
        published: None,
        with_content: false,
        admitted: false,
    }
}

/// Looks of one slot, and claims of one request, are read together.
#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_understood_costs_its_task_alone() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(5 * SECOND);
    let tasks = register(&service, (0..20).map(|_| callback(start)).collect()).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    world.pass(6 * SECOND).await;
    let first = service.claim("a", ids.iter().map(|id| claim(*id, 0)).collect());
    for answer in first.await {
        assert!(matches!(answer, ClaimAnswer::Claimed(_)), "{answer:?}");
    }
    let bad = ids[7];
    world.store.spoil_row(bad);
    // All attempts are taken for dead after their heartbeat timeout, and all tasks but that one
    // are published again.
    world.pass(30 * SECOND).await;
    for id in &ids {
        let times = published(&world, *id).len();
        assert_eq!(times > 1, *id != bad, "{times} times");
    }
    let parked = world.store.all_parked();
    let set_aside: Vec<TaskId> = parked.iter().map(|parked| parked.key.id).collect();
    assert_eq!(set_aside, [bad]);
    let again = service.claim("b", ids.iter().map(|id| claim(*id, 1)).collect());
    for (id, answer) in ids.iter().zip(again.await) {
        let claimed = matches!(answer, ClaimAnswer::Claimed(_));
        assert_eq!(claimed, *id != bad, "{answer:?}");
    }
}

/// Reports, heartbeats and cancels of one request are read together, at a node that knows none of their rows.
#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_fails_its_own_item_of_a_request() {
    let world = World::new(1, 1000);
    let (one, other) = (world.node(1), world.node(2));
    world.pass(3 * SECOND).await;
    let start = world.time.now();
    let tasks = register(&one.service(), (0..12).map(|_| callback(start)).collect()).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    world.pass(SECOND).await;
    let claims = ids.iter().map(|id| claim(*id, 0)).collect();
    for answer in one.service().claim("a", claims).await {
        assert!(matches!(answer, ClaimAnswer::Claimed(_)), "{answer:?}");
    }
    let (spoiled, away) = (ids[3], ids[8]);
    world.store.spoil_row(spoiled);
    world.store.cut_off_row(away, true);
    let is_bad = |id: TaskId| id == spoiled || id == away;
    let service = other.service();
    let beats = ids.iter().map(|id| HeartbeatRequest {
        id: *id,
        attempt: 1,
        progress: None,
    });
    let answers = service.heartbeat("a", beats.collect()).await;
    for (id, answer) in ids.iter().zip(answers) {
        let failed = matches!(answer, HeartbeatAnswer::Fault(_));
        assert_eq!(failed, is_bad(*id), "{answer:?}");
    }
    let answers = service.cancel_all(&ids).await;
    for (id, answer) in ids.iter().zip(answers) {
        match answer {
            Ok(Some((CancelOutcome::CancelRequested, _))) => assert!(!is_bad(*id)),
            Err(_) => assert!(is_bad(*id), "{answer:?}"),
            answer => panic!("{answer:?}"),
        }
    }
    let settles = ids.iter().map(|id| SettleRequest {
        id: *id,
        attempt: 1,
        outcome: Outcome::Succeeded { result: None },
        answered: None,
    });
    let answers = service.settle("a", settles.collect()).await;
    for (id, answer) in ids.iter().zip(answers) {
        match answer {
            SettleAnswer::Ok => assert!(!is_bad(*id)),
            SettleAnswer::Fault(_) => assert!(is_bad(*id), "{answer:?}"),
            SettleAnswer::Lost(_) => panic!("{answer:?}"),
        }
    }
    world.store.cut_off_row(away, false);
    let late = SettleRequest {
        id: away,
        attempt: 1,
        outcome: Outcome::Succeeded { result: None },
        answered: None,
    };
    let answer = service.settle("a", vec![late]).await.remove(0);
    assert!(matches!(answer, SettleAnswer::Ok), "{answer:?}");
}

/// The row decides between a cancel and the firing; the mark is erased some time after it.
#[tokio::test(start_paused = true)]
async fn a_cancelled_record_whose_row_cannot_be_understood_keeps_its_content_and_stops_no_eraser() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let (mut bad, mut good) = (record(start), record(start));
    for task in [&mut bad, &mut good] {
        task.draft.body = Body::Inline(Content {
            payload: vec![7; 2000].into(),
            ..Content::default()
        });
    }
    let tasks = register(&service, vec![bad, good]).await;
    let (bad, good) = (tasks[0].id, tasks[1].id);
    for answer in service.cancel_all(&[bad, good]).await {
        assert!(
            matches!(answer, Ok(Some((CancelOutcome::Cancelled, _)))),
            "{answer:?}"
        );
    }
    world.store.spoil_row(bad);
    let later = register(&service, vec![callback(start.after(5 * SECOND))]).await;
    world.pass(90 * SECOND).await;
    let left = world.store.entries();
    let is_left = |id: TaskId| left.iter().any(|(key, _)| key.id == id && key.due <= start);
    assert!(!is_left(good) && !is_left(bad), "they are erased");
    assert!(!published(&world, later[0].id).is_empty());
    let contents = world.store.bodies(&[bad, good]).await.unwrap();
    assert!(
        contents[0].is_some() && contents[1].is_none(),
        "{contents:?}"
    );
    let parked = world.store.all_parked();
    let set_aside: Vec<TaskId> = parked.iter().map(|parked| parked.key.id).collect();
    assert_eq!(set_aside, [bad]);
}

/// In a rolling upgrade an older node may read a row of a newer one. A parked row would be lost to it.
#[tokio::test(start_paused = true)]
async fn a_wheel_stops_before_an_entry_of_a_later_version() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(20 * SECOND);
    let newer = TaskId::new(start, WheelNumber::new(0).unwrap(), 0);
    let key = Key {
        due: start,
        id: newer,
        generation: 0,
        code: KeyCode::due(0),
    };
    world.store.put_newer(key, 1);
    let before = register(&node.service(), vec![callback(start.before(10 * SECOND))]).await[0].id;
    world.pass(60 * SECOND).await;
    assert!(
        !published(&world, before).is_empty(),
        "what is due before goes out"
    );
    assert_eq!(world.store.all_parked(), []);
    let left = world.store.entries();
    assert!(left.iter().any(|(left, _)| *left == key), "it is kept");
}

/// The heartbeat of a worker that sends one every other day, as its timeout of a week allows.
#[tokio::test(start_paused = true)]
async fn a_sign_of_life_outlives_the_timeout_that_it_serves() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let week = Duration::from_secs(7 * 24 * 3600);
    let mut task = callback(world.time.now());
    task.draft.heartbeat_timeout = Some(week);
    let id = register(&service, vec![task]).await[0].id;
    world.pass(SECOND).await;
    let answer = service.claim("a", vec![claim(id, 0)]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Claimed(_)), "{answer:?}");
    let beat = vec![HeartbeatRequest {
        id,
        attempt: 1,
        progress: None,
    }];
    let answer = service.heartbeat("a", beat).await.remove(0);
    assert!(matches!(answer, HeartbeatAnswer::Ok), "{answer:?}");
    let at = world.time.now();
    node.crash();
    // No node runs meanwhile, since a week of ticks takes a test long.
    world
        .time
        .set_wall_error_ms(i64::try_from(week.as_millis()).unwrap());
    let beats = world.store.heartbeats(&[(id, 1)]).await.unwrap();
    let beat = beats[0]
        .as_ref()
        .expect("it is kept for as long as a look may need it");
    assert!(at.since(beat.at) < SECOND);
    assert!(week > limits::HEARTBEAT_KEPT_MIN);
}

/// All tasks of a list, with their states.
async fn listed(service: &Service, filter: &Filter) -> Vec<(TaskId, VisibleState)> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = service.list(filter, cursor, 100).await.unwrap();
        all.extend(page.tasks.iter().map(|task| (task.id, task.state)));
        cursor = page.next;
        if cursor.is_none() {
            all.sort_unstable_by_key(|(id, _)| *id);
            return all;
        }
    }
}

/// Lists of tasks that run, of those that have ended, and of those that ended with an error.
#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_understood_is_left_out_of_lists_and_the_others_are_shown() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now();
    let tasks = register(&service, (0..9).map(|_| callback(start)).collect()).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    world.pass(SECOND).await;
    service
        .claim("a", ids.iter().map(|id| claim(*id, 0)).collect())
        .await;
    let of_callback = Filter {
        callback: Some("work".to_owned()),
        ..Filter::default()
    };
    world.store.spoil_row(ids[2]);
    world.store.spoil_heartbeat(ids[3], 1);
    let running = listed(&service, &of_callback).await;
    let shown: Vec<TaskId> = running.iter().map(|(id, _)| *id).collect();
    let mut wanted = ids.clone();
    wanted.remove(2);
    wanted.sort_unstable();
    assert_eq!(shown, wanted);
    let failed = |id: &TaskId| SettleRequest {
        id: *id,
        attempt: 1,
        outcome: Outcome::Failed {
            error: "no route".to_owned(),
        },
        answered: None,
    };
    service
        .settle("a", wanted.iter().map(failed).collect())
        .await;
    world.pass(SECOND).await;
    world.store.spoil_row(wanted.remove(5));
    for filter in [
        of_callback.clone(),
        Filter {
            state: Some(VisibleState::Failed),
            ..of_callback.clone()
        },
        Filter {
            error: Some("no route".to_owned()),
            ..of_callback
        },
    ] {
        let shown = listed(&service, &filter).await;
        let ended = |id: &TaskId| (*id, VisibleState::Failed);
        let wanted: Vec<_> = wanted.iter().map(ended).collect();
        assert_eq!(shown, wanted, "{filter:?}");
    }
}

/// Heartbeats of attempts whose looks come together are read together. The worker of the one that cannot be understood may live.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_cannot_be_understood_costs_its_attempt_alone_and_counts_as_alive() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now();
    let tasks = register(&service, (0..12).map(|_| callback(start)).collect()).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    world.pass(SECOND).await;
    service
        .claim("a", ids.iter().map(|id| claim(*id, 0)).collect())
        .await;
    let beat = |id: &TaskId| HeartbeatRequest {
        id: *id,
        attempt: 1,
        progress: None,
    };
    service.heartbeat("a", ids.iter().map(beat).collect()).await;
    let bad = ids[7];
    world.store.spoil_heartbeat(bad, 1);
    world.pass(60 * SECOND).await;
    for id in &ids {
        let times = published(&world, *id).len();
        assert_eq!(times > 1, *id != bad, "{times} times");
    }
    assert!(world.store.all_parked().is_empty());
    // Its worker goes on, and its next heartbeat takes the place of the one that was not understood.
    let answers = service.heartbeat("a", vec![beat(&bad)]).await;
    assert!(matches!(answers[..], [HeartbeatAnswer::Ok]), "{answers:?}");
    world.pass(60 * SECOND).await;
    assert!(published(&world, bad).len() > 1);
}
