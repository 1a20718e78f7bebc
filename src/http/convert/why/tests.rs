//! Each cause is told in words and fields, and hides tasks that a key does not cover.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::*;
use crate::{
    flow::{
        base::api::{TaskView, VisibleState},
        stages::query::why::Other,
    },
    model::{
        fixtures::{self, START},
        gate::{Gate, GateState},
        history::History,
        limit::{Limits, Rate},
        local_quota::Bound,
        time::Millis,
        why::Open,
    },
};

const MINUTE: Duration = Duration::from_secs(60);

fn view() -> TaskView {
    TaskView {
        id: fixtures::id(),
        spec: Arc::new(fixtures::spec()),
        content: None,
        state: VisibleState::Enqueued,
        start: START,
        effective_start: START,
        fire_time: None,
        claim_time: None,
        end_time: None,
        attempt: 3,
        generation: 0,
        run_generation: 0,
        worker: String::new(),
        progress: None,
        result: None,
        error: None,
        cancel_requested: false,
        history: History::default(),
        run_state: None,
        first_claim: None,
        tree: None,
        children_time_passed: false,
        replaced: false,
        waits: None,
    }
}

/// The answer about a cause that holds since the start, a minute behind it.
fn told(what: What, certain: bool, covers: Covers<'_>) -> Value {
    let other = Other {
        callback: Some("bank".to_owned()),
        state: VisibleState::Retrying,
    };
    let limits = Limits {
        rate: Rate::new(5.0, None),
        in_flight: Some(2),
    };
    let why = Why {
        at: START.after(MINUTE),
        task: view(),
        causes: vec![model::Cause {
            what,
            since: Some(START),
            until: Some(START.after(2 * MINUTE)),
            certain,
        }],
        others: HashMap::from([(fixtures::id(), other)]),
        owner: None,
        limits,
    };
    serde_json::to_value(why_response(&why, covers)).unwrap()
}

fn all(what: What) -> Value {
    told(what, true, &|_| true)
}

const DUE: &str = "Due since 1970-01-01T00:16:40.500Z. ";

#[test]
fn a_gate_is_told_in_one_sentence() {
    let mut gate = Gate {
        collection: String::new(),
        state: GateState::Paused,
        reason: "smtp moves".to_owned(),
        since: Millis(995_000),
        until: Some(Millis(3_600_000)),
        who: "ada".to_owned(),
    };
    let told = all(What::Gate(gate.clone()));
    let sentence = "Held by the gate of `mail`, closed by ada at 1970-01-01T00:16:35.000Z \
                    (\"smtp moves\"). It opens by itself at 1970-01-01T01:00:00.000Z.";
    assert_eq!(told["sentence"], format!("{DUE}{sentence}"));
    let cause = &told["causes"][0];
    assert_eq!(
        *cause,
        json!({
            "code": "gate", "detail": sentence, "who": "ada", "reason": "smtp moves",
            "advice": "Open the gate: `tickwheel callback resume mail`.",
            "since": "1970-01-01T00:16:40.500Z", "until": "1970-01-01T00:18:40.500Z",
            "certain": true,
        })
    );
    gate.collection = "night".to_owned();
    gate.state = GateState::Dropping;
    (gate.until, gate.who, gate.reason) = (None, String::new(), String::new());
    let told = all(What::Gate(gate));
    assert_eq!(
        told["causes"][0]["detail"],
        "Held by the gate of collection `night` of `mail`, set to drop tasks at \
         1970-01-01T00:16:35.000Z. It opens when it is told to."
    );
    assert_eq!(
        told["causes"][0]["advice"],
        "Open the gate: `tickwheel callback resume mail --collection night`."
    );
}

#[test]
fn a_missing_worker_names_the_callback_that_was_probably_meant() {
    let what = || What::NoWorker {
        last: Some(START),
        nearest: Some("mails".to_owned()),
    };
    let told_all = all(what());
    assert_eq!(
        told_all["causes"][0]["detail"],
        "No worker polls for `mail`: the last poll was at 1970-01-01T00:16:40.500Z. Workers poll \
         for `mails`: is that meant?"
    );
    assert_eq!(told_all["causes"][0]["nearest"], "mails");
    // A key that is limited to `mail` does not hear of others.
    let limited = told(what(), true, &|name| name == "mail");
    assert!(!limited.to_string().contains("mails"), "{limited}");
}

#[test]
fn a_task_of_another_callback_is_another_task_for_a_limited_key() {
    let id = fixtures::id();
    let open = Open {
        first: vec![id],
        tasks: 2,
    };
    let whats = [What::Tasks(open), What::Parent(Some(id)), What::Turn(id)];
    for what in whats {
        let seen = all(what.clone());
        let task = json!([{"id": id.to_string(), "callback": "bank", "state": "retrying"}]);
        assert_eq!(seen["causes"][0]["tasks"], task);
        let limited = told(what, true, &|name| name == "mail");
        let cause = &limited["causes"][0];
        assert_eq!(cause["tasks"], json!([{}]));
        let text = cause.to_string();
        assert!(
            !text.contains(&id.to_string()) && !text.contains("bank"),
            "{text}"
        );
        assert!(text.contains("another task"), "{text}");
    }
}

#[test]
fn a_limit_that_only_another_node_knows_of_is_not_certain() {
    let told = |bound, certain| told(What::Limit(bound), certain, &|_| true);
    let known = told(Bound::Rate, true);
    assert_eq!(
        known["sentence"],
        format!("{DUE}The `rate` of `mail`, 5 a second, is used up.")
    );
    let cause = &told(Bound::InFlight, false)["causes"][0];
    assert_eq!(
        (&cause["certain"], &cause["limit"]),
        (&json!(false), &json!("max_in_flight"))
    );
    let detail = cause["detail"].as_str().unwrap();
    assert!(
        detail.contains("2, is reached") && detail.contains("another node"),
        "{detail}"
    );
}

#[test]
fn every_cause_has_a_sentence_and_the_code_of_the_model() {
    let text = || "x".to_owned();
    let id = fixtures::id();
    let running = |cancel_requested| What::Running {
        worker: text(),
        attempt: 2,
        heartbeat: Some(START),
        cancel_requested,
    };
    let ended = |end, error: Option<&str>| What::Ended {
        end,
        error: error.map(str::to_owned),
    };
    let place = START.before(MINUTE);
    let catching_up = What::CatchingUp {
        owner: None,
        place,
        before: Some(7),
    };
    let retry = |error| What::Retry { attempt: 1, error };
    let cases = [
        (
            What::NotDue,
            "Not due before 1970-01-01T00:18:40.500Z, in 1m.",
        ),
        (What::Turn(id), "the turn of the same ordering key"),
        (What::Parent(None), "another task"),
        (
            What::Tasks(Open::default()),
            "It waits until 1970-01-01T00:18:40.500Z, in 1m at most.",
        ),
        (What::Children, "tasks below it go on"),
        (
            What::NoWorker {
                last: None,
                nearest: None,
            },
            "none did within ten minutes",
        ),
        (What::Busy { running: 4 }, "4 attempts run"),
        (What::Queued { polling: Some(1) }, "one worker polls"),
        (What::Queued { polling: Some(3) }, "3 workers poll"),
        (What::Queued { polling: None }, "the part of the service"),
        (running(false), "sign of life at 1970-01-01T00:16:40.500Z."),
        (running(true), "It was told to stop."),
        (
            What::WorkerLost {
                worker: text(),
                attempt: 1,
            },
            "Worker `x` of attempt 1 is lost",
        ),
        (
            retry(Some("no\nroute".to_owned())),
            "failed (no\nroute). The next one starts at",
        ),
        (retry(None), "Given back by attempt 1."),
        (What::TakeOver(None), "another takes it over"),
        (catching_up, "behind by 2m, 7 tasks before this one"),
        (
            What::Topic,
            "tried again at 1970-01-01T00:18:40.500Z, in 1m.",
        ),
        (
            What::QueueAway("gone".to_owned()),
            "does not answer this node: gone.",
        ),
        (ended(End::Succeeded, None), "Succeeded at"),
        (ended(End::Published, None), "Published at"),
        (ended(End::Failed, Some("no such user")), ": no such user."),
        (ended(End::Cancelled, None), "Cancelled at"),
        (ended(End::Dropped, Some("dropped")), "Dropped at"),
        (ended(End::Expired, None), "by its `expire_after`"),
        (
            ended(End::Dead, Some("no route")),
            "after 3 attempts: no route.",
        ),
    ];
    for (what, wanted) in cases {
        let name = what.code();
        let told = all(what);
        let (sentence, cause) = (told["sentence"].as_str().unwrap(), &told["causes"][0]);
        assert_eq!(cause["code"], name);
        assert!(sentence.contains(wanted), "{sentence}");
        let is_due = sentence.starts_with(DUE);
        let detail = cause["detail"].as_str().unwrap();
        assert_eq!(sentence.strip_prefix(DUE).unwrap_or(sentence), detail);
        assert_eq!(keeps_due_by_name(name), is_due, "{name}");
    }
}

fn keeps_due_by_name(name: &str) -> bool {
    let due = [
        "gate",
        "limit",
        "turn",
        "no_worker",
        "busy",
        "queued",
        "take_over",
        "catching_up",
        "topic",
        "queue_away",
    ];
    due.contains(&name)
}
