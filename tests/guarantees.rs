//! The published contract names a test for every promise, and this test checks that every named test exists.

use std::{fs, path::Path};

const DOCUMENT: &str = include_str!("../docs/guarantees.md");

/// The text before the names of a promise's tests.
const CHECKED_BY: &str = "Checked by:";

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// Returns the tests in a list: each file with the names of some of its tests, all in backticks.
fn named(list: &str) -> Vec<(&str, &str)> {
    let mut path = "";
    let mut named = Vec::new();
    for word in list.split('`').skip(1).step_by(2) {
        if word.ends_with(".rs") {
            path = word;
        } else {
            named.push((path, word));
        }
    }
    named
}

/// Returns all that is wrong with a contract.
fn findings(document: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let sections = document.split("\n## ").skip(1);
    // Promises are numbered; other sections are not promises.
    let promises = sections.filter(|section| section.starts_with(|c: char| c.is_ascii_digit()));
    for promise in promises {
        let title = promise.lines().next().unwrap_or_default();
        let names = promise
            .split_once(CHECKED_BY)
            .map(|(_, list)| named(list))
            .unwrap_or_default();
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
    lines.iter().enumerate().any(|(at, line)| {
        // The reason why `make test-all` runs it may stand in between.
        let mut above = lines[..at].iter().rev();
        let mark = above.find(|line| !line.starts_with(concat!("#[ig", "nore")));
        line.contains(&head)
            && mark.is_some_and(|mark| {
                mark.starts_with("#[test]") || mark.starts_with("#[tokio::test")
            })
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
    let own = "- `tests/guarantees.rs`: `every_promise_names_tests_that_exist`";
    let contract = |list: &str| format!("# G\n\n## 1. Bold\n\n{CHECKED_BY}\n\n{own}\n{list}\n");
    assert!(findings(&contract(own)).is_empty());
    // A missing test, a function that is no test, and a missing file.
    for (path, name) in [
        ("tests/guarantees.rs", "nothing_of_the_kind"),
        ("tests/guarantees.rs", "is_test"),
        ("tests/nowhere.rs", "every_promise_names_tests_that_exist"),
    ] {
        let found = findings(&contract(&format!("- `{path}`:\n  `{name}`")));
        assert_eq!(
            found,
            [format!("1. Bold: there is no test `{path}::{name}`")]
        );
    }
}
