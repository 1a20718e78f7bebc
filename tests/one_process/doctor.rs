//! `tickwheel doctor` on a data directory: what it finds, and that it says what to do.

use std::{fs, process::Output};

use tempfile::TempDir;

use crate::server::{Server, free_port, program};

/// Runs it; returns what it said about each thing.
fn doctor(data: &str, listen: &str) -> (Output, String) {
    let output = program(&["doctor", "--data-dir", data, "--listen", listen]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, said)
}

/// The line about something.
fn line<'a>(said: &'a str, about: &str) -> &'a str {
    let is_about = |line: &&str| line.get(9..).is_some_and(|rest| rest.starts_with(about));
    let found = said.lines().find(is_about);
    found.unwrap_or_else(|| panic!("nothing about {about}: {said}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_looks_at_directory_disk_and_node() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let (path, nowhere) = (
        data.to_str().expect("text"),
        format!("127.0.0.1:{}", free_port()),
    );
    let (_, said) = doctor(path, &nowhere);
    assert!(
        line(&said, "data directory").contains("nothing is in"),
        "{said}"
    );
    assert!(
        line(&said, "disk sync").contains("a write is safe in"),
        "{said}"
    );
    assert!(line(&said, "free space").contains("MiB are free"), "{said}");
    assert!(!data.exists(), "the doctor changes nothing");

    let mut server = Server::start(directory.path(), &[]).await;
    let listen = server.url.trim_start_matches("http://").to_owned();
    let (_, said) = doctor(path, &listen);
    let holder = format!("in use by process {}", server.id());
    assert!(line(&said, "data directory").contains(&holder), "{said}");
    assert!(
        line(&said, "node").starts_with("ok") && said.contains("is ready"),
        "{said}"
    );
    let (output, said) = doctor(path, &nowhere);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let node = line(&said, "node");
    assert!(
        node.starts_with("problem") && node.contains("--listen"),
        "{said}"
    );

    server.kill();
    let (_, said) = doctor(path, &nowhere);
    assert!(
        line(&said, "data directory").contains("no process uses it"),
        "{said}"
    );
    fs::write(data.join("FORMAT"), "format=7\n").expect("a file");
    let (output, said) = doctor(path, &nowhere);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let found = line(&said, "data directory");
    assert!(
        found.starts_with("problem") && found.contains("use the program that made it"),
        "{said}"
    );
}
