//! Pages make and change schedules, show when their runs come, and show what the wheel and the last minute hold.

use std::time::Duration;

use serde_json::json;

use super::{Browser, full, guarded, schedules, text, values};

const NEW: &str = "/new/schedules";
const TASK: (&str, &str) = (
    "task",
    r#"{"callback": "report", "payload": {"n": 9007199254740993}}"#,
);

#[tokio::test(start_paused = true)]
async fn a_schedule_is_made_behind_a_look_at_its_runs_and_takes_no_others_place() {
    let site = schedules::site().await;
    let browser = Browser::default();
    let list = browser.page(&site, "/schedules").await;
    assert!(values(&list, "href").contains(&NEW), "{list}");
    let form = browser.page(&site, "/new/schedules?callback=mail").await;
    assert!(
        form.contains("&#34;callback&#34;: &#34;mail&#34;"),
        "{form}"
    );
    let wish = [
        ("name", "nightly-report"),
        ("cron", "30 7 * * MON-FRI\n0 12 * * SAT"),
        ("time_zone", "Europe/Berlin"),
        TASK,
    ];
    let shown = text(&browser.send(&site, NEW, &wish).await);
    assert!(shown.contains("These are its first runs"), "{shown}");
    assert!(shown.contains("data-zone=\"Europe/Berlin\""), "{shown}");
    assert_eq!(
        shown
            .matches("<span class=\"state good\">new</span>")
            .count(),
        20,
        "{shown}"
    );
    assert!(
        shown.contains("value=\"nightly-report\""),
        "the form is kept: {shown}"
    );
    site.get("/v1/schedules/nightly-report").await.problem();
    let save = |wish: &[(&'static str, &'static str)]| [wish, &[("act", "save")]].concat();
    let (path, said) = browser.done(&site, NEW, &save(&wish)).await;
    assert_eq!(
        (path.as_str(), said.as_str()),
        ("/schedules/nightly-report", "+The schedule is made.")
    );
    let made = site.get("/v1/schedules/nightly-report").await;
    let body = String::from_utf8(made.body.to_vec()).unwrap();
    assert!(body.contains("9007199254740993"), "{body}");
    let page = browser.page(&site, &path).await;
    assert!(page.contains("data-zone=\"Europe/Berlin\""), "{page}");
    // Another one of this name is not replaced, and the form stays as it was.
    let other = [("name", "nightly-report"), ("every", "1h"), TASK];
    let refused = text(&browser.send(&site, NEW, &save(&other)).await);
    assert!(
        refused.contains("there is a schedule nightly-report already"),
        "{refused}"
    );
    assert!(refused.contains("value=\"1h\""), "{refused}");
    let there = site.get("/v1/schedules/nightly-report").await.ok();
    assert!(there.get("every").is_none(), "{there}");
}

#[tokio::test(start_paused = true)]
async fn mistakes_in_a_new_schedule_stand_beside_their_fields() {
    let site = schedules::site().await;
    let browser = Browser::default();
    let sent = async |wish: &[(&str, &str)]| text(&browser.send(&site, NEW, wish).await);
    let nameless = sent(&[("every", "1h"), TASK]).await;
    assert!(
        nameless.contains("id=\"w-name\">A schedule needs a name"),
        "{nameless}"
    );
    for (wish, said) in [
        (
            [("name", "a"), ("cron", "61 * * * *"), TASK],
            "id=\"w-cron\"",
        ),
        ([("name", "a"), ("every", "soon"), TASK], "id=\"w-every\""),
        ([("name", "a b/c"), ("every", "1h"), TASK], "name"),
        (
            [("name", "a"), ("every", "1h"), ("task", "{")],
            "the task is no JSON",
        ),
        (
            [("name", "a"), ("every", "1h"), ("task", "{\"callbak\": 1}")],
            "callbak",
        ),
    ] {
        let shown = sent(&wish).await;
        assert!(shown.contains(said), "{said}: {shown}");
        assert!(!shown.contains("Create it"), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_operators_have_the_pages_that_are_forms() {
    let (site, admin, _) = guarded().await;
    let pages = [
        NEW,
        "/schedules/nightly/change",
        "/tasks/all?q=callback%3Awork",
    ];
    for role in ["viewer", "producer", "operator"] {
        let (_, key) = site.key(&admin, json!({"name": role, "role": role})).await;
        let browser = Browser::of(&key);
        for path in pages {
            let status = browser.get(&site, path).await.status;
            let expected = if role == "operator" { 200 } else { 403 };
            assert_eq!(status, expected, "{role} {path}");
        }
        let wish = [("name", "mine"), ("every", "1h"), TASK, ("act", "save")];
        let made = browser.send(&site, NEW, &wish).await;
        assert_eq!(
            made.status == 303,
            role == "operator",
            "{role}: {}",
            text(&made)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_overview_shows_the_last_minute_and_what_waits_for_what() {
    let (site, [dead, ..]) = full().await;
    let browser = Browser::default();
    let first = json!({"callback": "first", "delay": "1h"});
    let first = site.post("/v1/tasks", first.to_string()).await.json();
    for _ in 0..3 {
        let waits = json!({"callback": "second", "after": {"ids": [first["id"]]}});
        let answer = site.post("/v1/tasks", waits.to_string()).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
    }
    site.world.pass(Duration::from_secs(2)).await;
    let stats = site.get("/v1/stats").await.ok();
    let seconds = &stats["node"]["seconds"];
    let registered = seconds["registered"].as_array().unwrap();
    assert_eq!(registered.len(), 60, "{seconds}");
    let sum: u64 = registered.iter().map(|count| count.as_u64().unwrap()).sum();
    let rate = stats["node"]["registered_per_second"].as_f64().unwrap();
    assert!(
        (sum as f64 / 60.0 - rate).abs() < 1e-9 && sum >= 4,
        "{sum} {rate}"
    );
    let counts = stats["tasks"]["callbacks"].as_array().unwrap();
    let of = |name: &str| counts.iter().find(|one| one["callback"] == name).unwrap();
    assert_eq!(of("second")["waiting"], 3, "{stats}");
    assert_eq!(of("work")["dead"], 2, "{dead}: {stats}");
    let waiting: u64 = counts
        .iter()
        .map(|one| one["waiting"].as_u64().unwrap())
        .sum();
    assert_eq!(stats["tasks"]["waiting"], waiting, "{stats}");
    let html = browser.page(&site, "/").await;
    for shown in [
        "The last minute",
        "1 s ago: ",
        "waiting for others\">3</td>",
        "dead\">2</td>",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
}
