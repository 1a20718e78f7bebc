//! The published contract names a test for every promise, and every test that it names is there.

use std::{fs, path::Path};

const DOCUMENT: &str = include_str!("../docs/guarantees.md");

/// What comes before the names of a promise's tests.
const CHECKED_BY: &str = "Checked by:";

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// Everything that is wrong with a contract.
fn findings(document: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let sections = document.split("\n## ").skip(1);
    // Promises are numbered; other sections are not promises.
    let promises = sections.filter(|section| section.starts_with(|c: char| c.is_ascii_digit()));
    for promise in promises {
        let title = promise.lines().next().unwrap_or_default();
        let names: Vec<(&str, &str)> = match promise.split_once(CHECKED_BY) {
            Some((_, names)) => names
                .split('`')
                .skip(1)
                .step_by(2)
                .filter_map(|name| name.split_once("::"))
                .collect(),
            None => Vec::new(),
        };
        if names.is_empty() {
            findings.push(format!("{title}: names no test"));
        }
        for (path, name) in names {
            if !read(path).is_some_and(|text| is_test(&text, name)) {
                findings.push(format!("{title}: there is no test `{path}::{name}`"));
            }
        }
    }
    findings
}

/// Tells whether a file has a test of this name: a function right below the mark of one.
fn is_test(text: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(2).any(|pair| {
        let marked = pair[0].starts_with("#[test]") || pair[0].starts_with("#[tokio::test");
        marked && pair[1].contains(&head)
    })
}

#[test]
fn every_promise_names_tests_that_exist() {
    let promises = DOCUMENT.matches(CHECKED_BY).count();
    assert!(promises >= 10, "{promises} promises");
    let findings = findings(DOCUMENT);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_promise_without_a_test_is_found() {
    let without = "# G\n\n## 1. Bold\n\nwords\n\n## Conditions\n\nwords\n";
    assert_eq!(findings(without), ["1. Bold: names no test"]);
    let own = "tests/guarantees.rs::every_promise_names_tests_that_exist";
    let named = |name: &str| format!("# G\n\n## 1. Bold\n\n{CHECKED_BY} `{own}`,\n`{name}`\n");
    assert!(findings(&named(own)).is_empty());
    // Not there; there and no test; a file that is not there.
    for name in [
        "tests/guarantees.rs::nothing_of_the_kind",
        "tests/guarantees.rs::is_test",
        "tests/nowhere.rs::every_promise_names_tests_that_exist",
    ] {
        let found = findings(&named(name));
        assert_eq!(found, [format!("1. Bold: there is no test `{name}`")]);
    }
}
