//! These tests check for clients that every bound of a registration request is named when it is hit.

use super::request_tests::{NOW, read, refused};
use crate::{http::error::Code, model::time::Millis};

#[test]
fn names_have_limits() {
    let long = "x".repeat(129);
    refused(
        &format!(r#"{{"callback":"{long}"}}"#),
        "/callback",
        "1 to 128 characters",
    );
    refused(r#"{"callback":""}"#, "/callback", "1 to 128 characters");
    refused(r#"{"callback":"a b"}"#, "/callback", "found ' '");
    refused(r#"{"callback":".."}"#, "/callback", "must not be");
    refused(
        r#"{"callback":"c","collection":"ä"}"#,
        "/collection",
        "found 'ä'",
    );
    refused(r#"{"kafka":{"topic":"a/b"}}"#, "/kafka/topic", "found '/'");
    let labels: Vec<String> = (0..33).map(|n| format!("\"{n}\":\"\"")).collect();
    refused(
        &format!(r#"{{"callback":"c","labels":{{{}}}}}"#, labels.join(",")),
        "/labels",
        "32",
    );
    let long = "x".repeat(257);
    refused(
        &format!(r#"{{"callback":"c","labels":{{"l":"{long}"}}}}"#),
        "/labels/l",
        "256",
    );
}

#[test]
fn a_payload_that_some_parser_cannot_read_is_refused() {
    let nest = |depth: usize| {
        let payload = "[".repeat(depth) + &"]".repeat(depth);
        format!(r#"{{"callback":"c","payload":{payload}}}"#)
    };
    assert!(read(&nest(100)).is_ok());
    refused(&nest(101), "/payload", "deeper than 100");
    refused(&nest(100_000), "/payload", "deeper than 100");
    refused(
        r#"{"callback":"c","payload":"\ud800"}"#,
        "/payload",
        "cannot be read",
    );
    refused(
        r#"{"callback":"c","payload":1e999}"#,
        "/payload",
        "cannot be read",
    );
}

#[test]
fn what_is_not_json_is_refused_with_line_and_column() {
    for (text, says) in [
        ("", "line 1, column 0"),
        ("{\n\"callback\":\"c\",}", "line 2, column 16"),
        ("{\"callback\":\"c\"} x", "trailing characters"),
        ("{\"callback\":\"c\"", "EOF"),
        ("{\"callback\":nul}", "line 1"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.code, Code::MalformedJson, "{text}");
        assert!(error.detail.contains(says), "{text}: {}", error.detail);
    }
    let deep = format!(r#"{{"labels":{}"#, "[".repeat(100_000));
    assert!(read(&deep).unwrap_err().code.status().is_client_error());
}

#[test]
fn content_is_measured_as_it_is_stored() {
    let task = |bytes: usize| format!(r#"{{"callback":"c","payload":"{}"}}"#, "x".repeat(bytes));
    assert!(read(&task(9_900)).is_ok());
    let error = read(&task(10_000)).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(
        error.detail.contains("the limit is 10000"),
        "{}",
        error.detail
    );
}

#[test]
fn a_long_mistake_does_not_make_a_long_answer() {
    let long = "y".repeat(100_000);
    for text in [
        format!(r#"{{"callback":"c","{long}":1}}"#),
        format!(r#"{{"callback":"c","delay":"{long}"}}"#),
        format!(r#"{{"callback":"c","max_attempts":"{long}"}}"#),
        format!(r#"{{"callback":"c","priority":"{long}"}}"#),
    ] {
        let problem = serde_json::to_string(&read(&text).unwrap_err().problem()).unwrap();
        assert!(problem.len() < 2500, "{}", problem.len());
    }
}

#[test]
fn days_and_weeks_are_durations() {
    for (text, days) in [
        ("14d", 14),
        ("P14D", 14),
        ("2 weeks", 14),
        ("1w 2d", 9),
        ("P1W", 7),
        ("336h", 14),
    ] {
        let task = read(&format!(r#"{{"callback":"c","delay":"{text}"}}"#)).unwrap();
        assert_eq!(task.start, Millis(NOW.0 + days * 86_400_000), "{text}");
    }
    let task = read(r#"{"callback":"c","delay":"1d 12h"}"#).unwrap();
    assert_eq!(task.start, Millis(NOW.0 + 36 * 3_600_000));
}

#[test]
fn what_is_wrong_is_said_in_words_of_the_request() {
    refused(
        r#"{"callback":"c","labels":{"a":"1","b":"2","a":"3"}}"#,
        "/labels",
        "`a` is given twice",
    );
    refused(
        r#"{"kafka":{"topic":"t","headers":{"h":"1","h":"2"}}}"#,
        "/kafka/headers",
        "`h` is given twice",
    );
    refused(
        r#"{"callback":"c","retry":{"jitter":true}}"#,
        "/retry/jitter",
        "expected a text",
    );
    refused(
        r#"{"callback":"c","labels":[]}"#,
        "/labels",
        "an object of texts",
    );
    refused(
        r#"{"callback":"c","start_time":"2030-02-30T09:00:00Z"}"#,
        "/start_time",
        "does not exist",
    );
    refused(
        r#"{"callback":"c","delay":"2 months"}"#,
        "/delay",
        "in days",
    );
}
