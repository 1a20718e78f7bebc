//! The commands for jobs cancel, move and follow the tasks of filters at a node in this process.

use serde_json::json;
use tickwheel::{
    client::{Client, JobFilter, JobKind, JobRequest, JobState, Task, TaskState, secs},
    time_source::TimeSource,
};

use super::{SECOND, Site, err, json_lines, out, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_are_cancelled_and_moved_by_a_filter_and_jobs_are_followed() {
    let site = Site::start().await;
    let command = async |words: &[&str]| run(&site.url, words, "").await;
    let client = Client::connect(&site.url).unwrap();
    for number in 0..5 {
        let team = if number < 3 { "a" } else { "b" };
        let task = Task::callback("work").delay(secs(3600));
        client.register(task.label("team", team)).await.unwrap();
    }
    // The store of this node has no list of all tasks.
    let to = TimeSource::real().now().after(SECOND * 7200);
    let to = tickwheel::model::time::rfc3339(to);
    let window = format!("start_time_to={to}");
    let filter = [
        "--filter",
        "callback=work",
        "--filter",
        &window,
        "--filter",
        "label.team=a",
    ];
    let dry = command(&[&["task", "cancel"], &filter[..], &["--dry-run"]].concat()).await;
    assert_eq!(dry.status.code(), Some(0), "{}", err(&dry));
    let text = out(&dry);
    assert!(
        text.contains("would cancel 3; nothing was changed"),
        "{text}"
    );
    assert_eq!(
        text.lines().filter(|line| line.ends_with("work")).count(),
        3,
        "{text}"
    );
    let moved = [
        &["task", "reschedule", "--delay", "90m", "-o", "jsonl"],
        &filter[..],
    ]
    .concat();
    let moved = json_lines(&out(&command(&moved).await));
    assert_eq!(
        (&moved[0]["kind"], &moved[0]["done"]),
        (&json!("reschedule"), &json!(3))
    );
    let done = command(&[&["task", "cancel", "--rate", "1000"], &filter[..]].concat()).await;
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert!(
        out(&done).contains("completed: 3 done of 3, 0 skipped, 0 failed"),
        "{}",
        out(&done)
    );
    assert!(
        err(&done).contains("it goes on without this command"),
        "{}",
        err(&done)
    );
    let redrive = ["task", "redrive", "--filter", "callback=work", "-o", "json"];
    assert!(out(&command(&redrive).await).contains("\"done\": 0"));
    // A job that takes an hour is paused, resumed and ended.
    let slow = [
        "--filter",
        "callback=work",
        "--filter",
        &window,
        "--rate",
        "0.001",
        "--no-wait",
    ];
    let slow = [&["task", "cancel", "-o", "jsonl"], &slow[..]].concat();
    let slow = json_lines(&out(&command(&slow).await));
    let id = slow[0]["id"].as_str().unwrap();
    for (order, state) in [("pause", "paused"), ("cancel", "cancelled")] {
        let told = out(&command(&["job", order, id]).await);
        assert!(told.contains(state), "{told}");
    }
    let late = command(&["job", "resume", id]).await;
    assert_eq!(late.status.code(), Some(2), "{}", err(&late));
    assert!(
        err(&late).contains("the job has ended: it is cancelled"),
        "{}",
        err(&late)
    );
    assert_eq!(command(&["job", "watch", id]).await.status.code(), Some(1));
    assert_eq!(command(&["job", "get", "0"]).await.status.code(), Some(3));
    let table = out(&command(&["job", "list"]).await);
    assert!(
        table.starts_with("ID") && table.contains("dry run"),
        "{table}"
    );
    assert_eq!(table.lines().count(), 6, "{table}");
    // The slow job may have cancelled one before it was paused.
    let slow = &json_lines(&out(&command(&["job", "get", id, "-o", "jsonl"]).await))[0];
    let cancelled = 3 + slow["done"].as_u64().unwrap();
    let ended = ["--filter", "callback=work", "--filter", "state=cancelled"];
    let deleted = command(&[&["task", "delete"], &ended[..]].concat()).await;
    assert!(
        out(&deleted).contains(&format!(
            "completed: {cancelled} done of {cancelled}, 0 skipped, 0 failed"
        )),
        "{} {}",
        out(&deleted),
        err(&deleted)
    );
    let other = Task::callback("other").delay(secs(3600));
    let task = client.register(other).await.unwrap().id.to_string();
    for (wrong, why) in [
        (&["task", "cancel"][..], "--filter"),
        (
            &["task", "cancel", "--filter", "callbak=x"],
            "start_time_from",
        ),
        (
            &["task", "cancel", "--filter", "error=x"],
            "--filter error: is for tasks that have ended",
        ),
        (&["task", "redrive"], "expected --filter or --all"),
        (
            &["task", "reschedule", &task, "--delay", "1h", "--rate", "1"],
            "--rate needs --filter",
        ),
    ] {
        let refused = command(wrong).await;
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(err(&refused).contains(why), "{wrong:?}: {}", err(&refused));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_registers_a_job_and_follows_it() {
    let site = Site::start().await;
    let client = Client::connect(&site.url).unwrap();
    let filter = JobFilter {
        callback: Some("work".to_owned()),
        state: Some(TaskState::Failed),
        ..JobFilter::default()
    };
    let request = JobRequest {
        idempotency_key: Some("once".to_owned()),
        ..JobRequest::new(JobKind::Delete, filter)
    };
    let first = client.create_job(&request).await.unwrap();
    let again = client.create_job(&request).await.unwrap();
    assert_eq!(first.id, again.id);
    let mut job = again;
    for _ in 0..100 {
        if job.state.has_ended() {
            break;
        }
        TimeSource::real().sleep(SECOND / 10).await;
        job = client.job(&first.id).await.unwrap();
    }
    assert_eq!((job.state, job.done), (JobState::Completed, 0));
    let mut pages = client.jobs();
    let page = pages.next().await.unwrap().unwrap();
    assert_eq!((page.len(), page[0].kind), (1, JobKind::Delete));
    assert!(pages.next().await.unwrap().is_none());
    assert!(client.pause_job(&first.id).await.is_err());
}
