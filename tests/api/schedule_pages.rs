//! Schedules are checked, previewed, listed, read back and made up for by people.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};

use super::{
    Site, request,
    schedules::{every, executed, millis, runs, set, site},
};
use crate::sim::world::succeeds;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn times_are_shown_in_words_in_the_zone_and_in_utc() {
    let site = site().await;
    let body = json!({"cron": ["30 2 * * MON-FRI"], "time_zone": "Europe/Berlin", "task": {"callback": "work"}});
    let path = "/v1/schedules:preview?count=3&from=2027-03-25T12:00:00Z";
    let preview = site.post(path, body.to_string()).await.ok();
    assert_eq!(preview["description"], "At 02:30, Monday to Friday");
    assert!(
        preview["time_zone_version"]
            .as_str()
            .unwrap()
            .starts_with("20"),
        "{preview}"
    );
    let times = |preview: &Value| -> Vec<(String, String)> {
        let times = preview["run_times"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        times
            .map(|time| (text(&time["local"]), text(&time["utc"])))
            .collect()
    };
    let shown = times(&preview);
    let local: Vec<&String> = shown.iter().map(|(local, _)| local).collect();
    assert_eq!(preview["next_run_times"], json!(local), "as of a schedule");
    assert_eq!(
        shown[0],
        (
            "2027-03-26T02:30:00+01:00".to_owned(),
            "2027-03-26T01:30:00.000Z".to_owned()
        )
    );
    assert_eq!(
        shown[1],
        (
            "2027-03-29T02:30:00+02:00".to_owned(),
            "2027-03-29T00:30:00.000Z".to_owned()
        )
    );
    assert_eq!(
        site.get("/v1/schedules").await.ok()["schedules"],
        json!([]),
        "nothing is stored"
    );
    // The clocks of the 28 March 2027 leave 02:30 out.
    let sundays =
        json!({"cron": "CRON_TZ=Europe/Berlin 30 2 * * SUN", "task": {"callback": "work"}});
    set(&site, "sundays", sundays).await;
    let path = "/v1/schedules/sundays/preview?count=1&from=2027-03-27T12:00:00Z";
    let preview = site.get(path).await.ok();
    assert_eq!(times(&preview)[0].0, "2027-03-28T03:00:00+02:00");
    let hashed =
        |name: &str| format!("/v1/schedules:preview?name={name}&count=1&from=2027-01-01T00:00:00Z");
    let body = json!({"cron": "H H * * *", "task": {"callback": "work"}}).to_string();
    let one = site.post(&hashed("a"), body.clone()).await.ok();
    let other = site.post(&hashed("b"), body.clone()).await.ok();
    assert_ne!(one["run_times"], other["run_times"], "names spread");
    assert_eq!(site.post(&hashed("a"), body).await.ok(), one);
    let refused = site.get("/v1/schedules/sundays/preview?count=1000").await;
    assert_eq!(refused.problem().errors[0].pointer, "?count");
}

#[tokio::test(start_paused = true)]
async fn a_preview_ends_with_the_limit() {
    let site = site().await;
    let body = json!({"cron": "@Daily", "limit": 2, "task": {"callback": "work"}});
    let path = "/v1/schedules:preview?count=5&from=2027-03-25T12:00:00Z";
    let preview = site.post(path, body.to_string()).await.ok();
    let days = ["2027-03-26T00:00:00+00:00", "2027-03-27T00:00:00+00:00"];
    assert_eq!(preview["next_run_times"], json!(days));
    set(&site, "daily", body).await;
    let stored = site.get("/v1/schedules/daily/preview?count=5").await.ok();
    assert_eq!(stored["next_run_times"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_exported_is_imported_elsewhere_and_one_bad_schedule_fails_only_itself() {
    let (site, other) = (site().await, site().await);
    let task = json!({"callback": "work", "payload": {"user": 7}});
    for number in 0..3 {
        let every = json!({"every": format!("{}h", number + 1), "note": "kept", "task": task});
        set(&site, &format!("s{number}"), every).await;
    }
    site.post("/v1/schedules/s1/pause", "{}").await.ok();
    let mut all: Vec<Value> = Vec::new();
    let mut path = "/v1/schedules:export?page_size=2".to_owned();
    loop {
        let page = site.get(&path).await.ok();
        all.extend(page["schedules"].as_array().unwrap().iter().cloned());
        let Some(token) = page["next_page_token"].as_str() else {
            break;
        };
        path = format!("/v1/schedules:export?page_size=2&page_token={token}");
    }
    assert_eq!(all.len(), 3);
    assert_eq!(all[1]["schedule"]["paused"], true);
    all.insert(1, json!({"name": "bad", "schedule": {"task": task}}));
    let import = async |site: &Site| {
        let body = json!({"schedules": all}).to_string();
        let results = site.post("/v1/schedules:import", body).await.ok()["results"].take();
        let said = |result: &Value| {
            let name = result["name"].as_str().unwrap().to_owned();
            let outcome = result["outcome"].as_str().unwrap_or("error").to_owned();
            (name, outcome)
        };
        results
            .as_array()
            .unwrap()
            .iter()
            .map(said)
            .collect::<Vec<_>>()
    };
    let named = |outcome: &str| {
        ["s0", "bad", "s1", "s2"].map(|name| {
            let outcome = if name == "bad" { "error" } else { outcome };
            (name.to_owned(), outcome.to_owned())
        })
    };
    assert_eq!(import(&other).await, named("created"));
    assert_eq!(import(&other).await, named("unchanged"));
    let read =
        async |site: &Site, name: &str| site.get(&format!("/v1/schedules/{name}")).await.ok();
    for name in ["s0", "s1", "s2"] {
        let (here, there) = (read(&site, name).await, read(&other, name).await);
        for field in ["schedule", "state", "description"] {
            assert_eq!(here[field], there[field], "{name} {field}");
        }
    }
    set(&other, "s0", json!({"every": "9h", "task": task})).await;
    let again = import(&other).await;
    assert_eq!(again[0].1, "replaced");
    assert_eq!(again[2].1, "unchanged");
}

#[tokio::test(start_paused = true)]
async fn what_would_never_run_is_refused_with_the_field_and_the_remedy() {
    let site = site().await;
    let task = json!({"callback": "work"});
    let with = |more: Value| {
        let mut body = json!({"cron": "0 * * * *", "task": task});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    for (body, pointer, said) in [
        (json!({"task": task}), "", "give `cron` or `every`"),
        (with(json!({"every": "5m"})), "/every", "exclude each other"),
        (with(json!({"cron": "0 0 31 2 *"})), "/cron", "never due"),
        (
            with(json!({"cron": "61 * * * *"})),
            "/cron",
            "minute: `61` is not a number from 0 to 59",
        ),
        (
            with(json!({"cron": ["@daily", "x"]})),
            "/cron/1",
            "five fields",
        ),
        (with(json!({"cron": []})), "/cron", "empty list"),
        (
            with(json!({"cron": "1,".repeat(200) + "1 * * * *"})),
            "/cron",
            "at most 256",
        ),
        (
            with(json!({"cron": vec!["@daily"; 17]})),
            "/cron",
            "more than 16",
        ),
        (
            json!({"every": "10ms", "task": task}),
            "/every",
            "one second to ten years",
        ),
        (
            with(json!({"time_zone": "Europe/Atlantis"})),
            "/time_zone",
            "is not known",
        ),
        (
            with(json!({"cron": "TZ=Mars/Base 0 * * * *"})),
            "/cron",
            "is not known",
        ),
        (
            with(json!({"start_time": "2030-01-02T00:00:00Z", "end_time": "2030-01-01T00:00:00Z"})),
            "/end_time",
            "before `start_time`",
        ),
        (
            with(json!({"end_time": "2020-01-01T00:00:00Z"})),
            "/end_time",
            "no time of the schedule",
        ),
        (with(json!({"limit": 0})), "/limit", "at least 1"),
        (
            with(json!({"jitter": "25h"})),
            "/jitter",
            "at most 24 hours",
        ),
        (
            with(json!({"catch_up_window": "4d"})),
            "/catch_up_window",
            "at most 72 hours",
        ),
        (
            with(json!({"note": "x".repeat(1025)})),
            "/note",
            "at most 1024",
        ),
        (json!({"cron": "@daily"}), "/task", "is missing"),
        (
            with(json!({"task": {"callback": "wo rk"}})),
            "/task/callback",
            "must consist of",
        ),
        (
            with(json!({"task": {"callback": "work", "key": "k"}})),
            "/task/key",
            "leave it out",
        ),
        (
            with(json!({"task": {"callback": "work", "delay": "5s"}})),
            "/task/delay",
            "leave it out",
        ),
        (
            with(json!({"overlap": "skip", "task": {"kafka": {"topic": "t"}}})),
            "/overlap",
            "must be `allow`",
        ),
    ] {
        let answer = site.put("/v1/schedules/bad", &body).await;
        let problem = answer.problem();
        assert_eq!(answer.status, 400, "{body}: {problem:?}");
        let errors = problem.errors;
        let found = errors.iter().find(|error| error.pointer == pointer);
        assert!(
            found.is_some_and(|error| error.detail.contains(said)),
            "{body}: {errors:?}"
        );
    }
    let large = with(json!({"task": {"callback": "work", "payload": "x".repeat(17_000)}}));
    let answer = site.put("/v1/schedules/bad", &large).await;
    assert_eq!(answer.status, 413, "{:?}", answer.body);
    let unknown = site
        .put("/v1/schedules/bad", &with(json!({"timezone": "UTC"})))
        .await;
    assert!(
        String::from_utf8_lossy(&unknown.body).contains("time_zone"),
        "{:?}",
        unknown.body
    );
    assert_eq!(site.get("/v1/schedules/bad").await.status, 404);
    assert_eq!(
        site.put("/v1/schedules/b%20d", &every("1h")).await.status,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn a_schedule_can_be_read_and_set_again_under_the_condition_of_its_tag() {
    let site = site().await;
    let body = json!({
        "cron": ["0 9 * * MON-FRI", "0 12 * * SAT"], "time_zone": "Europe/Berlin", "jitter": "5m", "limit": 100,
        "overlap": "buffer_one", "missed": "skip", "catch_up_window": "1h", "note": "report", "labels": {"team": "a"},
        "task": {"callback": "work", "payload": {"a": [1, 2]}, "max_attempts": 3, "retention": "24h", "labels": {"x": "y"}}});
    let created = site.put("/v1/schedules/report", &body).await;
    assert_eq!(
        (created.status.as_u16(), created.header("location")),
        (201, "/v1/schedules/report")
    );
    let tag = created.header("etag").to_owned();
    let read = site.get("/v1/schedules/report").await;
    assert_eq!(read.header("etag"), tag);
    let mut shown = read.json();
    let settings = shown.as_object_mut().unwrap();
    settings.retain(|name, _| body.get(name).is_some());
    for (name, value) in body.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    // As it was shown it can be set again, and is the same.
    let again = set(&site, "report", shown).await;
    assert_eq!(again["generation"], json!(1));
    let conditional = async |method: Method, name: &'static str, tag: &str, body: String| {
        let mut request = request(method, "/v1/schedules/report", body);
        request.headers_mut().insert(name, tag.parse().unwrap());
        site.send(request).await.status.as_u16()
    };
    assert_eq!(
        conditional(Method::PUT, "if-none-match", "*", every("1h").to_string()).await,
        412
    );
    assert_eq!(
        conditional(Method::PUT, "if-match", "\"0\"", every("1h").to_string()).await,
        412
    );
    assert_eq!(
        conditional(Method::PUT, "if-match", &tag, every("1h").to_string()).await,
        200
    );
    assert_eq!(
        conditional(Method::DELETE, "if-match", &tag, String::new()).await,
        412
    );
    assert_eq!(
        conditional(Method::DELETE, "if-match", "*", String::new()).await,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn lists_have_pages_and_a_kafka_task_is_a_schedule_as_well() {
    let site = site().await;
    for number in 0..5 {
        set(&site, &format!("s{number}"), every("1h")).await;
    }
    let mut names = Vec::new();
    let mut token = String::new();
    loop {
        let page = site
            .get(&format!("/v1/schedules?page_size=2&page_token={token}"))
            .await
            .ok();
        let schedules = page["schedules"].as_array().unwrap();
        names.extend(
            schedules
                .iter()
                .map(|one| one["name"].as_str().unwrap().to_owned()),
        );
        match page["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4"]);
    let foreign = site.get("/v1/schedules?page_token=%21%21").await;
    assert_eq!(foreign.problem().errors[0].pointer, "?page_token");
    site.world.queue.create_topic("events", None);
    let body = json!({"every": "10s", "limit": 3, "task": {"kafka": {"topic": "events", "key": "k"}, "payload": {"n": 1}}});
    let created = set(&site, "events", body).await;
    assert_eq!(created["overlap"], "allow");
    site.world.pass(MINUTE).await;
    assert_eq!(site.world.queue.records("events").len(), 3);
    let read = site.get("/v1/schedules/events").await.ok();
    assert_eq!(read["state"], "ended", "{read}");
    assert!(millis(&read["update_time"]) >= millis(&read["create_time"]));
}

#[tokio::test(start_paused = true)]
async fn a_backfill_starts_a_run_for_each_time_that_has_passed() {
    let site = site().await;
    let worker = site
        .world
        .worker(site.node.service(), succeeds(SECOND / 10));
    let body =
        json!({"cron": "0 * * * *", "time_zone": "Europe/Berlin", "task": {"callback": "work"}});
    set(&site, "hourly", body).await;
    let span = json!({"from": "2027-01-14T00:00:00Z", "to": "2027-01-14T23:00:00Z"});
    let begun = async |more: Value| {
        let mut body = span.clone();
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        site.post("/v1/schedules/hourly/backfill", body.to_string())
            .await
    };
    let ended = async |job: &Value| {
        let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
        for _ in 0..100 {
            let job = site.get(&path).await.ok();
            if job.get("end_time").is_some() {
                return job;
            }
            site.world.pass(SECOND).await;
        }
        panic!("it does not end");
    };
    let dry = begun(json!({"dry_run": true})).await;
    assert_eq!(dry.status, 202, "{:?}", dry.body);
    let dry = ended(&dry.json()).await;
    assert_eq!(
        (&dry["kind"], &dry["schedule"]),
        (&json!("backfill"), &json!("hourly"))
    );
    assert_eq!(
        (&dry["state"], &dry["total_estimate"]),
        (&json!("completed"), &json!(24)),
        "{dry}"
    );
    assert_eq!(dry["sample_times"][0], "2027-01-14T00:00:00.000Z");
    assert_eq!(executed(&site).len(), 0);
    let job = ended(&begun(json!({"rate_per_second": 10})).await.json()).await;
    assert_eq!(
        (&job["state"], &job["done"]),
        (&json!("completed"), &json!(24)),
        "{job}"
    );
    site.world.pass(10 * SECOND).await;
    assert_eq!(executed(&site).len(), 24);
    let listed = runs(&site, "hourly").await;
    let made_up = listed
        .iter()
        .filter(|run| run["cause"] == "backfill" && run["state"] == "succeeded");
    assert_eq!(made_up.count(), 24);
    for (more, pointer, said) in [
        (
            json!({"to": "2030-01-01T00:00:00Z"}),
            "/to",
            "has not passed",
        ),
        (
            json!({"to": "2026-01-01T00:00:00Z"}),
            "/to",
            "before `from`",
        ),
        (
            json!({"from": "2020-01-01T00:00:00Z"}),
            "/to",
            "more than 10000",
        ),
        (
            json!({"from": "2027-01-14T22:10:00Z", "to": "2027-01-14T22:20:00Z"}),
            "/to",
            "no time",
        ),
        (json!({"rate_per_second": 0}), "/rate_per_second", "must be"),
    ] {
        let problem = begun(more.clone()).await.problem();
        let found = problem.errors.iter().find(|error| error.pointer == pointer);
        assert!(
            found.is_some_and(|error| error.detail.contains(said)),
            "{more}: {problem:?}"
        );
    }
    let body = json!({"kind": "backfill", "all": true}).to_string();
    assert_eq!(site.post("/v1/jobs", body).await.status, 422);
    worker.abort();
}
