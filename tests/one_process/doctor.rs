//! `tickwheel doctor` tells operators what it finds in a data directory, and what to do about it.

use std::{fs, path::Path, process::Output};

use serde_json::json;
use tempfile::TempDir;

use crate::server::{Server, free_port, post, program};

/// Runs the doctor; returns its output, also as text.
fn doctor(data: &str, listen: &str) -> (Output, String) {
    let output = program(&["doctor", "--data-dir", data, "--listen", listen]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, said)
}

/// The line of the output about something.
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

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reads_every_table_beside_a_running_service() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let path = data.to_str().expect("text");
    let tables = |listen: &str| {
        let output = program(&["doctor", "--tables", "--data-dir", path, "--listen", listen]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut server = Server::start(directory.path(), &[]).await;
    let listen = server.url.trim_start_matches("http://").to_owned();
    let said = tables(&listen);
    let found = line(&said, "tables");
    assert!(
        found.starts_with("ok") && found.contains("hold what was written"),
        "{said}"
    );
    server.kill();

    // The database lists its parts in a table of the first of them.
    let folder = data
        .join("store")
        .join("keyspaces")
        .join("0")
        .join("tables");
    let mut listed = fs::read_dir(folder).expect("a folder");
    let table = listed.next().expect("a table").expect("an entry").path();
    let mut bytes = fs::read(&table).expect("a table");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, bytes).expect("it can be damaged");
    let said = tables(&format!("127.0.0.1:{}", free_port()));
    let found = line(&said, "tables");
    assert!(
        found.starts_with("problem")
            && found.contains(table.to_str().expect("text"))
            && found.contains("tickwheel backup restore"),
        "{said}"
    );
}

/// Bytes of a page of the disk.
const PAGE: usize = 4096;

/// Zeroes a page in the middle of what was written of a journal.
fn zero_a_page(journal: &Path) {
    let mut bytes = fs::read(journal).expect("a journal");
    let used = bytes.iter().rposition(|byte| *byte != 0);
    let from = used.expect("something was written") / 2 / PAGE * PAGE;
    bytes[from..from + PAGE].fill(0);
    fs::write(journal, bytes).expect("it can be damaged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_page_of_the_journal_is_refused_and_repaired_with_everything_but_what_lay_in_it() {
    const TASKS: usize = 200;
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let path = data.to_str().expect("text");
    let mut server = Server::start(directory.path(), &[]).await;
    let mut ids = Vec::new();
    for number in 0..TASKS {
        let task = json!({"callback": "a", "delay": "1h", "payload": format!("{number:0>200}")});
        let answer = post(&server.url, "/v1/tasks", &task).await;
        ids.push(answer["id"].as_str().expect("an id").to_owned());
    }
    server.kill();
    let journal = data.join("store").join("0.jnl");
    zero_a_page(&journal);

    let serve = program(&["serve", "--listen", "127.0.0.1:0", "--data-dir", path]);
    let said = String::from_utf8_lossy(&serve.stderr).into_owned();
    assert_eq!(serve.status.code(), Some(2), "{said}");
    for words in [
        "0.jnl is damaged at byte",
        "restore a copy",
        "tickwheel doctor --repair",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let nowhere = format!("127.0.0.1:{}", free_port());
    let (output, said) = doctor(path, &nowhere);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let found = line(&said, "journals");
    assert!(
        found.starts_with("problem") && found.contains("whole batches lie behind"),
        "{said}"
    );

    let output = program(&[
        "doctor",
        "--repair",
        "--data-dir",
        path,
        "--listen",
        &nowhere,
    ]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let repaired = line(&said, "repair");
    assert!(
        repaired.starts_with("ok")
            && repaired.contains("set aside as")
            && repaired.contains("behind it are kept"),
        "{said}"
    );
    assert!(line(&said, "journals").contains("they are whole"), "{said}");
    let aside = fs::read_dir(&data)
        .expect("a directory")
        .filter_map(|file| {
            let name = file.ok()?.file_name().into_string().ok()?;
            name.starts_with("damaged-0.jnl-").then_some(name)
        });
    assert_eq!(aside.count(), 1);

    let server = Server::start(directory.path(), &[]).await;
    let mut lost = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let read = reqwest::get(format!("{}/v1/tasks/{id}", server.url)).await;
        match read.expect("an answer").status().as_u16() {
            200 => {}
            404 => lost.push(number),
            other => panic!("{other} for task {number}"),
        }
    }
    // The lost entries lay together, in a page and in the two batches that the page cut.
    let (first, last) = (lost[0], *lost.last().expect("some lay there"));
    assert_eq!(lost, (first..=last).collect::<Vec<_>>());
    assert!(lost.len() <= PAGE / 200 + 2, "{lost:?}");
}
