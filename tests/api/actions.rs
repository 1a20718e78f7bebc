//! Clients have things done when tasks end and at times, and read how that went.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::{
    app::executor::{Executor, mail::Mailed},
    http::{Options, router},
    model::state::Outcome,
};
use tokio_util::sync::CancellationToken;

use super::{Site, request};
use crate::sim::{
    letters::Letters,
    world::{Behaviour, World},
};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A site that sends e-mails.
pub(super) async fn site() -> (Site, Letters) {
    let (world, letters) = (World::new(1, 1000), Letters::default());
    let node = world.node(1);
    let executor = Executor {
        service: node.service(),
        node: "node".to_owned(),
        time: node.time.clone(),
        drain_limit: SECOND,
        allowed: Default::default(),
        mail: Some(Arc::new(letters.clone())),
    };
    tokio::spawn(executor.run(CancellationToken::new()));
    world.pass(SECOND * 3).await;
    (Site::of(world, node), letters)
}

fn ends(outcome: impl Fn() -> Outcome + Send + Sync + 'static) -> Behaviour {
    Arc::new(move |_, _| (SECOND / 10, Some(outcome())))
}

fn fails() -> Behaviour {
    ends(|| Outcome::Failed {
        error: "no route\r\nto host".to_owned(),
    })
}

pub(super) fn succeeds() -> Behaviour {
    let result = || Some(axum::body::Bytes::from_static(b"{\"sum\":7}").into());
    ends(move || Outcome::Succeeded { result: result() })
}

pub(super) async fn registered(site: &Site, body: &Value) -> String {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

pub(super) async fn read(site: &Site, id: &str) -> Value {
    site.get(&format!("/v1/tasks/{id}")).await.ok()
}

pub(super) fn email(subject: &str, body: &str) -> Value {
    json!({"to": ["ada@example.org"], "subject": subject, "body": body})
}

#[tokio::test(start_paused = true)]
async fn an_end_sends_its_e_mail_with_the_facts_of_the_task() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), fails());
    let subject = "{{task.callback}} {{task.state}}: {{task.error}}";
    let body = "{{task.id}} of {{task.labels.tenant}}: {{task.payload.user.name}}, {{task.attempt}}{{task.result}}";
    let mut mail = email(subject, body);
    mail["cc"] = json!(["bob@example.org"]);
    let actions = json!([
        {"states": ["failed", "dead"], "email": mail},
        {"states": ["succeeded"], "email": email("s", "b")},
    ]);
    let task = json!({"callback": "work", "labels": {"tenant": "acme"}, "delay": "5s",
        "payload": {"user": {"name": "Ada"}}, "actions": actions});
    let id = registered(&site, &task).await;
    let waiting = read(&site, &id).await["actions"].clone();
    assert_eq!(
        waiting, actions,
        "an action whose time has not come has no outcome"
    );
    site.world.pass(SECOND * 10).await;
    let taken = letters.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    let (_, mail) = &taken[0];
    assert_eq!(
        (&mail.to[0], &mail.cc[0]),
        (&"ada@example.org".to_owned(), &"bob@example.org".to_owned())
    );
    assert_eq!(mail.subject, "work failed: no route to host");
    assert_eq!(mail.body, format!("{id} of acme: Ada, 1"));
    let shown = read(&site, &id).await["actions"].clone();
    assert_eq!(
        (&shown[0]["outcome"], &shown[0]["attempt"]),
        (&json!("done"), &json!(1))
    );
    assert_eq!(shown[1].get("outcome"), None, "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_large_payload_and_a_result_are_told() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), succeeds());
    let text = "x".repeat(3000);
    let actions =
        json!([{"email": email("{{task.result.sum}}", "{{task.payload.0.a}} {{task.payload.1}}")}]);
    let task = json!({"callback": "work", "payload": [{"a": "first"}, text], "actions": actions});
    registered(&site, &task).await;
    site.world.pass(SECOND * 5).await;
    let (_, mail) = letters.taken().remove(0);
    assert_eq!(mail.subject, "7");
    assert!(
        mail.body.starts_with("first xxx") && mail.body.ends_with('…'),
        "{}",
        mail.body
    );
}

#[tokio::test(start_paused = true)]
async fn an_e_mail_is_tried_again_and_given_up_where_the_server_refuses_it() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), succeeds());
    let later = || Mailed::Later("450 mailbox busy".to_owned());
    letters.answer([later(), Mailed::Busy(SECOND), later()]);
    let task = json!({"callback": "work", "actions": [{"email": email("s", "b")}]});
    let id = registered(&site, &task).await;
    site.world.pass(SECOND / 2).await;
    let shown = read(&site, &id).await["actions"][0].clone();
    assert_eq!(
        (&shown["outcome"], &shown["error"]),
        (&json!("retrying"), &json!("450 mailbox busy"))
    );
    site.world.pass(SECOND * 20).await;
    assert_eq!(letters.taken().len(), 1);
    let shown = read(&site, &id).await["actions"][0].clone();
    assert_eq!(
        (&shown["outcome"], shown.get("error")),
        (&json!("done"), None)
    );

    letters.answer([Mailed::Refused("550 no such user".to_owned())]);
    let id = registered(&site, &task).await;
    site.world.pass(SECOND * 20).await;
    let shown = read(&site, &id).await["actions"][0].clone();
    assert_eq!(
        (&shown["outcome"], &shown["error"]),
        (&json!("given_up"), &json!("550 no such user"))
    );
    assert_eq!(letters.taken().len(), 1);
}

#[tokio::test(start_paused = true)]
#[ignore = "passes a day of virtual time: make test-all"]
async fn a_check_asks_at_its_time_and_does_what_the_answer_says() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), succeeds());
    let deed = |text: &str| json!({"email": email(text, "{{task.state}}")});
    let check =
        json!({"at": "30m", "in": ["succeeded"], "then": deed("well"), "else": deed("late")});
    let well = json!({"callback": "work", "delay": "10s", "checks": [check]});
    let well = registered(&site, &well).await;
    // No worker runs it: the check finds it waiting.
    let late = json!({"callback": "other", "delay": "10s", "retention": "1m", "checks": [
        {"at": "30m", "in": ["succeeded"], "then": deed("well"), "else": deed("late")},
        {"at": "2h", "in": ["cancelled"], "then": deed("cancelled"), "else": deed("not")},
        {"at": "1h", "in": ["succeeded"], "then": deed("never")},
        {"at": "0s", "in": ["succeeded"], "else": deed("at once")},
    ]});
    let late = registered(&site, &late).await;
    site.world.pass(SECOND * 1700).await;
    assert_eq!(letters.taken().remove(0).1.subject, "at once");
    let waiting = read(&site, &late).await["checks"][0].clone();
    assert_eq!(
        (waiting.get("outcome"), &waiting["at"]),
        (None, &json!("30m"))
    );
    site.world.pass(SECOND * 200).await;
    let subjects = || {
        let taken = letters.taken().into_iter();
        let mut subjects: Vec<String> = taken
            .map(|(_, mail)| mail.subject + " " + &mail.body)
            .collect();
        subjects.sort();
        subjects
    };
    assert_eq!(
        subjects(),
        ["at once scheduled", "late enqueued", "well succeeded"]
    );
    let shown = read(&site, &well).await["checks"][0].clone();
    assert_eq!(
        (&shown["outcome"], &shown["answer"]),
        (&json!("done"), &json!("then"))
    );
    site.post(&format!("/v1/tasks/{late}/cancel"), "")
        .await
        .ok();
    // Longer than its retention: the checks need it.
    site.world.pass(SECOND * 3600 * 2).await;
    assert_eq!(
        subjects(),
        [
            "at once scheduled",
            "cancelled cancelled",
            "late enqueued",
            "well succeeded"
        ]
    );
    let shown = read(&site, &late).await["checks"].clone();
    assert_eq!(
        (&shown[2]["answer"], &shown[2]["outcome"]),
        (&json!("else"), &json!("done"))
    );
    site.world.pass(SECOND * 3600 * 25).await;
    assert_eq!(site.get(&format!("/v1/tasks/{late}")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_is_refused_with_its_field() {
    let (site, _) = site().await;
    let with =
        |field: &str, value: Value| json!({"callback": "c", "payload": {"a": 1}, field: value});
    for (body, status, code, pointer) in [
        (
            with("actions", json!([{"email": email("{{task.nothing}}", "")}])),
            422,
            "unusable_action",
            "/actions/0/email/subject",
        ),
        (
            with(
                "actions",
                json!([{"email": email("s", "{{task.payload.b}}")}]),
            ),
            422,
            "unusable_action",
            "/actions/0/email",
        ),
        (
            with(
                "actions",
                json!([{"email": email("a\r\nBcc: eve@example.org", "")}]),
            ),
            400,
            "invalid_request",
            "/actions/0/email/subject",
        ),
        (
            with(
                "actions",
                json!([{"states": ["dead", "faulted"], "email": email("s", "b")}]),
            ),
            400,
            "invalid_request",
            "/actions/0/states",
        ),
        (
            with(
                "actions",
                json!([{"email": email("s", "b")}, {"states": ["faulted"], "email": email("s", "b")}]),
            ),
            422,
            "unusable_action",
            "/actions/1/states",
        ),
        (
            json!({"callback": "c", "children": [with("actions", json!([{"states": ["completed"], "email": email("s", "b")}]))]}),
            422,
            "unusable_action",
            "/children/0/actions/0/states",
        ),
        (
            with(
                "checks",
                json!([{"at": "1m", "in": ["faulted"], "then": {"email": email("s", "b")}}]),
            ),
            422,
            "unusable_action",
            "/checks/0/in",
        ),
        (
            with("checks", json!([{"at": "1m", "in": ["succeeded"]}])),
            400,
            "invalid_request",
            "/checks/0",
        ),
        (
            with(
                "checks",
                json!([{"at": "2020-01-31T09:00:00Z", "in": ["dead"], "then": {"email": email("s", "b")}}]),
            ),
            422,
            "unusable_action",
            "/checks/0/at",
        ),
        (
            json!({"kafka": {"topic": "t"}, "checks": [{"at": "1m", "in": ["dead"], "then": {"email": email("s", "b")}}]}),
            422,
            "unusable_action",
            "/checks",
        ),
    ] {
        let answer = site.post("/v1/tasks", body.to_string()).await;
        assert_eq!(answer.status, status, "{body}");
        let problem = answer.problem();
        assert_eq!(
            (&*problem.code, &*problem.errors[0].pointer),
            (code, pointer),
            "{body}: {problem:?}"
        );
    }
    let at =
        json!([{"at": "2030-01-31T09:00:00Z", "in": ["dead"], "then": {"email": email("s", "b")}}]);
    let schedule = json!({"every": "15m", "task": {"callback": "c", "checks": at}}).to_string();
    let put = request(axum::http::Method::PUT, "/v1/schedules/s", schedule);
    assert_eq!(
        site.send(put).await.problem().errors[0].pointer,
        "/task/checks/0/at"
    );
    let options = Options {
        has_mail: false,
        ..Options::new(site.node.time.clone(), CancellationToken::new())
    };
    let plain = router(site.node.service(), options);
    let body = with("actions", json!([{"email": email("s", "b")}])).to_string();
    let sent = request(axum::http::Method::POST, "/v1/tasks", body);
    let problem = super::Answer::of(plain, sent).await.problem();
    assert_eq!(
        (&*problem.code, problem.detail.contains("--smtp-url")),
        ("unusable_action", true)
    );
}

/// Nothing that a client writes begins a header, names another receiver, or is read as a template.
#[tokio::test(start_paused = true)]
async fn headers_and_receivers_cannot_be_injected() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), fails());
    for (field, value) in [
        ("to", json!(["ada@example.org\r\nBcc: eve@example.org"])),
        ("to", json!(["ada@example.org, eve@example.org"])),
        ("to", json!(["Ada <ada@example.org>"])),
        ("to", json!([])),
        ("to", json!(vec!["ada@example.org"; 11])),
        ("subject", json!("a\nBcc: eve@example.org")),
        ("subject", json!("a\u{2028}b")),
    ] {
        let mut mail = email("s", "b");
        mail[field] = value;
        let body = json!({"callback": "work", "actions": [{"email": mail}]});
        let answer = site.post("/v1/tasks", body.to_string()).await;
        assert_eq!(answer.status, 400, "{body}");
        let pointer = answer.problem().errors[0].pointer.clone();
        let at = format!("/actions/0/email/{field}");
        assert!(pointer.starts_with(&at), "{body}: {pointer}");
    }
    let evil = "x\r\nBcc: eve@example.org\r\n\r\n{{task.id}}";
    let mail = email(
        "{{task.payload.a}} {{task.payload.b}}",
        "{{task.payload.a}}",
    );
    let payload = json!({"a": evil, "b": "b\r\nCc: eve@example.org"});
    let body = json!({"callback": "work", "payload": payload, "actions": [{"email": mail}]});
    registered(&site, &body).await;
    site.world.pass(SECOND * 5).await;
    let (_, mail) = letters.taken().remove(0);
    assert_eq!(mail.to, ["ada@example.org"]);
    assert!(!mail.subject.chars().any(char::is_control), "{mail:?}");
    assert!(
        mail.subject.contains("Bcc: eve") && mail.subject.contains("Cc: eve"),
        "{mail:?}"
    );
    assert!(mail.body.contains("{{task.id}}"), "{mail:?}");
}

/// A mail server that does not answer keeps its own e-mails waiting, and nothing else.
#[tokio::test(start_paused = true)]
async fn an_action_that_hangs_delays_no_other_and_changes_no_end() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), succeeds());
    let with =
        |subject: &str| json!({"callback": "work", "actions": [{"email": email(subject, "b")}]});
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(registered(&site, &with("silent")).await);
    }
    let well = registered(&site, &with("well")).await;
    site.world.pass(SECOND * 3).await;
    let subjects: Vec<String> = letters
        .taken()
        .into_iter()
        .map(|(_, mail)| mail.subject)
        .collect();
    assert_eq!(subjects, ["well"]);
    for id in silent.iter().chain([&well]) {
        let task = read(&site, id).await;
        assert_eq!(task["state"], "succeeded", "{task}");
        let outcome = if *id == well { "done" } else { "pending" };
        assert_eq!(task["actions"][0]["outcome"], outcome, "{task}");
    }
    site.world.pass(SECOND * 120).await;
    let task = read(&site, &silent[0]).await;
    assert_eq!(
        (&task["state"], &task["attempt"]),
        (&json!("succeeded"), &json!(1))
    );
    assert!(task["actions"][0]["attempt"].as_u64() > Some(1), "{task}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_tree_has_actions_of_its_own() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), succeeds());
    let actions = json!([
        {"states": ["completed"], "email": email("completed", "{{task.state}} {{task.tree_state}}")},
        {"states": ["faulted"], "email": email("faulted", "{{task.state}} {{task.tree_state}}")},
        {"states": ["succeeded"], "email": email("run", "{{task.state}} {{task.tree_state}}")},
    ]);
    let leaf = json!({"callback": "work", "delay": "20s"});
    let tree = json!({"callback": "work", "actions": actions, "children": [leaf, leaf]});
    let root = registered(&site, &tree).await;
    site.world.pass(SECOND * 10).await;
    let mails = || {
        let taken = letters.taken().into_iter();
        taken
            .map(|(_, mail)| (mail.subject, mail.body))
            .collect::<Vec<_>>()
    };
    let text = |subject: &str, body: &str| (subject.to_owned(), body.to_owned());
    let run = text("run", "succeeded waiting_for_children");
    assert_eq!(mails(), std::slice::from_ref(&run));
    let shown = read(&site, &root).await["actions"].clone();
    assert_eq!(
        (shown[0].get("outcome"), &shown[2]["outcome"]),
        (None, &json!("done"))
    );
    site.world.pass(SECOND * 30).await;
    assert_eq!(mails(), [run, text("completed", "succeeded completed")]);
    let shown = read(&site, &root).await["actions"].clone();
    assert_eq!(
        (&shown[0]["outcome"], shown[1].get("outcome")),
        (&json!("done"), None)
    );

    let (site, letters) = self::site().await;
    site.world.worker(site.node.service(), fails());
    registered(
        &site,
        &json!({"callback": "work", "actions": actions, "children": []}),
    )
    .await;
    site.world.pass(SECOND * 10).await;
    let taken = letters.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    let mail = &taken[0].1;
    assert_eq!((&*mail.subject, &*mail.body), ("faulted", "failed faulted"));
}

/// The commands of docs/actions.md do what the page says.
#[tokio::test(start_paused = true)]
async fn the_commands_of_the_page_send_their_e_mails() {
    let page = include_str!("../../docs/actions.md");
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), fails());
    for name in ["action", "check"] {
        let command = crate::readme_block::block_of(page, name);
        let (_, body) = command.split_once("-d '").unwrap();
        let mut body: Value = serde_json::from_str(body.trim().trim_end_matches('\'')).unwrap();
        body["callback"] = json!("work");
        registered(&site, &body).await;
    }
    site.world.pass(SECOND * 1900).await;
    let subjects: Vec<String> = letters
        .taken()
        .into_iter()
        .map(|(_, mail)| mail.subject)
        .collect();
    assert_eq!(subjects, ["work failed", "The report of acme is late"]);
}
