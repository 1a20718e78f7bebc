//! The commands `tickwheel callback ...` configure and pause callbacks, as a person or a script uses them.

use serde_json::{Value, json};

use super::{Site, err, json_lines, out, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_is_configured_shown_copied_and_removed() {
    let site = Site::start().await;
    let set = "callback set mail --description Mail --max-attempts 8 --retry-initial 2s --retention 24h --label team=mail --rate 3/m --burst 2 --max-in-flight 7 -o json";
    let set: Vec<&str> = set.split(' ').collect();
    let output = run(&site.url, &set, "").await;
    assert!(output.status.success(), "{}", err(&output));
    let shown: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(shown["max_attempts"], 8);
    assert_eq!(shown["retry"], json!({"initial": "2s"}));
    assert_eq!(
        (&shown["rate"], &shown["max_in_flight"]),
        (&json!({"per_second": 0.05, "burst": 2}), &json!(7))
    );
    let get = run(&site.url, &["callback", "get", "mail", "-o", "json"], "").await;
    let shown: Value = serde_json::from_str(&out(&get)).unwrap();
    assert_eq!(
        (&shown["ready"], &shown["labels"]),
        (&json!(0), &json!({"team": "mail"}))
    );
    // The answer is a configuration to set, for another callback here.
    let copy = run(
        &site.url,
        &["callback", "set", "copy", "--file", "-"],
        out(&get),
    )
    .await;
    assert!(copy.status.success(), "{}", err(&copy));
    assert!(
        out(&copy).contains("max_attempts      8\n"),
        "{}",
        out(&copy)
    );
    let list = run(&site.url, &["callback", "list", "-o", "jsonl"], "").await;
    let names: Vec<Value> = json_lines(&out(&list))
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, [json!("copy"), json!("mail")]);
    let table = run(&site.url, &["callback", "list"], "").await;
    assert!(
        out(&table).starts_with("NAME ") && out(&table).contains("Mail\n"),
        "{}",
        out(&table)
    );
    let delete = run(&site.url, &["callback", "delete", "copy"], "").await;
    assert!(delete.status.success(), "{}", err(&delete));
    let gone = run(&site.url, &["callback", "get", "copy"], "").await;
    assert_eq!(gone.status.code(), Some(3), "{}", err(&gone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_in_a_file_are_named_by_their_fields() {
    let site = Site::start().await;
    let set = ["callback", "set", "mail"];
    let file = r#"{"max_attempts": 0, "rate": {"per_second": -1}}"#;
    let by_file = run(&site.url, &[&set[..], &["--file", "-"]].concat(), file).await;
    let said = err(&by_file);
    assert_eq!(by_file.status.code(), Some(2), "{said}");
    assert!(
        said.contains("/max_attempts") && !said.contains("--"),
        "{said}"
    );
    let by_flags = run(
        &site.url,
        &[&set[..], &["--max-attempts", "0"]].concat(),
        "",
    )
    .await;
    assert!(
        err(&by_flags).contains("--max-attempts"),
        "{}",
        err(&by_flags)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_is_paused_dropped_and_resumed() {
    let site = Site::start().await;
    let gate = async |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = run(&site.url, &arguments, "").await;
        assert!(output.status.success(), "{}", err(&output));
        serde_json::from_str::<Value>(&out(&output)).unwrap()
    };
    let paused = gate("callback pause mail --reason broken --until 2h -o json").await;
    assert_eq!(
        (&paused["gate"], &paused["gates"][0]["reason"]),
        (&json!("paused"), &json!("broken"))
    );
    assert!(paused["gates"][0]["until"].is_string());
    let dropped = gate("callback drop mail --collection bulk -o json").await;
    assert_eq!(
        (&dropped["gate"], dropped["gates"].as_array().unwrap().len()),
        (&json!("paused"), 2)
    );
    let resumed = gate("callback resume mail -o json").await;
    assert_eq!(resumed["gate"], "open");
    assert_eq!(resumed["gates"][0]["collection"], "bulk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_configurations_are_refused_in_the_words_of_the_flags() {
    let site = Site::start().await;
    let attempts = ["callback", "set", "mail", "--max-attempts", "0"];
    let output = run(&site.url, &attempts, "").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("--max-attempts: must be 1 to"),
        "{}",
        err(&output)
    );
    let rate = ["callback", "set", "mail", "--rate", "0"];
    let output = run(&site.url, &rate, "").await;
    assert!(
        err(&output).contains("--rate: must be 0.01 to"),
        "{}",
        err(&output)
    );
    let wrong = run(&site.url, &["callback", "set", "mail", "--file", "-"], "{").await;
    assert!(
        err(&wrong).starts_with("error: --file: "),
        "{}",
        err(&wrong)
    );
    let state = ["callback", "gate", "mail", "closed"];
    let state = run(&site.url, &state, "").await;
    assert_eq!(state.status.code(), Some(2), "{}", err(&state));
    let name = run(&site.url, &["callback", "pause", "a/b"], "").await;
    assert_eq!(name.status.code(), Some(2), "{}", err(&name));
}
