//! Forms act through the API, and say what came of it.

use std::time::Duration;

use serde_json::json;

use super::{Browser, GATE, full, text};

#[tokio::test(start_paused = true)]
async fn a_task_is_moved_run_and_cancelled_and_the_page_says_who_won() {
    let (site, [dead, later, _]) = full().await;
    let browser = Browser::default();
    let path = format!("/tasks/{later}");
    let act = async |fields: &[(&str, &str)]| browser.done(&site, &path, fields).await.1;
    assert_eq!(act(&[("act", "move"), ("to", "2h")]).await, "+It is moved.");
    let odd = browser
        .send(&site, &path, &[("act", "move"), ("to", "soon")])
        .await;
    assert_eq!(odd.status, 400, "{}", text(&odd));
    assert!(text(&odd).contains("/delay"), "{}", text(&odd));
    assert!(
        act(&[("act", "cancel")])
            .await
            .starts_with("+It is cancelled")
    );
    assert_eq!(act(&[("act", "cancel")]).await, "+It was cancelled before.");
    assert!(act(&[("act", "run")]).await.starts_with("-Too late"));
    let path = format!("/tasks/{dead}");
    let (_, said) = browser.done(&site, &path, &[("act", "run")]).await;
    assert_eq!(said, "+It starts now.");
    let gone = browser.send(&site, &path, &[("act", "delete")]).await;
    assert_eq!(gone.status, 404, "it is not dead any more: {}", text(&gone));
    let odd = browser.send(&site, &path, &[("act", "paint")]).await;
    assert_eq!(odd.status, 404);
}

#[tokio::test(start_paused = true)]
async fn some_tasks_are_acted_on_at_once_and_all_by_a_job() {
    let (site, [dead, later, _]) = full().await;
    let browser = Browser::default();
    let some = [
        ("q", "callback:bill"),
        ("id", &later),
        ("id", &dead),
        ("act", "cancel"),
    ];
    let asked = browser.send(&site, "/tasks", &some).await;
    assert!(text(&asked).contains("Cancel 2 tasks?"), "{}", text(&asked));
    let mut sure = some.to_vec();
    sure.push(("sure", "yes"));
    let (path, said) = browser.done(&site, "/tasks", &sure).await;
    assert_eq!(path, "/tasks?q=callback%3Abill");
    assert_eq!(said, "-1 task is cancelled; 1 had gone on or ended before.");
    let (_, said) = browser.done(&site, "/tasks", &[("act", "run")]).await;
    assert_eq!(said, "-No task is selected.");
    let (_, said) = browser
        .done(&site, "/tasks", &[("id", &dead), ("act", "redrive")])
        .await;
    assert_eq!(said, "+1 task runs again.");

    let asked = browser
        .send(&site, "/tasks/all", &[("q", "callback:work")])
        .await;
    assert!(
        text(&asked).contains("Act on all that match"),
        "{}",
        text(&asked)
    );
    let wrong = [("q", "schedule:nightly"), ("kind", "cancel")];
    let wrong = text(&browser.send(&site, "/tasks/all", &wrong).await);
    assert!(wrong.contains("does not go by schedule"), "{wrong}");
    let dry = [
        ("q", "callback:work state:dead"),
        ("kind", "redrive"),
        ("dry", "yes"),
    ];
    let (job, said) = browser.done(&site, "/tasks/all", &dry).await;
    assert_eq!(said, "+The tasks are counted.");
    site.world.pass(Duration::from_secs(30)).await;
    let page = browser.page(&site, &job).await;
    assert!(page.contains("Do it to 1 tasks"), "{page}");
    let (real, _) = browser
        .done(&site, &job, &[("act", "do"), ("rate", "5")])
        .await;
    let (again, _) = browser
        .done(&site, &job, &[("act", "do"), ("rate", "5")])
        .await;
    assert_eq!(real, again, "a button that is pressed twice is one job");
    site.world.pass(Duration::from_secs(30)).await;
    let page = browser.page(&site, &real).await;
    assert!(
        page.contains("completed") && page.contains("1 of 1"),
        "{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_paused_and_set_up_and_a_refusal_stands_beside_its_field() {
    let (site, _) = full().await;
    let browser = Browser::default();
    let gate = GATE;
    let (_, said) = browser.done(&site, gate, &[("gate", "open")]).await;
    assert_eq!(said, "+The gate is open.");
    let pause = [
        ("gate", "paused"),
        ("reason", "smtp moves"),
        ("until", "2h"),
        ("collection", ""),
    ];
    browser.done(&site, gate, &pause).await;
    let one = site.get("/v1/callbacks/work").await.ok();
    assert_eq!(one["gates"][0]["reason"], "smtp moves");
    assert!(one["gates"][0]["until"].is_string(), "{one}");
    let (_, said) = browser
        .done(&site, gate, &[("gate", "paused"), ("until", "yesterday")])
        .await;
    assert!(said.starts_with("-until "), "{said}");

    let notify =
        json!({"max_attempts": 3, "notify": {"http": {"url": "https://example.com/hook"}}});
    assert!(
        site.put("/v1/callbacks/work", &notify)
            .await
            .status
            .is_success()
    );
    let fields = [
        ("max_attempts", "7"),
        ("per_second", "5"),
        ("labels", "team=work"),
    ];
    browser.done(&site, "/callbacks/work", &fields).await;
    let one = site.get("/v1/callbacks/work").await.ok();
    assert_eq!(
        (&one["max_attempts"], &one["labels"]["team"]),
        (&json!(7), &json!("work"))
    );
    assert_eq!(one["rate"]["per_second"], 5.0);
    assert_eq!(
        one["notify"]["http"]["url"], "https://example.com/hook",
        "it stays as it was"
    );
    let wrong = [
        ("max_attempts", "0"),
        ("claim_timeout", "1s"),
        ("description", "<i>"),
    ];
    let wrong = text(&browser.send(&site, "/callbacks/work", &wrong).await);
    for said in [
        "id=\"w-max_attempts\"",
        "id=\"w-claim_timeout\"",
        "value=\"0\"",
    ] {
        assert!(wrong.contains(said), "{said}: {wrong}");
    }
    assert!(!wrong.contains("<i>"), "{wrong}");
    let stale = [("etag", "\"0\""), ("max_attempts", "9")];
    let stale = text(&browser.send(&site, "/callbacks/work", &stale).await);
    assert!(stale.contains("ETag"), "{stale}");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_redriven_a_few_first_and_then_all() {
    let (site, [dead, ..]) = full().await;
    let browser = Browser::default();
    let task = site.get(&format!("/v1/tasks/{dead}")).await.ok();
    let error = task["error"].as_str().unwrap();
    let group = [("callback", "work"), ("error", error)];
    let mut few = group.to_vec();
    few.push(("act", "few"));
    let (path, said) = browser.done(&site, "/dead-letters", &few).await;
    assert_eq!(said, "+2 tasks run again.");
    assert!(
        path.starts_with("/dead-letters?callback=work&error="),
        "{path}"
    );
    let mut all = group.to_vec();
    all.extend([("act", "all"), ("rate", "50")]);
    let (path, _) = browser.done(&site, "/dead-letters", &all).await;
    let job = site.get(&format!("/v1{path}")).await.ok();
    assert_eq!(
        (&job["kind"], &job["rate_per_second"]),
        (&json!("redrive"), &json!(50.0))
    );
    let mut odd = group.to_vec();
    odd.extend([("act", "all"), ("rate", "fast")]);
    assert_eq!(browser.send(&site, "/dead-letters", &odd).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn schedules_jobs_and_keys_are_acted_on() {
    let (site, _) = full().await;
    let browser = Browser::default();
    let path = "/schedules/nightly";
    let (task, _) = browser.done(&site, path, &[("act", "trigger")]).await;
    assert!(task.starts_with("/tasks/"), "{task}");
    browser
        .done(&site, path, &[("act", "pause"), ("reason", "holidays")])
        .await;
    let page = browser.page(&site, path).await;
    assert!(page.contains("paused by anonymous: holidays"), "{page}");
    browser.done(&site, path, &[("act", "resume")]).await;
    let (_, said) = browser
        .done(
            &site,
            path,
            &[("act", "backfill"), ("from", "x"), ("to", "y")],
        )
        .await;
    assert!(said.starts_with("-from "), "{said}");
    let change = "/schedules/nightly/change";
    let form = browser.page(&site, change).await;
    assert!(
        form.contains("30 7 * * *") && form.contains("Europe/Berlin"),
        "{form}"
    );
    let etag = form.split("name=\"etag\" value=\"").nth(1).unwrap();
    let etag = etag
        .split("\">")
        .next()
        .unwrap()
        .replace("&#34;", "\"")
        .replace("&quot;", "\"");
    let task = r#"{"callback": "report"}"#;
    let mut fields = vec![
        ("etag", etag.as_str()),
        ("cron", "0 8 * * *"),
        ("time_zone", "Europe/Berlin"),
        ("task", task),
    ];
    let looked = text(&browser.send(&site, change, &fields).await);
    assert!(
        looked.contains("0 stay, 20 appear and 20 vanish") || looked.contains("appear and"),
        "{looked}"
    );
    fields.push(("act", "save"));
    browser.done(&site, change, &fields).await;
    assert_eq!(
        site.get("/v1/schedules/nightly").await.ok()["cron"],
        "0 8 * * *"
    );
    let stale = text(&browser.send(&site, change, &fields).await);
    assert!(stale.contains("ETag"), "{stale}");
    let wrong = [("cron", "every day"), ("task", task)];
    let wrong = text(&browser.send(&site, change, &wrong).await);
    assert!(wrong.contains("id=\"w-cron\""), "{wrong}");
    let (next, _) = browser.done(&site, path, &[("act", "delete")]).await;
    assert_eq!(next, "/schedules");

    let job = json!({"kind": "redrive", "filter": {"callback": "work"}, "rate_per_second": 0.01});
    let job = site.post("/v1/jobs", job.to_string()).await.json();
    let path = format!("/jobs/{}", job["id"].as_str().unwrap());
    for (act, said) in [
        ("pause", "+The job is paused."),
        ("resume", "+The job goes on."),
    ] {
        assert_eq!(browser.done(&site, &path, &[("act", act)]).await.1, said);
    }
    let (_, said) = browser.done(&site, &path, &[("act", "cancel")]).await;
    assert!(said.starts_with("+The job is stopped"), "{said}");

    let wrong = [("act", "create"), ("name", ""), ("role", "admin")];
    let wrong = text(&browser.send(&site, "/keys", &wrong).await);
    assert!(wrong.contains("id=\"w-name\""), "{wrong}");
    let made = [("act", "create"), ("name", "root"), ("role", "admin")];
    let made = text(&browser.send(&site, "/keys", &made).await);
    assert!(
        made.contains("shown once") && made.contains("twk_"),
        "{made}"
    );
}
