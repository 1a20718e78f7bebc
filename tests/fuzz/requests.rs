//! These targets damage the requests of clients below HTTP: bodies and items of batches,
//! durations, instants, page tokens.

use std::{fmt::Debug, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    run::Target,
    samples::{START, id},
};

use tickwheel::{
    api::{
        poll::PollRequest,
        task_request::{RescheduleRequest, TaskRequest},
        text::{DurationText, InstantText},
        time,
        worker::{ClaimItem, HeartbeatItem, SettleItem, View},
    },
    flow::{
        base::api::VisibleState,
        stages::query::{filed::Filed, filter::Filter, list::Cursor},
    },
    http::{
        convert::{
            json,
            new_task::{Context, new_start, new_task},
            page_token,
            read_poll::poll_request,
            worker_calls::{claim_request, heartbeat_request, settle_request, worker_name},
        },
        error::Error,
    },
    model::{entry::Key, time::Millis},
};

/// The memory that a request may take: its text, its values, and the words about its errors.
const BYTES_MAX: (u64, u64) = (64 * 1024, 64);

pub(crate) const WORDS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-",
    "\\u0000",
    "\\ud800",
    "{\"a\":",
    "[[",
    "\"delay\":",
    "\"payload\":",
    "PT",
    "1h ",
    "9999-12-31T23:59:59.9999999Z",
    "+",
    "\u{feff}",
    "-0",
];

pub(crate) const REQUEST: &str = r#"{"callback":{"name":"c"},"collection":"k","delay":"1h 30m","payload":{"a":[1,2.5,"x\n",null]},
"content_type":"application/json","priority":"high","max_attempts":3,"retry":{"initial":"250ms","factor":2.5,"max":"PT1M","jitter":"none"},
"claim_timeout":"90s","heartbeat_timeout":"45s","expire_after":"24h","retention":"48h","labels":{"k":"v"}}"#;

pub(crate) const RECORD: &str = r#"{"kafka":{"topic":"t","partition":3,"key":"k","headers":[{"name":"a","value":"b"},{"name":"c","value_base64":"AAE="}]},
"start_time":"2030-01-31T09:00:00.25+01:00","payload_base64":"AAEC"}"#;

fn target(name: &'static str, samples: &[&str]) -> Target<'static> {
    Target {
        name,
        samples: samples
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect(),
        words: &WORDS,
        bytes_max: BYTES_MAX,
        seconds: 2,
    }
}

/// Reads a request; an accepted one is written and read again as the same.
fn same<T: Serialize + DeserializeOwned, R: Debug>(
    bytes: &[u8],
    convert: impl Fn(T) -> Result<R, Error>,
) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let read = |text: &str| json::read::<T>(text);
    let converted = read(&text).and_then(|request| {
        let written = serde_json::to_string(&request).unwrap();
        Ok((convert(request)?, written))
    });
    match converted {
        Ok((converted, written)) => {
            let again = read(&written).and_then(&convert);
            assert_eq!(format!("{:?}", again.unwrap()), format!("{converted:?}"));
            true
        }
        Err(error) => {
            assert!(error.code.status().is_client_error(), "{error:?}");
            assert!(
                !error.detail.is_empty() && error.detail.len() < 8192,
                "{error:?}"
            );
            false
        }
    }
}

fn context() -> Context {
    Context {
        now: START,
        content_bytes_max: 10_000,
        has_kafka: true,
        own_topics: "tickwheel.".into(),
        has_mail: true,
        trace_parent: None,
    }
}

#[test]
fn registrations() {
    target("register", &[REQUEST, RECORD, r#"{"callback":"c"}"#]).run(|bytes| {
        same::<TaskRequest, _>(bytes, |request| {
            let task = new_task(request, &context())?;
            assert!(task.start >= START && task.start <= Millis::MAX);
            Ok(task)
        })
    });
}

#[test]
fn items_of_workers() {
    let claim = format!(r#"{{"id":"{}","generation":0,"expected_attempt":2}}"#, id());
    target("claim_item", &[&claim])
        .run(|bytes| same::<ClaimItem, _>(bytes, |item| claim_request(&item, View::Full)));
    let beat = format!(
        r#"{{"id":"{}","attempt":2,"progress":{{"done":[7]}}}}"#,
        id()
    );
    target("heartbeat_item", &[&beat])
        .run(|bytes| same::<HeartbeatItem, _>(bytes, |item| heartbeat_request(&item)));
    let settle = |rest: &str| format!(r#"{{"id":"{}","attempt":2,"outcome":{rest}}}"#, id());
    let settles = [
        settle(r#""succeeded","result":{"a":1}"#),
        settle(r#""retry","error":"no route","delay":"5s""#),
        settle(r#""snoozed","delay":"5s""#),
    ];
    target("settle_item", &settles.each_ref().map(String::as_str))
        .run(|bytes| same::<SettleItem, _>(bytes, |item| settle_request(&item)));
}

#[test]
fn polls_and_reschedules() {
    let poll = r#"{"worker":"w","callbacks":["a","b"],"max_tasks":10,"wait":"30s"}"#;
    target("poll", &[poll]).run(|bytes| {
        same::<PollRequest, _>(bytes, |request| {
            worker_name(&request.worker)?;
            poll_request(request)
        })
    });
    let samples = [
        r#"{"delay":"5s"}"#,
        r#"{"start_time":"2031-01-31T09:00:00Z"}"#,
    ];
    target("reschedule", &samples)
        .run(|bytes| same::<RescheduleRequest, _>(bytes, |request| new_start(&request, START)));
}

#[test]
fn durations_and_instants() {
    let samples = ["90s", "1h 30m", "PT1M30S", "250ms", "1.5s", "PT0.5S"];
    target("duration", &samples).run(|bytes| {
        let text = DurationText(String::from_utf8_lossy(bytes).into_owned());
        let Ok(duration) = time::duration(&text, Duration::ZERO) else {
            return false;
        };
        let again = time::duration(&DurationText::from(duration), Duration::ZERO);
        assert_eq!(again, Ok(duration), "{text:?}");
        true
    });
    let samples = [
        "2030-01-31T09:00:00.25Z",
        "1970-01-01T00:00:00Z",
        "9999-12-30T22:00:00.999+02:00",
    ];
    target("instant", &samples).run(|bytes| {
        let text = InstantText(String::from_utf8_lossy(bytes).into_owned());
        let Ok(at) = time::instant(&text) else {
            return false;
        };
        assert!((Millis::EPOCH..=Millis::MAX).contains(&at));
        assert_eq!(time::instant(&InstantText::from(at)), Ok(at), "{text:?}");
        true
    });
}

#[test]
fn page_tokens() {
    let filter = Filter {
        callback: Some("c".to_owned()),
        state: Some(VisibleState::Processing),
        from: Some(Millis::EPOCH),
        pending: true,
        ..Filter::default()
    };
    let cursor = Cursor {
        behind: Key::behind(START),
        through: START,
        to: Millis::MAX,
        ended: None,
        labelled: None,
        filed: None,
    };
    let filed = Filed {
        day: 20_000,
        state: 2,
        behind: id(),
    };
    let among_ended = Cursor {
        filed: Some(filed),
        ..cursor
    };
    // Text that is not base64 is refused at once, so the text inside is damaged; the token itself
    // is damaged as well.
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    let token = page_token::write(&filter, &cursor);
    let inside = |token: &str| String::from_utf8(BASE64.decode(token).unwrap()).unwrap();
    let ended = page_token::write(&filter, &among_ended);
    target("page_token", &[&inside(&token), &inside(&ended), &token]).run(|bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut accepted = false;
        for token in [text, BASE64.encode(bytes)] {
            if let Ok(cursor) = page_token::read(&token, &filter) {
                accepted = true;
                let again = page_token::read(&page_token::write(&filter, &cursor), &filter);
                assert_eq!(again, Ok(cursor));
            }
        }
        accepted
    });
}
