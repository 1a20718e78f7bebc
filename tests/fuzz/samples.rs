//! This module makes valid samples for the fuzz targets: tasks of both kinds, with all fields and
//! with the fewest.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tickwheel::model::{
    action::{Action, Actions, Check, CheckTime, Deed, When},
    after::{After, Condition},
    backoff::{Backoff, Jitter},
    chain::{FollowStart, FollowUp, Previous},
    clock::{ClockRow, Position},
    email::Email,
    entry::{DoneReason, Entry},
    history::{Answered, Attempt, Ending},
    ids::{NodeId, TaskId},
    kin::{Kin, Rounds, TreeEnd, TreeOutcome},
    notify::{Destination, EndStates, Notify},
    state::{Detail, History, State, TaskRow},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::{Millis, Tick},
    wheel::WheelNumber,
};
use uuid::Uuid;

pub(crate) const START: Millis = Millis(1_893_456_000_250);

pub(crate) fn id() -> TaskId {
    TaskId::new(START, WheelNumber::new(513).unwrap(), 0x0123_4567_89ab_cdef)
}

pub(crate) fn content() -> Content {
    Content {
        payload: Bytes::from_static(b"{\"to\":\"Z\xc3\xbcrich\"}"),
        content_type: "application/json".to_owned(),
        record_key: Some(Bytes::from_static(b"customer-7")),
        record_headers: vec![
            ("first".to_owned(), Bytes::from_static(b"1")),
            ("empty".to_owned(), Bytes::new()),
        ],
        labels: vec![("team".to_owned(), "billing".to_owned())],
        trace_parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        previous: Some(Box::new(Previous {
            task: id(),
            state: State::Succeeded,
            tree: Some(TreeOutcome::Completed),
            result: Some(Bytes::from_static(b"7").into()),
            error: Some("no".to_owned()),
        })),
    }
}

/// A spec of each kind.
pub(crate) fn specs() -> Vec<Spec> {
    let deed = Deed::Email(Box::new(Email {
        to: vec!["ada@example.org".to_owned()],
        cc: Vec::new(),
        subject: "{{task.state}}".to_owned(),
        body: "{{task.payload.user}}".to_owned(),
    }));
    let full = Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "send-email".to_owned(),
        },
        collection: "password-reset".to_owned(),
        priority: Priority::High,
        max_attempts: 7,
        backoff: Backoff {
            initial: Duration::from_millis(1500),
            factor_milli: 3000,
            max: Duration::from_secs(3600),
            jitter: Jitter::None,
        },
        claim_timeout: Duration::from_secs(90),
        heartbeat_timeout: Duration::from_secs(45),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: Some(Duration::from_secs(86_400)),
        retention: Duration::from_secs(604_800),
        create_time: Millis(1_893_455_000_000),
        asked_start: None,
        scheduled: None,
        key: None,
        notify: Some(Notify::of_run(
            Destination::Kafka {
                topic: "ends".to_owned(),
            },
            EndStates::ALL,
        )),
        actions: Some(Box::new(Actions {
            at_ends: vec![Action {
                when: When::Run(EndStates::ALL),
                deed: deed.clone(),
            }],
            checks: vec![Check {
                at: CheckTime::After(Duration::from_secs(60)),
                states: EndStates::ALL.into(),
                then: None,
                otherwise: Some(deed),
            }],
        })),
        kin: Some(Box::new(Kin {
            parent: Some(id()),
            is_parent: true,
            after_parent: true,
            undoes: true,
            children_within: Some(Duration::from_secs(3600)),
        })),
        after: Some(Box::new(After {
            condition: Condition::AllEnded,
            later: true,
            deadline: Some(Millis(1_800_000_000_000)),
            tasks: 3,
        })),
        then: Vec::new(),
        body: Body::Inline(content()),
    };
    let kafka = Spec {
        target: Target::Kafka {
            topic: "orders.due".to_owned(),
            partition: Some(3),
        },
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        ..full.clone()
    };
    let follow = FollowUp {
        when: When::Run(EndStates::ALL),
        start: FollowStart::After(Duration::from_secs(60)),
        with_result: true,
        in_tree: true,
        task: full.clone(),
    };
    let apart = Spec {
        then: vec![follow],
        body: Body::Apart { bytes: 70_000 },
        ..full.clone()
    };
    vec![full, kafka, apart]
}

/// An entry of each kind.
pub(crate) fn entries() -> Vec<Entry> {
    let spec = Arc::new(specs().remove(0));
    let due = Entry::due(id(), 2, 3, START, Arc::clone(&spec), 77);
    let moved = DoneReason::Moved { to: START };
    vec![
        due.clone().first_of_generation(),
        Entry::look(id(), 2, START, Some(START), START, Arc::clone(&spec), 78),
        Entry::look(id(), 0, START, None, START, spec, 79),
        due.marked_done(DoneReason::Cancelled, START, 80),
        due.marked_done(moved, START, 82),
    ]
}

pub(crate) fn row() -> TaskRow {
    TaskRow {
        id: id(),
        state: State::Retrying,
        generation: 2,
        attempt: 3,
        tries: 1,
        next: Millis(START.0 + 1000),
        last: Millis(START.0 + 9000),
        cancel_requested: true,
        nonce: Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0),
        detail: Detail {
            spec: Arc::new(specs().remove(0)),
            start: START,
            fire_time: Some(START),
            claim_time: Some(Millis(START.0 + 1)),
            end_time: Some(Millis(START.0 + 2)),
            worker: "w-1".to_owned(),
            result: Some(Bytes::from_static(b"{\"ok\":1}").into()),
            error: Some("no route".to_owned()),
            died: Some(7_001),
            erased: true,
            tree: Some(TreeEnd {
                outcome: TreeOutcome::Faulted,
                at: START,
            }),
            children_time_passed: true,
            rounds: Rounds {
                round: 3,
                opened: 1,
                awaits: true,
            },
            lived: 2,
            history: History::default().with(Attempt {
                attempt: 2,
                worker: "w-0".to_owned(),
                claimed: Some(START),
                ended: Some(Millis(START.0 + 1)),
                ending: Some(Ending::Lost),
                error: Some("no route".to_owned()),
                answered: Some(Answered::new(503, b"busy")),
            }),
            next: None,
        },
    }
}

pub(crate) fn clock() -> ClockRow {
    ClockRow {
        version: 41,
        opened: Tick(1_893_456_003),
        fired: Position {
            due: START,
            id: id(),
        },
        erased: Tick(1_893_455_000),
        owner: NodeId(Uuid::from_u128(7)),
        lease_until: Millis(START.0 + 5000),
        wall: START,
    }
}
