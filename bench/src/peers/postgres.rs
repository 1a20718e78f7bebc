//! The PostgreSQL peer runs db-scheduler for the comparison: rows with a due time, polled ten times a second.
//!
//! Users of a relational store work like this. The server is the package's, on a directory of its own. Its
//! superuser must not run it, so root becomes `postgres`.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use rustix::process::{Signal, geteuid};

use super::{
    Place,
    adapted::Adapted,
    adapter::Adapter,
    process::{Process, free_address},
};
use crate::report::setting::{Kind, MILLISECOND, Setting};

pub(super) const SETTINGS: [Setting; 1] = [Setting {
    kind: Kind::Postgres,
    name: "postgres, db-scheduler",
    variant: "on",
    delivery: "at least once",
    synced: "yes",
    resolution: "1 ms, polled every 100 ms",
    batches: "256 a statement",
    step: MILLISECOND,
    grid: MILLISECOND,
}];

/// Directory into which Debian puts the programs of each version.
const PROGRAMS: &str = "/usr/lib/postgresql";

pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<Adapted> {
    let programs = programs().with_context(|| {
        format!("there is nothing below {PROGRAMS}: apt-get install postgresql")
    })?;
    let directory = place.directory.join("data");
    fs::create_dir(&directory)?;
    let user = user()?;
    if let Some((user, group)) = user {
        chown(&directory, Some(user), Some(group))?;
    }
    let command = |name: &str| {
        let mut command = Command::new(programs.join(name));
        if let Some((user, group)) = user {
            command.uid(user).gid(group);
        }
        command.arg("-D").arg(&directory).current_dir(&directory);
        command
    };
    let made = command("initdb")
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"])
        .stdin(Stdio::null())
        .output()?;
    let complaint = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "initdb failed: {complaint}");
    let address = free_address()?;
    let port = address.port().to_string();
    let mut server = command("postgres");
    for (name, value) in [
        ("listen_addresses", "127.0.0.1"),
        ("port", port.as_str()),
        ("unix_socket_directories", ""),
        ("max_connections", "100"),
        ("shared_buffers", "256MB"),
        ("max_wal_size", "2GB"),
        ("fsync", "on"),
        ("synchronous_commit", setting.variant),
    ] {
        server.args(["-c", &format!("{name}={value}")]);
    }
    // An immediate shutdown, in which the server ends its own children, which are in groups of their own.
    let server = Process::start("postgres", &mut server, &place.directory)?;
    let mut server = server.stopped_by(Signal::QUIT);
    server.listens(&place.time, address).await?;
    let adapter = Adapter::java(setting.name, "DbScheduler", &address.to_string(), &place).await?;
    Ok(Adapted {
        adapter,
        servers: vec![server],
        // Tables and indexes only, because the segments of the log are used again.
        directory: directory.join("base"),
    })
}

/// Returns the directory of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(PROGRAMS).ok()?.flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .map(|version| version.path())
        .max_by_key(|path| number(path))?;
    let programs = newest.join("bin");
    programs.join("initdb").is_file().then_some(programs)
}

/// Returns the user that root has to become.
fn user() -> anyhow::Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users
        .lines()
        .find_map(|line| line.strip_prefix("postgres:"));
    let mut fields = line
        .context("there is no user postgres: apt-get install postgresql")?
        .split(':')
        .skip(1);
    let mut next = || anyhow::Ok(fields.next().context("a cut line")?.parse::<u32>()?);
    Ok(Some((next()?, next()?)))
}
