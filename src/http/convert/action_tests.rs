//! These tests read actions and checks of requests as the conversion does.

use super::{
    action::{check, check_sent, read},
    action_view::{actions_given, checks_given},
    json,
    violations::Violations,
};
use crate::{
    api::{self, task_request::TaskRequest},
    http::error::{Code, Error},
    model::{action::Actions, task::Content, time::Millis},
};

const NOW: Millis = Millis(1_800_000_000_000);

fn read_text(text: &str) -> Result<Actions, Error> {
    let request = json::read::<TaskRequest>(text)?;
    let mut wrong = Violations::default();
    let actions = read(&request, &mut wrong);
    wrong.finish()?;
    let content = Content {
        payload: br#"{"user":{"name":"Ada"}}"#.as_slice().into(),
        ..Content::default()
    };
    let is_tracked = request.kafka.is_none();
    check(actions.as_deref(), is_tracked, &content, true, NOW)?;
    Ok(actions.map(|actions| *actions).unwrap_or_default())
}

fn email(subject: &str, body: &str) -> String {
    let email = serde_json::json!({"to": ["ada@example.org"], "subject": subject, "body": body});
    format!(r#"{{"callback":"c","actions":[{{"email":{email}}}]}}"#)
}

#[test]
fn they_are_shown_as_they_were_given() {
    let text = r#"{"callback":"c","actions":[{"states":["failed","dead"],"email":{"to":["ada@example.org"],"cc":["bob@example.org"],"subject":"s","body":"{{task.error}}"}},{"http":{"url":"http://a.example","method":"POST"},"payload":{"text":["{{task.id}}",1.5]}},{"states":["completed","faulted"],"http":{"url":"http://a.example","method":"POST"}}],"checks":[{"at":"30m","in":["succeeded"],"else":{"http":{"url":"http://a.example","method":"PUT"},"payload":7}},{"at":"2030-01-31T09:00:00.000Z","in":["dead","completed","faulted","processing"],"then":{"http":{"url":"http://b.example","method":"POST"}}}]}"#;
    let actions = read_text(text).unwrap();
    assert_eq!(check_sent(&actions), Ok(()));
    let shown = TaskRequest {
        callback: Some(api::target::CallbackTarget::Name("c".to_owned())),
        actions: Some(actions_given(&actions)),
        checks: Some(checks_given(&actions)),
        ..TaskRequest::default()
    };
    assert_eq!(serde_json::to_string(&shown).unwrap(), text);
    assert_eq!(
        read_text(r#"{"callback":"c","actions":[]}"#).unwrap(),
        Actions::default()
    );
}

#[test]
fn every_mistake_is_named() {
    let to = r#"{"callback":"c","actions":[{"email":{"to":["a b"],"subject":"a\r\nBcc: x@y","body":""}}]}"#;
    let many = format!(r#"{{"callback":"c","actions":[{}]}}"#, ["{}"; 9].join(","));
    let long = email("s", &"x".repeat(5000));
    let http = r#""then":{"http":{"url":"http://a"}}"#;
    for (text, pointers) in [
        (r#"{"callback":"c","actions":[{}]}"#, &["/actions/0"][..]),
        (
            r#"{"callback":"c","actions":[{"http":{"url":"x"}}]}"#,
            &["/actions/0/http/url"],
        ),
        (to, &["/actions/0/email/to/0", "/actions/0/email/subject"]),
        (
            r#"{"callback":"c","actions":[{"email":{"to":[],"subject":"s","body":""}}]}"#,
            &["/actions/0/email/to"],
        ),
        (
            r#"{"callback":"c","actions":[{"email":{"to":["a@b.c"],"cc":["x"],"subject":"s","body":""}}]}"#,
            &["/actions/0/email/cc/0"],
        ),
        (
            r#"{"callback":"c","actions":[{"http":{"url":"http://a","method":"GET"},"payload":1}]}"#,
            &["/actions/0/payload"],
        ),
        (
            r#"{"callback":"c","actions":[{"email":{"to":["a@b.c"],"subject":"s","body":""},"payload":1}]}"#,
            &["/actions/0/payload"],
        ),
        (
            r#"{"callback":"c","actions":[{"states":[],"http":{"url":"http://a"}}]}"#,
            &["/actions/0/states"],
        ),
        (
            r#"{"callback":"c","actions":[{"states":["dead","faulted"],"http":{"url":"http://a"}}]}"#,
            &["/actions/0/states"],
        ),
        (&many, &["/actions"]),
        (&long, &["/actions"]),
        (
            r#"{"callback":"c","checks":[{"at":"soon","in":[]}]}"#,
            &["/checks/0/at", "/checks/0/in", "/checks/0"],
        ),
        (
            &format!(
                r#"{{"callback":"c","checks":[{{"at":"2030-13-01T00:00:00Z","in":["dead"],{http}}}]}}"#
            ),
            &["/checks/0/at"],
        ),
    ] {
        let error = read_text(text).unwrap_err();
        let found: Vec<&str> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(
            (error.code, &*found),
            (Code::InvalidRequest, pointers),
            "{text}"
        );
    }
    for text in [
        r#"{"callback":"c","actions":[["dead"]]}"#,
        r#"{"callback":"c","actions":[{"states":["processing"],"http":{"url":"http://a"}}]}"#,
        r#"{"callback":"c","checks":[{"at":"1m","in":["dead"],"els":{}}]}"#,
    ] {
        assert!(read_text(text).is_err(), "{text}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_its_field() {
    for (text, pointer, says) in [
        (
            email("{{task.none}}", ""),
            "/actions/0/email/subject",
            "not known",
        ),
        (email("s", "{{task.id"), "/actions/0/email/body", "without"),
        (
            r#"{"callback":"c","checks":[{"at":"1m","in":["dead"],"else":{"http":{"url":"http://a"},"payload":["{{task.none}}"]}}]}"#.to_owned(),
            "/checks/0/else/payload",
            "not known",
        ),
        (
            r#"{"callback":"c","actions":[{"http":{"url":"http://a"},"payload":"{{task.payload.user.mail}}"}]}"#.to_owned(),
            "/actions/0/payload",
            "no such value",
        ),
        (
            email("s", "{{task.payload.user.mail}}"),
            "/actions/0/email",
            "no such value",
        ),
        (
            r#"{"callback":"c","checks":[{"at":"2020-01-31T09:00:00Z","in":["dead"],"then":{"http":{"url":"http://a.example"}}}]}"#.to_owned(),
            "/checks/0/at",
            "in the past",
        ),
        (
            email("s", "x").replace(r#""callback":"c""#, r#""kafka":{"topic":"t"}"#),
            "/actions",
            "kafka",
        ),
    ] {
        let error = read_text(&text).unwrap_err();
        assert_eq!(
            (error.code, &*error.errors[0].pointer),
            (Code::UnusableAction, pointer)
        );
        assert!(error.detail.contains(says), "{error:?}");
    }
    assert!(read_text(&email("{{task.payload.user.name}}", "{{task.payload}}")).is_ok());
    let actions = read_text(&email("s", "x")).unwrap();
    let error = check(Some(&actions), true, &Content::default(), false, NOW).unwrap_err();
    assert!(error.detail.contains("--smtp-url"), "{error:?}");
    assert_eq!(error.code.status(), 422);
}
