//! The commands say what they need, as a person reads it who has left it out.

use serde_json::{Value, json};

use super::{Site, err, json_lines, out, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_named_with_all_that_would_do() {
    let site = Site::start().await;
    for (words, ways) in [
        (
            "task register --delay 1s",
            &["--callback", "--http", "--topic"][..],
        ),
        (
            "dead-letter redrive --dry-run",
            &["ID", "--callback", "--error"],
        ),
        ("schedule set s --task {}", &["--cron", "--every", "--file"]),
        ("schedule preview --count 3", &["NAME"]),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let said = run(&site.url, &words, "").await;
        assert_eq!(said.status.code(), Some(2), "{}", out(&said));
        let said = err(&said);
        let (missing, usage) = said.split_once("Usage:").unwrap();
        for way in ways {
            assert!(missing.contains(way) && usage.contains(way), "{said}");
        }
    }
    // A host and a callback are one target.
    let both = "task register --callback mail --http http://127.0.0.1:9/x --delay 1h";
    let both: Vec<&str> = both.split(' ').collect();
    let both = run(&site.url, &both, "").await;
    assert!(both.status.success(), "{}", err(&both));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_listed_by_its_key() {
    let site = Site::start().await;
    for key in ["one", "two"] {
        let words = "task register --callback mail --delay 1h --key";
        let words: Vec<&str> = words.split(' ').chain([key]).collect();
        let output = run(&site.url, &words, "").await;
        assert!(output.status.success(), "{}", err(&output));
    }
    let keys = async |flags: &str| -> Vec<Value> {
        let words: Vec<&str> = flags.split(' ').collect();
        let words = [&["task", "list", "-o", "jsonl"], &words[..]].concat();
        let output = run(&site.url, &words, "").await;
        assert!(output.status.success(), "{}", err(&output));
        let tasks = json_lines(&out(&output));
        tasks.iter().map(|task| task["key"].clone()).collect()
    };
    assert_eq!(keys("--callback mail --key two").await, [json!("two")]);
    assert!(keys("--callback mail --key none").await.is_empty());
    let alone = run(&site.url, &["task", "list", "--key", "two"], "").await;
    assert!(err(&alone).contains("--callback"), "{}", err(&alone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_says_what_to_write() {
    let site = Site::start().await;
    let said = async |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        err(&run(&site.url, &words, "").await)
    };
    let unit = said("task register --callback c --delay 5").await;
    assert!(unit.contains("write 5s for seconds"), "{unit}");
    let scheme = said("task register --http mail.example/x").await;
    assert!(
        scheme.contains("--http: ") && scheme.contains("`https://`"),
        "{scheme}"
    );
    let words = "schedule preview --cron 30\t9\t*\t*\t* --from 2030-01-31T09:00:00Z --count 1";
    let words: Vec<&str> = words.split(' ').collect();
    let preview = run(&site.url, &words, "").await;
    assert!(
        out(&preview).contains("2030-01-31T09:30:00"),
        "{}",
        err(&preview)
    );
    let when = said("schedule preview --cron @daily --from tomorrow").await;
    assert!(when.contains("--from"), "{when}");
    let made = run(&site.url, &["api-key", "create", "--role", "admin"], "").await;
    assert!(made.status.success(), "{}", err(&made));
    // The key is known at the node a moment later.
    let keyless = loop {
        let listed = run(&site.url, &["task", "list"], "").await;
        if !listed.status.success() {
            break err(&listed);
        }
    };
    assert!(keyless.contains("--api-key-file"), "{keyless}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flags_of_a_command_stand_before_those_of_the_connection() {
    let site = Site::start().await;
    for words in [
        &["task", "register", "--help"][..],
        &["schedule", "set", "--help"],
        &["cluster", "import", "--help"],
    ] {
        let help = out(&run(&site.url, words, "").await);
        let (own, rest) = help.split_once("Connection:").unwrap();
        let (rest, _) = rest.split_once("Examples:").unwrap_or((rest, ""));
        assert!(
            own.contains("Options:") && !own.contains("--server"),
            "{help}"
        );
        assert!(
            rest.contains("--server") && rest.contains("--output"),
            "{help}"
        );
        assert!(
            !rest.contains("--callback") && !rest.contains("--cron"),
            "{help}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_list_and_a_wait_are_said() {
    let site = Site::start().await;
    for (words, told) in [
        (&["dead-letter", "list"][..], "0 dead letters\n"),
        (&["dead-letter", "groups"], "0 dead letters\n"),
        (&["job", "list"], "0 jobs\n"),
        (&["schedule", "list"], "0 schedules\n"),
        (&["api-key", "list"], "0 API keys\n"),
    ] {
        assert_eq!(out(&run(&site.url, words, "").await), told);
    }
    let registered = async |words: &[&str]| {
        let words = [
            &["task", "register", "--callback", "c", "--delay", "1h"],
            words,
        ]
        .concat();
        let answer = run(&site.url, &[&words[..], &["-o", "jsonl"]].concat(), "").await;
        assert!(answer.status.success(), "{}", err(&answer));
        json_lines(&out(&answer))[0]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (one, other) = (registered(&[]).await, registered(&[]).await);
    let waiter = registered(&["--after", &one, "--after", &other]).await;
    let get = async || out(&run(&site.url, &["task", "get", &waiter], "").await);
    let shown = get().await;
    assert!(
        shown.contains("waits for   2 of 2 to succeed") && shown.contains(&one),
        "{shown}"
    );
    assert!(
        run(&site.url, &["task", "get", &waiter, "-o", "jsonl"], "")
            .await
            .status
            .success()
    );
    let cancelled = run(&site.url, &["task", "cancel", &other], "").await;
    assert!(cancelled.status.success(), "{}", err(&cancelled));
    let json = out(&run(&site.url, &["task", "get", &waiter, "-o", "jsonl"], "").await);
    let after = &json_lines(&json)[0]["after"];
    assert!(!after["open_ids"].to_string().contains(&other), "{after}");
}
