//! `SmallDisk` gives a test's servers a disk of a few hundred MiB: a tmpfs in a mount namespace,
//! gone with the test.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::server::{Server, free_port};

/// Where the disk is mounted, within its namespace only.
const AT: &str = "/mnt";

/// The disk. It lives as long as the process that holds its namespace, which ends with this one.
pub(super) struct SmallDisk {
    holder: Child,
}

/// The flags of `unshare` and `nsenter` beside `--mount`: a user other than root becomes root in
/// a namespace of its own.
fn as_root(flag: &'static str) -> Vec<&'static str> {
    if rustix::process::geteuid().is_root() {
        Vec::new()
    } else {
        vec!["--user", flag]
    }
}

impl SmallDisk {
    /// Mounts a disk; returns the reason where that is not permitted.
    pub(super) fn mount(mib: u64) -> Result<Self, String> {
        let script = format!(
            "mount -t tmpfs -o size={mib}m tickwheel-disk {AT} && echo mounted && exec cat"
        );
        let mut holder = Command::new("unshare")
            .args(as_root("--map-root-user"))
            .args(["--mount", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut said = String::new();
        let out = holder.stdout.take().expect("it is piped");
        BufReader::new(out)
            .read_line(&mut said)
            .map_err(|error| error.to_string())?;
        if said == "mounted\n" {
            return Ok(Self { holder });
        }
        let ended = holder
            .wait_with_output()
            .map_err(|error| error.to_string())?;
        Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned())
    }

    /// A command in the disk's namespace. Its process becomes the program, so it can be killed as
    /// the program.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.holder.id().to_string(), "--mount"])
            .args(as_root("--preserve-credentials"))
            .arg(program);
        command
    }

    /// Gives it another size.
    pub(super) fn resize(&self, mib: u64) {
        let mut mount = self.command("mount");
        mount.args(["-o", &format!("remount,size={mib}m"), AT]);
        assert!(mount.status().expect("it can be run").success());
    }

    /// The disk as this process sees it.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{AT}", self.holder.id()))
    }

    pub(super) fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(self.path()).expect("it is mounted");
        found.f_bavail * found.f_frsize
    }

    /// The number of files in one of its directories.
    pub(super) fn files(&self, directory: &str) -> usize {
        let found = fs::read_dir(self.path().join(directory));
        found.expect("it is there").count()
    }

    /// Takes all room that is left, to the last byte.
    pub(super) fn fill(&self) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.path().join("ballast"))
            .expect("a file can be made");
        for block in [vec![1; 1 << 20], vec![1; 1 << 12]] {
            while file.write_all(&block).is_ok() {}
        }
    }

    /// Frees the room that was taken.
    pub(super) fn relieve(&self) {
        fs::remove_file(self.path().join("ballast")).expect("there is ballast");
    }

    /// Starts a server whose data is on the disk, and its log elsewhere.
    pub(super) fn serve(&self, log: &Path) -> Server {
        let program = self.command(env!("CARGO_BIN_EXE_tickwheel"));
        let data = Path::new(AT).join("data");
        Server::spawn_by(program, log, &data, free_port(), &[])
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The holder ends with its input at the latest.
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}
