//! These tests let `tests/look` look at machines that lack things: a PATH with few tools, an old Rust, a full disk, no registry.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
    time::Duration,
};

use tempfile::TempDir;
use tickwheel::time_source::TimeSource;

/// The tools of every system.
const TOOLS: [&str; 16] = [
    "awk", "cat", "cut", "df", "dirname", "grep", "head", "id", "mktemp", "printf", "rm", "sed",
    "sh", "tail", "uname", "true",
];

/// Longest time of a look: a second, and room for a machine that tests other things meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// A machine with few tools, in a folder.
struct Machine(TempDir);

impl Machine {
    fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        for tool in TOOLS {
            let mut places = std::env::split_paths(&path).map(|place| place.join(tool));
            let found = places.find(|place| place.exists());
            symlink(found.expect("the tool is here"), folder.path().join(tool)).unwrap();
        }
        Self(folder)
    }

    /// Puts a program of one line there, in place of another perhaps.
    fn with(self, tool: &str, line: &str) -> Self {
        let path = self.0.path().join(tool);
        fs::remove_file(&path).unwrap_or_default();
        fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// The one sentence that the look says.
    fn lacks(&self, purpose: &str) -> String {
        let path = self.0.path().to_str().unwrap();
        said(purpose, &[("PATH", path), ("HOME", "/nonexistent")])
    }
}

fn said(purpose: &str, variables: &[(&str, &str)]) -> String {
    let time = TimeSource::real();
    let begun = time.moment();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/look");
    let mut look = Command::new("/bin/sh");
    look.arg(script)
        .arg(purpose)
        // Cargo names itself to its tests; a machine of a test has its own, or none.
        .env_remove("CARGO")
        .envs(variables.iter().copied());
    let looked = look.output().unwrap();
    let text = String::from_utf8(looked.stderr).unwrap();
    assert_eq!(looked.status.code(), Some(3), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let took = time.moment().since(begun);
    assert!(took < LOOK_MAX, "{took:?}: {text}");
    text
}

fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
}

#[test]
fn all_that_a_bare_machine_lacks_is_said_at_once() {
    let machine = Machine::bare();
    let demo = machine.lacks("demo");
    has(&demo, &["make, a C compiler", "https://rustup.rs"]);
    assert!(!demo.contains("C++") && !demo.contains("Java"), "{demo}");
    has(
        &machine.lacks("check"),
        &["a C++ compiler", "OpenSSL 3", "Python 3.11 with venv"],
    );
    let test = [
        "a C compiler",
        "a C++ compiler",
        "zlib",
        "OpenSSL 3",
        "Java 17",
        "Maven",
        "Python 3.11 with venv",
        "Node with npm",
        "openssl",
        "curl",
    ];
    has(&machine.lacks("test"), &test);
}

#[test]
fn the_command_is_that_of_the_system() {
    let mac = Machine::bare().with("uname", "echo Darwin");
    has(
        &mac.lacks("demo"),
        &["lacks make, a C compiler: xcode-select --install;"],
    );
    has(
        &mac.lacks("test"),
        &["xcode-select --install && brew install ", " maven "],
    );
}

#[test]
fn versions_that_are_too_old_are_named() {
    let machine = Machine::bare()
        .with("cargo", "true")
        .with("rustc", "echo 'rustc 1.63.0 (4b91a6ea7 2022-08-08)'")
        .with("node", "echo v18.19.0")
        .with("npm", "true");
    let said = machine.lacks("test");
    has(
        &said,
        &["Rust 1.63.0 is too old, 1.", "Node v18.19.0 is too old, 20"],
    );
    assert!(!said.contains("Node with npm"), "{said}");
}

#[test]
fn a_disk_that_is_almost_full_is_told_before_anything_is_built() {
    let machine = Machine::bare().with("df", "printf 'disk\\n/dev/a 9 9 1024 99%% /\\n'");
    has(&machine.lacks("demo"), &["has 1 free", "CARGO_TARGET_DIR"]);
    let full = said("demo", &[("TMPDIR", "/nonexistent")]);
    has(&full, &["no file can be written below /nonexistent"]);
}

/// The registry is a port that nobody listens on.
#[test]
fn a_machine_without_a_network_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let config = "[source.crates-io]\nreplace-with = \"nowhere\"\n\
        [source.nowhere]\nregistry = \"sparse+http://127.0.0.1:1/\"\n";
    fs::write(home.path().join("config.toml"), config).unwrap();
    let cargo = ("CARGO_HOME", home.path().to_str().unwrap());
    has(&said("demo", &[cargo]), &["cannot be fetched", "proxy"]);
}
