//! The fixtures give the tests of the model one task, one shape and rows of every state.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    action::When,
    backoff::{Backoff, Jitter},
    chain::{FollowStart, FollowUp},
    http_call::{HttpCall, Method},
    ids::TaskId,
    kin::Rounds,
    look_step::LookStep,
    notify::{Destination, EndStates, Notify},
    state::{Detail, History, State, TaskRow},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::{Millis, TickLength},
    wheel::{Shape, WheelNumber},
};

/// Start time of [`id`].
pub(crate) const START: Millis = Millis(1_000_500);

/// Ten years.
pub(super) const YEARS_10: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Four wheels of 64 slots of one second.
pub(super) fn shape() -> Shape {
    Shape::new(4, TickLength::new(Duration::from_secs(1)).unwrap(), 64).unwrap()
}

/// A task that starts at [`START`] and is looked at about every minute.
pub(crate) fn id() -> TaskId {
    let step = LookStep::covering(Duration::from_secs(60));
    TaskId::new(START, WheelNumber::new(1).unwrap(), 7).with_look_step(step)
}

/// A tracked task: three attempts, ten seconds between them, thirty between signs of life, no expiry.
pub(crate) fn spec() -> Spec {
    Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "mail".to_owned(),
        },
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 3,
        backoff: Backoff {
            initial: Duration::from_secs(10),
            factor_milli: 1000,
            max: Duration::from_secs(10),
            jitter: Jitter::None,
        },
        claim_timeout: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_secs(30),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: Duration::from_secs(3600),
        create_time: Millis(0),
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content::default()),
    }
}

/// The least that a [`laden`] task weighs, if it weighs what it owns.
pub(crate) const LADEN_BYTES: usize = 16 * 1024;

/// A task without a payload that owns [`LADEN_BYTES`] elsewhere: in its call, its notice and two follow-ups.
pub(crate) fn laden() -> Spec {
    let part = || "x".repeat(LADEN_BYTES.div_ceil(6));
    let call = || {
        Box::new(HttpCall {
            url: part(),
            method: Method::Post,
            headers: vec![("h".to_owned(), part())],
            timeout: None,
            message_id: None,
        })
    };
    let follow = |task| FollowUp {
        when: When::Run(EndStates::ALL),
        start: FollowStart::After(Duration::ZERO),
        with_result: false,
        in_tree: false,
        task,
    };
    let second = Spec {
        ordering_key: Some(part()),
        ..spec()
    };
    let first = Spec {
        key: Some(part()),
        then: vec![follow(second)],
        ..spec()
    };
    Spec {
        target: Target::Http {
            callback: "mail".to_owned(),
            call: call(),
        },
        notify: Some(Notify::of_run(Destination::Http(call()), EndStates::ALL)),
        then: vec![follow(first)],
        ..spec()
    }
}

/// A row of the task in a state: its first attempt was made unless it is new, it acts next at its start.
pub(crate) fn row(state: State, spec: &Arc<Spec>) -> TaskRow {
    let attempt = u32::from(state != State::New);
    TaskRow {
        id: id(),
        state,
        generation: 0,
        attempt,
        tries: attempt,
        next: START,
        last: START,
        cancel_requested: false,
        nonce: Uuid::nil(),
        detail: Detail {
            spec: Arc::clone(spec),
            start: START,
            fire_time: None,
            claim_time: None,
            end_time: None,
            worker: String::new(),
            result: None,
            error: None,
            died: None,
            erased: false,
            tree: None,
            children_time_passed: false,
            rounds: Rounds::default(),
            lived: 0,
            history: History::default(),
            next: None,
        },
    }
}
