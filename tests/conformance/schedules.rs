//! Schedules start one run at each of their times.

use std::{collections::BTreeSet, sync::Arc};

use reqwest::Method;
use serde_json::{Value, json};

use super::service::{Service, echoes, millis, pause, text};

async fn runs(service: &Service, name: &str) -> Vec<Value> {
    let page = service
        .get(&format!("/v1/schedules/{name}/runs"))
        .await
        .ok();
    page["runs"].as_array().unwrap().clone()
}

pub(super) async fn each_time_is_one_run(service: Arc<Service>) {
    let name = service.name("ping");
    let seen = service.worker(&name, &echoes(1));
    let path = format!("/v1/schedules/{name}");
    let body = json!({"every": "1s", "overlap": "allow", "missed": "all", "limit": 6, "task": {"callback": name}});
    let created = service.put(&path, &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.body["next_run_times"].as_array().unwrap().len(), 5);
    assert!(created.body["time_zone_version"].is_string(), "{created:?}");
    service
        .until("six runs have ended", || async {
            seen.lock().unwrap().len() >= 6
        })
        .await;
    pause(2500).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 6, "{seen:?}");
    let times: BTreeSet<i64> = seen
        .iter()
        .map(|run| millis(&run.task["scheduled_time"]))
        .collect();
    let times: Vec<i64> = times.into_iter().collect();
    assert!(
        times.len() == 6 && times.windows(2).all(|two| two[1] - two[0] == 1000),
        "{times:?}"
    );
    for run in &seen {
        assert!(
            run.began >= millis(&run.task["scheduled_time"]),
            "early: {run:?}"
        );
        assert_eq!(run.task["schedule"], name.as_str());
    }
    let ended = runs(&service, &name).await;
    assert_eq!(
        ended
            .iter()
            .filter(|run| run["state"] == "succeeded")
            .count(),
        6,
        "{ended:?}"
    );
    let removed = service.send(Method::DELETE, &path, &[], None).await;
    assert!((200..300).contains(&removed.status), "{removed:?}");
    service.get(&path).await.problem(404);
}

pub(super) async fn a_paused_schedule_waits_and_can_be_triggered(service: Arc<Service>) {
    let name = service.name("waits");
    let seen = service.worker(&name, &echoes(1));
    let path = format!("/v1/schedules/{name}");
    let body =
        json!({"cron": "0 0 1 1 *", "time_zone": "Europe/Berlin", "task": {"callback": name}});
    service.put(&path, &body).await.ok();
    let paused = service
        .post(&format!("{path}/pause"), &json!({"reason": "holidays"}))
        .await
        .ok();
    assert_eq!(paused["state"], "paused", "{paused}");
    assert!(
        service
            .get(&path)
            .await
            .ok()
            .to_string()
            .contains("holidays")
    );
    service
        .post(&format!("{path}/resume"), &json!({}))
        .await
        .ok();
    let triggered = service
        .post(&format!("{path}/trigger"), &json!({}))
        .await
        .ok();
    let task = service.ended(&text(&triggered["id"])).await;
    assert_eq!(task["state"], "succeeded", "{task}");
    assert_eq!(seen.lock().unwrap().len(), 1);
    let listed = service.get("/v1/schedules").await.ok();
    assert!(listed.to_string().contains(&name), "{listed}");
}

pub(super) async fn expressions_are_explained_or_refused(service: Arc<Service>) {
    let preview = |fields: Value| {
        let service = Arc::clone(&service);
        async move {
            let mut body = json!({"task": {"callback": "x"}});
            for (name, value) in fields.as_object().unwrap() {
                body[name] = value.clone();
            }
            service.post("/v1/schedules:preview", &body).await
        }
    };
    let shown = preview(json!({"cron": "30 2 * * MON-FRI", "time_zone": "Europe/Berlin"}))
        .await
        .ok();
    assert_eq!(
        shown["description"], "At 02:30, Monday to Friday",
        "{shown}"
    );
    preview(json!({"cron": "0 0 30 2 *"})).await.problem(400);
    preview(json!({"cron": "61 * * * *"})).await.problem(400);
    preview(json!({"cron": "* * * * *", "time_zone": "Europe/Nowhere"}))
        .await
        .problem(400);
    preview(json!({"cron": "1,".repeat(200)}))
        .await
        .problem(400);
}
