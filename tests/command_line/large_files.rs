//! The commands read large files to their end, refuse what is too large in words, and count what was done when they break off.

use std::{fmt::Write as _, path::Path};

use serde_json::json;

use super::{Site, err, json_lines, out, run};

/// A crontab of so many lines, of which the last command ends in `/last`; none of its times comes soon.
fn crontab(lines: usize) -> String {
    let mut text = String::new();
    for number in 1..lines {
        writeln!(text, "0 0 1 1 * /usr/local/bin/nightly-{number:05} --some arguments --of a-usual-length /var/lib/data/{number:05}").unwrap();
    }
    text + "0 0 1 1 * /usr/local/bin/last --with /the/path/last\n"
}

async fn crontab_is_stored_whole(lines: usize) {
    let site = Site::start().await;
    let words = ["schedule", "import", "-", "--callback", "shell"];
    let stored = run(&site.url, &words, crontab(lines)).await;
    assert_eq!(stored.status.code(), Some(0), "{}", err(&stored));
    let said = err(&stored);
    assert!(said.contains(&format!("{lines} schedules set")), "{said}");
    assert_eq!(out(&stored).lines().count(), lines);
    let last = format!("crontab-{lines}");
    let last = run(&site.url, &["schedule", "get", &last, "-o", "jsonl"], "").await;
    let command = &json_lines(&out(&last))[0]["task"]["payload"]["command"];
    assert_eq!(command, "/usr/local/bin/last --with /the/path/last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crontab_is_stored_to_its_last_line() {
    crontab_is_stored_whole(500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "stores 22,810 schedules: make test-all"]
async fn a_crontab_of_more_than_two_mebibytes_is_stored_to_its_last_line() {
    assert!(crontab(22_810).len() > 2 * 1024 * 1024);
    crontab_is_stored_whole(22_810).await;
}

fn schedules(count: usize) -> String {
    let mut text = String::new();
    for number in 1..=count {
        let task = json!({"callback": "report", "payload": {"n": number, "text": "x".repeat(150)}});
        let line =
            json!({"name": format!("s{number}"), "schedule": {"cron": "0 0 1 1 *", "task": task}});
        writeln!(text, "{line}").unwrap();
    }
    text
}

async fn restored(site: &Site, file: &Path) -> std::process::Output {
    let words = ["schedule", "restore", file.to_str().unwrap()];
    run(&site.url, &words, "").await
}

async fn schedules_are_restored_whole(count: usize) {
    let (site, folder) = (Site::start().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("schedules.jsonl");
    std::fs::write(&file, schedules(count)).unwrap();
    let answer = restored(&site, &file).await;
    assert_eq!(answer.status.code(), Some(0), "{}", err(&answer));
    assert_eq!(out(&answer), format!("{count} schedules set\n"));
    let last = format!("s{count}");
    let last = run(&site.url, &["schedule", "get", &last], "").await;
    assert_eq!(last.status.code(), Some(0), "{}", err(&last));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_are_restored_to_the_last_line() {
    schedules_are_restored_whole(1001).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "sets 10,000 schedules: make test-all"]
async fn a_restore_of_more_than_two_mebibytes_is_whole() {
    assert!(schedules(10_000).len() > 2 * 1024 * 1024);
    schedules_are_restored_whole(10_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_breaks_off_counts_what_was_done() {
    let (site, folder) = (Site::start().await, tempfile::tempdir().unwrap());
    let text = schedules(250) + "{\"name\": \"cut o";
    let file = folder.path().join("schedules.jsonl");
    std::fs::write(&file, &text).unwrap();
    let refused = restored(&site, &file).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = err(&refused);
    assert!(said.starts_with("error: line 251: "), "{said}");
    let listed = run(&site.url, &["schedule", "list"], "").await;
    assert_eq!(out(&listed), "0 schedules\n");
    // A pipe can be read only once: what stands before is set.
    let broken = run(&site.url, &["schedule", "restore", "-"], text).await;
    assert_eq!(broken.status.code(), Some(2));
    let said = err(&broken);
    assert!(
        said.contains("line 251: ") && said.contains("until then: 250 schedules set"),
        "{said}"
    );
    let wrong = json!({"name": "wrong", "schedule": {"cron": "61 * * * *", "task": {"callback": "report"}}});
    std::fs::write(&file, format!("{}{wrong}\n{wrong}\n", schedules(150))).unwrap();
    let refused = restored(&site, &file).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = err(&refused);
    assert!(
        said.contains("0 schedules set, 150 were so already, 2 refused, the first: wrong: "),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_too_large_is_refused_and_not_cut() {
    let (site, folder) = (Site::start().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("large");
    std::fs::write(&file, format!("{{}}{}", " ".repeat(2 * 1024 * 1024))).unwrap();
    let file = file.to_str().unwrap();
    for words in [
        &["callback", "set", "c", "--file", file][..],
        &["schedule", "set", "s", "--file", file],
        &[
            "task",
            "register",
            "--callback",
            "c",
            "--payload-file",
            file,
        ],
    ] {
        let refused = run(&site.url, words, "").await;
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        let said = err(&refused);
        assert!(
            said.contains("more than 2097152 bytes"),
            "{words:?}: {said}"
        );
    }
    let listed = run(&site.url, &["task", "list"], "").await;
    assert_eq!(out(&listed), "");
}
