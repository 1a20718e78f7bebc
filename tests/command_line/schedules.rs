//! The commands for schedules set, preview, pause, import and restore schedules at a node in this process.

use serde_json::json;

use super::{Site, err, json_lines, out, run};

const TASK: &str = r#"{"callback": "report"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_are_set_shown_paused_and_deleted() {
    let site = Site::start().await;
    let command = async |words: &[&str]| run(&site.url, words, "").await;
    let cron = ["--cron", "30 2 * * MON-FRI", "--time-zone", "Europe/Berlin"];
    let set = [&["schedule", "set", "nightly", "--task", TASK], &cron[..]].concat();
    let set = command(&set).await;
    assert_eq!(set.status.code(), Some(0), "{}", err(&set));
    let text = out(&set);
    assert!(
        text.contains("nightly: live") && text.contains("At 02:30, Monday to Friday"),
        "{text}"
    );
    assert_eq!(text.matches("T02:30:00+0").count(), 5, "{text}");
    let preview = command(&["schedule", "preview", "nightly", "--count", "2"]).await;
    let text = out(&preview);
    assert!(
        text.contains("Europe/Berlin (20") && text.contains("UTC"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 4, "{text}");
    let asked = [
        "schedule",
        "preview",
        "x",
        "--cron",
        "@every 5m",
        "-o",
        "json",
    ];
    let asked = out(&command(&asked).await);
    assert!(asked.contains("Every 5 minutes"), "{asked}");
    let span = [
        "--from",
        "2025-01-06T00:00:00Z",
        "--to",
        "2025-01-09T00:00:00Z",
    ];
    let in_turn = ["--overlap", "buffer_one", "--dry-run", "-o", "jsonl"];
    let backfill = ["schedule", "backfill", "nightly"];
    let dry = command(&[&backfill[..], &span, &in_turn].concat()).await;
    let dry = json_lines(&out(&dry));
    assert_eq!(
        (&dry[0]["overlap"], &dry[0]["total_estimate"]),
        (&json!("buffer_one"), &json!(3))
    );
    let wrong = command(&[&backfill[..], &span, &["--overlap", "all"]].concat()).await;
    assert!(
        err(&wrong).contains("buffer_one or cancel_other"),
        "{}",
        err(&wrong)
    );
    let paused = command(&[
        "schedule", "pause", "nightly", "--reason", "holidays", "--who", "ann",
    ])
    .await;
    assert!(out(&paused).contains("paused by ann"), "{}", out(&paused));
    let listed = json_lines(&out(&command(&["schedule", "list", "-o", "jsonl"]).await));
    assert_eq!(
        (&listed[0]["name"], &listed[0]["state"]),
        (&json!("nightly"), &json!("paused"))
    );
    let run_now = command(&["schedule", "trigger", "nightly"]).await;
    let id = out(&run_now).trim().to_owned();
    let runs = out(&command(&["schedule", "runs", "nightly"]).await);
    assert!(runs.contains(&id) && runs.contains("trigger"), "{runs}");
    assert_eq!(
        command(&["schedule", "resume", "nightly"])
            .await
            .status
            .code(),
        Some(0)
    );
    let exported = out(&command(&["schedule", "export"]).await);
    assert_eq!(
        command(&["schedule", "delete", "nightly"])
            .await
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        command(&["schedule", "get", "nightly"]).await.status.code(),
        Some(3)
    );
    let restored = run(&site.url, &["schedule", "restore", "-"], &*exported).await;
    assert!(
        out(&restored).contains("1 schedule set"),
        "{}",
        err(&restored)
    );
    assert_eq!(
        command(&["schedule", "get", "nightly"]).await.status.code(),
        Some(0)
    );
    let again = run(&site.url, &["schedule", "restore", "-"], &*exported).await;
    assert!(
        out(&again).contains("0 schedules set, 1 were so already"),
        "{}",
        out(&again)
    );
    let wrong =
        r#"{"name": "bad", "schedule": {"cron": "61 * * * *", "task": {"callback": "report"}}}"#;
    let both = format!("{exported}{wrong}\n");
    let refused = run(&site.url, &["schedule", "restore", "-"], &*both).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        err(&refused).contains("bad: ") && err(&refused).contains("1 refused"),
        "{}",
        err(&refused)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_named_by_their_flags() {
    let site = Site::start().await;
    let set = async |flags: &[&str]| {
        let words = [&["schedule", "set", "bad", "--task", TASK], flags].concat();
        run(&site.url, &words, "").await
    };
    for (flags, said) in [
        (&["--cron", "0 0 31 2 *"][..], "--cron"),
        (
            &["--cron", "@daily", "--time-zone", "Nowhere"],
            "--time-zone",
        ),
        (&["--every", "1s", "--limit", "0"], "--limit"),
        (&["--every", "1s", "--overlap", "sometimes"], "buffer_one"),
    ] {
        let answer = set(flags).await;
        assert_eq!(answer.status.code(), Some(2), "{flags:?}");
        assert!(err(&answer).contains(said), "{flags:?}: {}", err(&answer));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_of_a_crontab_becomes_a_schedule() {
    let site = Site::start().await;
    let file = "CRON_TZ=Europe/Berlin\n# backups\n0 5 * * 1 tar -zcf /backups/home.tgz /home/\n61 * * * * wrong\n@reboot start\n";
    let words = ["schedule", "import", "-", "--callback", "shell"];
    let dry = run(&site.url, &[&words[..], &["--dry-run"]].concat(), file).await;
    assert_eq!(dry.status.code(), Some(2), "{}", out(&dry));
    assert!(
        out(&dry).contains("crontab-3  At 05:00, Monday"),
        "{}",
        out(&dry)
    );
    let wrong = err(&dry);
    assert!(
        wrong.contains("line 4:") && wrong.contains("line 5: @reboot"),
        "{wrong}"
    );
    let listed = out(&run(&site.url, &["schedule", "list", "-o", "jsonl"], "").await);
    assert!(listed.trim().is_empty(), "{listed}");
    let refused = run(&site.url, &words, file).await;
    assert_eq!(refused.status.code(), Some(2), "{}", out(&refused));
    assert!(
        err(&refused).contains("2 lines cannot be used, and nothing was stored"),
        "{}",
        err(&refused)
    );
    let listed = out(&run(&site.url, &["schedule", "list", "-o", "jsonl"], "").await);
    assert!(listed.trim().is_empty(), "{listed}");
    let good: String = file.split_inclusive('\n').take(3).collect();
    let stored = run(&site.url, &words, good).await;
    assert_eq!(stored.status.code(), Some(0), "{}", err(&stored));
    let get = out(&run(
        &site.url,
        &["schedule", "get", "crontab-3", "-o", "jsonl"],
        "",
    )
    .await);
    let schedule = &json_lines(&get)[0];
    assert_eq!(schedule["time_zone"], "Europe/Berlin");
    assert_eq!(
        schedule["task"]["payload"]["command"],
        "tar -zcf /backups/home.tgz /home/"
    );
}
