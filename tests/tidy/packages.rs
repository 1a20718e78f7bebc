//! The packages that a program needs for the client or for a worker are few, and none of them compiles C; one machine needs no
//! library of the system.

use std::{collections::BTreeSet, process::Command};

use super::root;

/// The packages, with those of the build, that a feature of the library needs.
fn packages(feature: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let listed = Command::new(cargo)
        .args(["tree", "--offline", "--package", "tickwheel"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .args(["--no-default-features", "--features", feature])
        .current_dir(root())
        .output()
        .expect("cargo lists the packages");
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8(listed.stdout).expect("names of packages are UTF-8");
    let name = |line: &str| line.trim_end_matches(" (*)").to_owned();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(name)
        .collect()
}

#[test]
fn the_sdk_needs_few_packages_and_no_c_compiler() {
    for (feature, most) in [("client", 130), ("worker", 140)] {
        let packages = packages(feature);
        let count = packages.len();
        assert!(count > 10 && count <= most, "{feature}: {count} packages");
        let compiles_c = packages
            .iter()
            .find(|name| name.starts_with("cc ") || name.starts_with("cmake "));
        assert_eq!(compiles_c, None, "{feature}");
    }
}

/// The default build links no library of the system and compiles no C++: these packages would.
#[test]
fn one_machine_needs_nothing_of_the_servers() {
    const OF_SERVERS: [&str; 4] = ["libz-sys ", "openssl-sys ", "rdkafka-sys ", "scylla "];
    let found = |feature: &str| -> Vec<&str> {
        let packages = packages(feature);
        let has = |name: &&str| packages.iter().any(|package| package.starts_with(*name));
        OF_SERVERS.into_iter().filter(has).collect()
    };
    assert_eq!(found("default"), Vec::<&str>::new());
    assert_eq!(found("default,cluster"), OF_SERVERS);
}
