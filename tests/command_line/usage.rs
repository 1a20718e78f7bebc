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
