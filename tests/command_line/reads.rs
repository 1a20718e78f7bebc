//! The commands that read tasks: lists by the beginning of names of callbacks, and messages of attempts.

use super::{Site, err, json_lines, out, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_listed_by_the_beginning_of_names_of_callbacks() {
    let site = Site::start().await;
    let lines = r#"{"callback":"mail.send","delay":"1h"}
{"callback":"mail.sort","delay":"1h"}
{"callback":"mailer","delay":"1h"}"#;
    let imported = run(&site.url, &["task", "import", "-"], lines).await;
    assert!(imported.status.success(), "{}", err(&imported));
    for (callbacks, count) in [("mail.*", 2), ("mail*", 3), ("mail.se*", 1), ("mail", 0)] {
        let list = [
            "task",
            "list",
            "--callback",
            callbacks,
            "--to",
            "2h",
            "-o",
            "jsonl",
        ];
        let listed = run(&site.url, &list, "").await;
        assert_eq!(json_lines(&out(&listed)).len(), count, "{callbacks}");
    }
    let all = run(&site.url, &["task", "list", "--callback", "*"], "").await;
    assert!(err(&all).contains("--callback"), "{}", err(&all));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_task_are_printed() {
    let site = Site::start().await;
    let register = [
        "task",
        "register",
        "--callback",
        "a",
        "--delay",
        "1h",
        "-o",
        "jsonl",
    ];
    let registered = json_lines(&out(&run(&site.url, &register, "").await));
    let id = registered[0]["id"].as_str().unwrap();
    let none = run(&site.url, &["task", "messages", id], "").await;
    assert_eq!((out(&none).as_str(), none.status.code()), ("", Some(0)));
    let json = ["task", "messages", id, "--attempt", "2", "-o", "json"];
    let answer: serde_json::Value =
        serde_json::from_slice(&run(&site.url, &json, "").await.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({"attempt": 2, "messages": []}));
    let stranger = "018bcfe5-6800-8000-8000-000000000001";
    let unknown = run(&site.url, &["task", "messages", stranger], "").await;
    assert_eq!(unknown.status.code(), Some(3), "{}", err(&unknown));
}
