//! The tests of the weight fill each part of tasks and rows to its limit, and see that all of it is weighed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    action::{Action, Actions, Check, CheckTime, Deed, When},
    after::{After, Condition},
    chain::{FollowStart, FollowUp, Previous},
    document::Document,
    email::Email,
    fixtures,
    history::{Answered, Attempt, Ending},
    holder::Holder,
    http_call::{HttpCall, Method},
    kin::Kin,
    notify::{Destination, EndStates, Notify},
    result::{Place, TaskResult},
    row::{State, TaskRow},
    target::Target,
    task::{Body, Content, Scheduled, Spec},
};
use crate::limits;

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn pairs(count: usize, bytes: usize) -> Vec<(String, String)> {
    vec![(text(bytes), text(bytes)); count]
}

/// A call, and the least that it weighs.
fn call() -> (usize, Box<HttpCall>) {
    let call = HttpCall {
        url: text(limits::URL_CHARS_MAX),
        method: Method::Post,
        headers: pairs(16, limits::HTTP_HEADERS_BYTES_MAX / 32),
        timeout: None,
        message_id: Some(text(64)),
    };
    let bytes = limits::URL_CHARS_MAX + limits::HTTP_HEADERS_BYTES_MAX + 64;
    (bytes + size_of::<HttpCall>(), Box::new(call))
}

/// Actions, and the least that they weigh.
fn actions() -> (usize, Box<Actions>) {
    let email = Email {
        to: vec![text(254); limits::ACTION_EMAIL_TO_MAX / 2],
        cc: vec![text(254); limits::ACTION_EMAIL_TO_MAX / 2],
        subject: text(200),
        body: text(1000),
    };
    let mail = 254 * limits::ACTION_EMAIL_TO_MAX + 200 + 1000 + size_of::<Email>();
    let email = || Deed::Email(Box::new(email.clone()));
    let (bytes, http) = call();
    let document = Document::stored(text(1000));
    let bytes = bytes + 1000;
    let action = |deed| Action {
        when: When::Run(EndStates::ALL),
        deed,
    };
    let check = Check {
        at: CheckTime::After(Duration::ZERO),
        states: EndStates::ALL.into(),
        then: Some(email()),
        otherwise: Some(email()),
    };
    let actions = Actions {
        at_ends: vec![action(email()), action(Deed::Http(http, Some(document)))],
        checks: vec![check; limits::CHECKS_MAX],
    };
    let least = mail * (1 + 2 * limits::CHECKS_MAX) + bytes;
    (least, Box::new(actions))
}

fn follow(task: Spec) -> FollowUp<Spec> {
    FollowUp {
        when: When::Run(EndStates::ALL),
        start: FollowStart::After(Duration::ZERO),
        with_result: true,
        in_tree: false,
        task,
    }
}

/// Two levels of follow-ups, and the least that they weigh.
fn then() -> (usize, Vec<FollowUp<Spec>>) {
    let task = Spec {
        body: Body::Inline(Content {
            payload: vec![7; 128].into(),
            ..Content::default()
        }),
        key: Some(text(limits::KEY_CHARS_MAX)),
        ..fixtures::spec()
    };
    let first = Spec {
        then: vec![follow(task.clone())],
        ..task
    };
    let least = size_of::<FollowUp<Spec>>() + 128 + limits::KEY_CHARS_MAX;
    let count = limits::THEN_MAX;
    (2 * count * least, vec![follow(first); count])
}

fn result(bytes: usize) -> TaskResult {
    TaskResult {
        content_type: text(limits::CONTENT_TYPE_CHARS_MAX),
        place: Place::Inline(vec![7; bytes].into()),
    }
}

/// A content in which all is as large as can be, and the least that it weighs.
fn content() -> (usize, Content) {
    let error = limits::ERROR_CHARS_MAX;
    let previous = Previous {
        task: fixtures::id(),
        state: State::Succeeded,
        tree: None,
        result: Some(result(limits::RESULT_INLINE_BYTES_MAX)),
        error: Some(text(error)),
    };
    let header = (text(100), Bytes::from(vec![7; 1000]));
    let content = Content {
        payload: vec![7; 4000].into(),
        content_type: text(limits::CONTENT_TYPE_CHARS_MAX),
        record_key: Some(vec![7; 500].into()),
        record_headers: vec![header; limits::HEADERS_MAX],
        labels: pairs(limits::LABELS_MAX, limits::LABEL_CHARS_MAX),
        trace_parent: Some(text(55)),
        previous: Some(Box::new(previous)),
    };
    let texts = 2 * limits::CONTENT_TYPE_CHARS_MAX + error + 55;
    let labels = 2 * limits::LABELS_MAX * limits::LABEL_CHARS_MAX;
    let views = 4000 + 500 + limits::RESULT_INLINE_BYTES_MAX;
    let headers = limits::HEADERS_MAX * 1100;
    (texts + labels + views + headers, content)
}

/// A part of a task or a row, the least that it weighs, and what puts it in. Parts of one place have names that begin alike.
type Part<T> = (&'static str, usize, Box<dyn Fn(&mut T)>);

fn parts() -> Vec<Part<Spec>> {
    let (call_bytes, to) = call();
    let notify = Notify::of_run(Destination::Http(to.clone()), EndStates::ALL);
    let topic = Target::Kafka {
        topic: text(200),
        partition: None,
    };
    let scheduled = Scheduled {
        schedule: text(128),
        time: fixtures::START,
    };
    let after = After {
        condition: Condition::AllEnded,
        later: false,
        deadline: None,
        tasks: 7,
    };
    let (key, name) = (limits::KEY_CHARS_MAX, limits::NAME_CHARS_MAX);
    let label = limits::LABEL_CHARS_MAX;
    let (action_bytes, actions) = actions();
    let (then_bytes, then) = then();
    let (content_bytes, content) = content();
    let told = Destination::Kafka { topic: text(200) };
    let told = Notify::of_run(told, EndStates::ALL);
    vec![
        // The callback is in each task.
        (
            "target topic",
            200 - 4,
            Box::new(move |spec| spec.target = topic.clone()),
        ),
        (
            "target call",
            call_bytes,
            Box::new(move |spec| {
                spec.target = Target::Http {
                    callback: "mail".to_owned(),
                    call: to.clone(),
                };
            }),
        ),
        (
            "collection",
            name,
            Box::new(move |spec| spec.collection = text(name)),
        ),
        (
            "scheduled",
            128,
            Box::new(move |spec| spec.scheduled = Some(Box::new(scheduled.clone()))),
        ),
        ("key", key, Box::new(move |spec| spec.key = Some(text(key)))),
        (
            "ordering",
            key,
            Box::new(move |spec| spec.ordering_key = Some(text(key))),
        ),
        (
            "indexed",
            8 * label,
            Box::new(move |spec| spec.indexed = pairs(4, label)),
        ),
        (
            "notify topic",
            200,
            Box::new(move |spec| spec.notify = Some(told.clone())),
        ),
        (
            "notify call",
            call_bytes,
            Box::new(move |spec| spec.notify = Some(notify.clone())),
        ),
        (
            "actions",
            action_bytes,
            Box::new(move |spec| spec.actions = Some(actions.clone())),
        ),
        (
            "kin",
            size_of::<Kin>(),
            Box::new(|spec| spec.kin = Some(Box::default())),
        ),
        (
            "after",
            size_of::<After>(),
            Box::new(move |spec| spec.after = Some(Box::new(after))),
        ),
        (
            "then",
            then_bytes,
            Box::new(move |spec| spec.then.clone_from(&then)),
        ),
        (
            "body",
            content_bytes,
            Box::new(move |spec| spec.body = Body::Inline(content.clone())),
        ),
    ]
}

/// Puts parts into a value, each into a fresh one and then all into one, and sees that each weighs as much as it must.
fn weighs<T: Clone>(plain: &T, parts: &[Part<T>], weight: impl Fn(&T) -> usize) {
    let (mut all, mut places) = (plain.clone(), BTreeMap::new());
    for (name, least, put) in parts {
        let mut one = plain.clone();
        put(&mut one);
        let added = weight(&one) - weight(plain);
        assert!(
            added >= *least,
            "{name}: {added} of {least} bytes are weighed"
        );
        put(&mut all);
        places.insert(name.split(' ').next(), *least);
    }
    let (added, least) = (weight(&all) - weight(plain), places.values().sum());
    assert!(added >= least, "{added} of {least} bytes are weighed");
}

#[test]
fn a_task_weighs_all_that_it_owns() {
    weighs(&fixtures::spec(), &parts(), Spec::weight);
}

#[test]
fn a_row_weighs_all_that_it_and_its_task_own() {
    let (error, worker) = (limits::ERROR_CHARS_MAX, limits::WORKER_CHARS_MAX);
    let answered = Answered {
        status: 500,
        response: text(1024),
    };
    let attempt = Attempt {
        attempt: 1,
        worker: text(worker),
        claimed: None,
        ended: None,
        ending: Some(Ending::Retry),
        error: Some(text(1024)),
        answered: Some(answered.clone()),
    };
    let next = Holder {
        id: fixtures::id(),
        generation: 0,
        spec: Arc::new(fixtures::laden()),
    };
    let (laden, inline) = (Arc::clone(&next.spec), limits::RESULT_INLINE_BYTES_MAX);
    let next = Arc::new(next);
    let attempts = 20 * (size_of::<Attempt>() + worker + 2048);
    let parts: Vec<Part<TaskRow>> = vec![
        (
            "spec",
            fixtures::LADEN_BYTES,
            Box::new(move |row| row.detail.spec = Arc::clone(&laden)),
        ),
        (
            "worker",
            worker,
            Box::new(move |row| row.detail.worker = text(worker)),
        ),
        (
            "result",
            inline,
            Box::new(move |row| row.detail.result = Some(result(inline))),
        ),
        (
            "error",
            error,
            Box::new(move |row| row.detail.error = Some(text(error))),
        ),
        (
            "attempts",
            attempts,
            Box::new(move |row| row.detail.history.attempts = vec![attempt.clone(); 20]),
        ),
        (
            "answered",
            1024,
            Box::new(move |row| row.detail.history.answered = Some(answered.clone())),
        ),
        (
            "next",
            fixtures::LADEN_BYTES,
            Box::new(move |row| row.detail.next = Some(Arc::clone(&next))),
        ),
    ];
    let row = fixtures::row(State::Claimed, &Arc::new(fixtures::spec()));
    weighs(&row, &parts, TaskRow::weight);
}

#[test]
fn a_payload_keeps_the_message_that_it_came_in() {
    let weight = |payload: usize, key: usize| {
        let spec = Spec {
            key: Some(text(key)),
            body: Body::Inline(Content {
                payload: vec![7; payload].into(),
                ..Content::default()
            }),
            ..fixtures::spec()
        };
        spec.weight()
    };
    assert_eq!(weight(0, 100) - weight(0, 0), 100);
    assert_eq!(weight(50, 100) - weight(50, 0), 200);
    assert_eq!(weight(90, 100) - weight(50, 100), 40);
}

/// Memories for plain tasks are made for about as much.
#[test]
fn a_plain_task_weighs_little_more_than_a_spec() {
    let spec = fixtures::spec();
    let weight = spec.weight();
    let least = size_of::<Spec>();
    assert!((least..least + 64).contains(&weight), "{weight}");
    let apart = Spec {
        body: Body::Apart { bytes: 1 << 20 },
        ..spec
    };
    assert_eq!(
        apart.weight(),
        weight,
        "its reader counts a content kept apart"
    );
}
