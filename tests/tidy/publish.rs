//! The package holds what a stranger needs to build the crate, and nothing of its tests and measurements.

use std::process::Command;

use super::{Source, fail_if_any, root, rust, sources};

/// Files without which the package does not build, or may not be passed on.
const NEEDED: [&str; 15] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "build.rs",
    "docs/guarantees.md",
    "examples/hello.rs",
    "schemas/cassandra/keyspace.cql",
    "schemas/cassandra/tables.cql",
    "schemas/examples.json",
    "schemas/tickwheel.proto",
    "src/lib.rs",
];

/// The places that files of the package may come from. Tests, figures and decisions stay in the repository.
const PLACES: [&str; 4] = ["docs/", "examples/", "schemas/", "src/"];

/// Fields that a registry shows, or without which a stranger cannot tell what the crate is.
const FIELDS: [&str; 10] = [
    "categories =",
    "description =",
    "documentation =",
    "edition.workspace =",
    "include =",
    "keywords =",
    "license.workspace =",
    "readme =",
    "rust-version.workspace =",
    "version.workspace =",
];

/// The line before everything that only tests use.
const TESTING: &str = "#[cfg(any(test, debug_assertions, feature = \"testing\"))]";

fn read(path: &str) -> String {
    sources(|name| name == path).remove(0).text
}

fn packaged() -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let listed = Command::new(cargo)
        .args([
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--package",
            "tickwheel",
        ])
        .current_dir(root())
        .output()
        .expect("cargo lists the files of the package");
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8(listed.stdout).expect("names of files are UTF-8");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_package_holds_what_it_needs_and_nothing_else() {
    let packaged = packaged();
    let mut findings: Vec<String> = NEEDED
        .iter()
        .filter(|name| !packaged.iter().any(|file| file == *name))
        .map(|name| format!("{name} is missing: see `include` in Cargo.toml"))
        .collect();
    // Cargo adds files of its own: the manifest as it was, and the commit.
    let added = [
        "Cargo.toml.orig",
        ".cargo_vcs_info.json",
        "schemas/openapi.json",
    ];
    for file in &packaged {
        let known = NEEDED.contains(&file.as_str()) || added.contains(&file.as_str());
        let is_placed = PLACES.iter().any(|place| file.starts_with(place));
        if !known && !is_placed || file.starts_with("docs/decisions") {
            findings.push(format!("{file} does not belong into the package"));
        }
    }
    for Source { path, .. } in sources(|path| path.starts_with("src/") && rust(path)) {
        if !packaged.contains(&path) {
            findings.push(format!("{path} is missing"));
        }
    }
    fail_if_any(&findings);
}

#[test]
fn the_manifest_says_what_the_crate_is() {
    let manifest = read("Cargo.toml");
    let (_, package) = manifest
        .split_once("[package]")
        .expect("the crate has a package");
    let (package, rest) = package.split_once("\n[").expect("dependencies follow");
    assert!(
        rest.starts_with("package.metadata.docs.rs]"),
        "settings of the documentation"
    );
    let lacks = |field: &&&str| !package.lines().any(|line| line.starts_with(**field));
    let missing: Vec<&&str> = FIELDS.iter().filter(lacks).collect();
    assert_eq!(missing, Vec::<&&str>::new());
}

#[test]
fn pages_name_the_version() {
    let version = env!("CARGO_PKG_VERSION");
    let (line, _) = version.rsplit_once('.').expect("a version has three parts");
    assert!(
        read("CHANGELOG.md").contains(&format!("\n## {version}\n")),
        "CHANGELOG.md"
    );
    assert!(
        read("src/lib.rs").contains(&format!("version = \"{line}\"")),
        "src/lib.rs"
    );
    assert!(
        read("README.md").contains(&format!("version = \"{line}\"")),
        "README.md"
    );
}

#[test]
fn stores_queues_and_clocks_of_tests_are_not_in_builds_for_users() {
    for (path, module) in [
        ("src/lib.rs", "pub mod doubles;"),
        ("src/time_source/mod.rs", "mod simulated;"),
    ] {
        // The line that hides a room from the documentation may stand between.
        let text = read(path).replace("#[cfg_attr(not(tickwheel_rooms), doc(hidden))]\n", "");
        let wanted = format!("{TESTING}\n{module}\n");
        assert!(text.contains(&wanted), "{path}: {module} without {TESTING}");
    }
}
