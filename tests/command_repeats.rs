//! The command line registers what may come twice: a file that is imported again, a task with a key.

use serde_json::Value;

use crate::command_line::{Site, err, out, run};

fn json(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", err(output));
    serde_json::from_str(&out(output)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_lines_have_marks_or_ids_can_be_imported_again() {
    let site = Site::start().await;
    let lines = r#"{"callback":"a","delay":"1h","idempotency_key":"line 1"}
{"callback":"a","start_time":"2100-01-01T00:00:00Z","id":"03bb2cc3-d800-8000-8f00-000000000007"}"#;
    for _ in 0..2 {
        let imported = run(&site.url, &["task", "import", "-"], lines).await;
        assert_eq!(
            out(&imported),
            "registered 2, failed 0\n",
            "{}",
            err(&imported)
        );
    }
    let list = ["task", "list", "--to", "2h", "-o", "json"];
    let listed = json(&run(&site.url, &list, "").await);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let get = [
        "task",
        "get",
        "03bb2cc3-d800-8000-8f00-000000000007",
        "-o",
        "json",
    ];
    let task = json(&run(&site.url, &get, "").await);
    assert_eq!(task["start_time"], "2100-01-01T00:00:00.000Z");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_registered_with_a_key_and_with_a_mark() {
    let site = Site::start().await;
    let keyed = [
        "task",
        "register",
        "--callback",
        "a",
        "--delay",
        "1h",
        "--key",
        "k",
        "-o",
        "json",
    ];
    let first = json(&run(&site.url, &keyed, "").await);
    assert_eq!(
        (first["key"].as_str(), first["outcome"].as_str()),
        (Some("k"), Some("created"))
    );
    let refused = run(&site.url, &keyed, "").await;
    assert!(!refused.status.success());
    assert!(
        err(&refused).contains(first["id"].as_str().unwrap()),
        "{}",
        err(&refused)
    );
    let ignoring = [&keyed[..], &["--on-conflict", "ignore"]].concat();
    let again = json(&run(&site.url, &ignoring, "").await);
    assert_eq!(
        (&again["id"], again["outcome"].as_str()),
        (&first["id"], Some("existing"))
    );
    let marked = [
        "task",
        "register",
        "--callback",
        "a",
        "--at",
        "2100-01-01T00:00:00Z",
        "--idempotency-key",
        "m",
        "-o",
        "json",
    ];
    let first = json(&run(&site.url, &marked, "").await);
    let again = json(&run(&site.url, &marked, "").await);
    assert_eq!(
        (&again["id"], again["outcome"].as_str()),
        (&first["id"], Some("existing"))
    );
    let wrong = run(
        &site.url,
        &[
            "task",
            "register",
            "--callback",
            "a",
            "--on-conflict",
            "ignore",
        ],
        "",
    )
    .await;
    assert!(err(&wrong).contains("--key"), "{}", err(&wrong));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_of_a_tree_that_goes_on_is_refused() {
    let site = Site::start().await;
    let register = [
        "task",
        "register",
        "--callback",
        "a",
        "--delay",
        "1h",
        "-o",
        "json",
    ];
    let parent = [&register[..], &["--may-have-children"]].concat();
    for (arguments, code) in [
        (parent, "has not ended"),
        (register.to_vec(), "no children and no parent"),
    ] {
        let made = json(&run(&site.url, &arguments, "").await);
        let retry = ["task", "retry-failed", made["id"].as_str().unwrap()];
        let refused = run(&site.url, &retry, "").await;
        assert!(!refused.status.success());
        assert!(err(&refused).contains(code), "{}", err(&refused));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_tree_is_completed_and_a_task_that_goes_on_is_not_reopened() {
    let site = Site::start().await;
    let held =
        "task register --callback a --delay 1h --may-have-children --children-within 30m -o json";
    let held: Vec<&str> = held.split(' ').collect();
    let made = json(&run(&site.url, &held, "").await);
    assert_eq!(made["children_within"], "30m", "{made}");
    let id = made["id"].as_str().unwrap();
    for _ in 0..2 {
        let told = run(&site.url, &["task", "children-complete", id], "").await;
        assert!(told.status.success(), "{}", err(&told));
    }
    for arguments in [
        &["task", "reopen", id][..],
        &["task", "reopen", id, "--attempt", "3"],
    ] {
        let refused = run(&site.url, arguments, "").await;
        assert!(!refused.status.success());
        assert!(err(&refused).contains("goes on"), "{}", err(&refused));
    }
    let alone = run(
        &site.url,
        &[
            "task",
            "register",
            "--callback",
            "a",
            "--children-within",
            "1h",
        ],
        "",
    )
    .await;
    assert!(
        err(&alone).contains("--may-have-children"),
        "{}",
        err(&alone)
    );
}
