//! A data directory that version 0.2.0 wrote is opened by this version, read whole, and run to its end.

use std::{fs, path::Path, process::Command};

use crate::{
    kept_data::{Kept, Site, content, fixture},
    server::{Server, free_port},
};

const STORE: &str = "directory";

/// Packs or unpacks a data directory.
fn tar(arguments: &[&str]) {
    let status = Command::new("tar").args(arguments).status().unwrap();
    assert!(status.success(), "tar {arguments:?}");
}

fn unpacked(folder: &Path) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::create_dir_all(&data).unwrap();
    let packed = folder.join("directory.tar.gz");
    let (packed, data) = (packed.to_str().unwrap(), data.to_str().unwrap());
    tar(&["-xzf", packed, "-C", data]);
    directory
}

/// Starts this program on the directory, with its clock so much behind the writing.
async fn opened(directory: &Path, kept: &Kept, later_ms: i64) -> (Server, Site) {
    let file = directory.join("offset");
    fs::write(&file, kept.offset_ms(later_ms).to_string()).unwrap();
    let more = ["--clock-offset-file", file.to_str().unwrap()];
    let mut server = Server::spawn(directory, free_port(), &more);
    server.ready().await;
    let site = Site::new(&server.url, &kept.key());
    (server, site)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it passes two hours in some twenty seconds: make test-all"]
async fn a_directory_of_version_0_2_0_is_read_and_what_is_due_runs() {
    let folder = fixture("0.2.0");
    let kept = Kept::of(&folder, STORE);
    let directory = unpacked(&folder);
    let (mut server, site) = opened(directory.path(), &kept, 20_000).await;
    kept.are_given_by(&site).await;
    server.kill();
    // This version reads what it has written meanwhile.
    let (_server, site) = opened(directory.path(), &kept, 2 * 3600 * 1000 + 60_000).await;
    // The attempt that was left counts as alive for its heartbeat timeout, five minutes from the start on.
    kept.runs(&site, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it writes the fixture that TICKWHEEL_WRITE_FIXTURE names, and nothing in make test-all"]
async fn the_directory_of_this_version_is_written() {
    let Ok(version) = std::env::var("TICKWHEEL_WRITE_FIXTURE") else {
        return;
    };
    let folder = fixture(&version);
    fs::create_dir_all(&folder).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), &[]).await;
    let mut site = Site::new(&server.url, "");
    let ids = content::fill(&mut site, false).await;
    Kept::write(&site, &ids, &folder, STORE).await;
    server.kill();
    let packed = folder.join("directory.tar.gz");
    let data = directory.path().join("data");
    let (packed, data) = (packed.to_str().unwrap(), data.to_str().unwrap());
    tar(&["--sparse", "-czf", packed, "-C", data, "."]);
}
