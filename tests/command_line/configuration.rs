//! The commands that export and import the configuration carry it from one node in this process to another.

use super::{Site, err, json_lines, out, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_exported_and_imported_elsewhere() {
    let (site, other) = (Site::start().await, Site::start().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.jsonl");
    let file = file.to_str().unwrap();
    let command = async |site: &Site, words: &[&str]| {
        let done = run(&site.url, words, "").await;
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", err(&done));
        (out(&done), err(&done))
    };
    let set = ["callback", "set", "send_email", "--max-attempts", "8"];
    let secret = ["--http-secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    let most = ["--http-max-in-flight", "40"];
    command(&site, &[&set[..], &secret, &most].concat()).await;
    command(
        &site,
        &["callback", "pause", "send_email", "--reason", "no mail"],
    )
    .await;
    let task = r#"{"callback": "report", "payload": {"a": 1}}"#;
    let every = [
        "schedule", "set", "nightly", "--every", "1h", "--task", task,
    ];
    command(&site, &every).await;

    let (_, told) = command(&site, &["cluster", "export", file]).await;
    assert_eq!(told, "exported: 1 callback, 1 schedule, 0 API keys\n");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "it has secrets");
    let taken = run(&site.url, &["cluster", "export", file], "").await;
    assert_eq!(taken.status.code(), Some(2), "{}", err(&taken));
    let lines = json_lines(&std::fs::read_to_string(file).unwrap());
    let http = &lines[0]["callback"]["configuration"]["http"];
    assert_eq!(
        (&http["secrets"][0], &http["max_in_flight"]),
        (&serde_json::json!(secret[1]), &serde_json::json!(40))
    );

    let (told, _) = command(&other, &["cluster", "import", file]).await;
    assert_eq!(told, "set: 1 callback, 1 schedule, 0 API keys\n");
    let (again, _) = command(&other, &["cluster", "import", file]).await;
    assert_eq!(
        again,
        "set: 0 callbacks, 0 schedules, 0 API keys, 2 were so already\n"
    );
    let (there, _) = command(&other, &["cluster", "export"]).await;
    assert_eq!(json_lines(&there), lines);
    assert_eq!(lines.last().unwrap(), &serde_json::json!({"end": {}}));

    let bad = format!(
        "{there}\n{{\"callback\":{{\"name\":\"other\",\"configuration\":{{\"max_attempts\":0}}}}}}\n"
    );
    let refused = run(&other.url, &["cluster", "import", "-"], &*bad).await;
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
    assert!(
        err(&refused).contains("callback other: /callback/configuration/max_attempts")
            && err(&refused).contains("1 refused, the first: callback other: "),
        "{}",
        err(&refused)
    );
    // A line that cannot be read keeps a file from being set at all.
    std::fs::write(
        file,
        "{\"callback\":{\"name\":\"new\",\"configuration\":{}}}\n{\"gate\":1}\n",
    )
    .unwrap();
    let refused = run(&other.url, &["cluster", "import", file], "").await;
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    assert!(err(&refused).contains("line 2: "), "{}", err(&refused));
    let absent = run(&other.url, &["callback", "get", "new"], "").await;
    assert_eq!(absent.status.code(), Some(3));
    // A file that was cut off sets nothing, and a pipe that was sets no keys.
    std::fs::write(
        file,
        "{\"callback\":{\"name\":\"new\",\"configuration\":{}}}\n",
    )
    .unwrap();
    let refused = run(&other.url, &["cluster", "import", file], "").await;
    assert!(err(&refused).contains("cut off"), "{}", err(&refused));
    let absent = run(&other.url, &["callback", "get", "new"], "").await;
    assert_eq!(absent.status.code(), Some(3));
    let key = r#"{"api_key":{"id":"00000000000000ab","name":"root","role":"admin","create_time":"2026-01-01T00:00:00Z",
        "secret_sha256":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}"#;
    let key = key.replace("\n        ", "");
    let refused = run(&other.url, &["cluster", "import", "-"], &*key).await;
    assert!(err(&refused).contains("cut off"), "{}", err(&refused));
    command(&other, &["callback", "list"]).await;
    // A file that can be read once only, as a shell makes it of a command.
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let (writes, text) = (fifo.clone(), format!("{there}\n"));
    let writer = std::thread::spawn(move || std::fs::write(writes, text).unwrap());
    let (again, _) = command(&other, &["cluster", "import", fifo.to_str().unwrap()]).await;
    assert!(again.ends_with("2 were so already\n"), "{again}");
    writer.join().unwrap();
}
