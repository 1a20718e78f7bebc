//! The house rules that no other tool checks: lengths, words, purity of the model, arrows between folders, links.
//!
//! One function per rule; each finding says file, line and what to do. Standard library only, so that it links at once.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Longest file: one that is longer has two trades in it.
const FILE_LINES_MAX: usize = 500;

/// Longest function outside tests.
const FUNCTION_LINES_MAX: usize = 60;

/// Functions that are tables: one row a statement.
const TABLES: [&str; 1] = ["src/store/cassandra/statements.rs"];

/// Longest comment line; code lines are rustfmt's.
const COMMENT_CHARS_MAX: usize = 130;

/// A file under version control.
struct Source {
    path: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text files under version control that `keep` wants.
fn sources(keep: impl Fn(&str) -> bool) -> Vec<Source> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files: run the tests in a checkout");
    let names = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    let files = names
        .lines()
        .filter(|name| keep(name) && root().join(name).is_file());
    files
        .filter_map(|name| {
            Some(Source {
                path: name.to_owned(),
                text: fs::read_to_string(root().join(name)).ok()?,
            })
        })
        .collect()
}

fn rust(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "rs")
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("tests") || path.contains("fixtures")
}

fn fail_if_any(findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

/// The lines before the file's own tests, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .take_while(|(_, line)| *line != "#[cfg(test)]")
}

#[test]
fn files_are_short() {
    let long = sources(rust)
        .into_iter()
        .filter_map(|Source { path, text }| {
            let lines = text.lines().count();
            (lines > FILE_LINES_MAX)
                .then(|| format!("{path}: {lines} lines, at most {FILE_LINES_MAX}: divide it"))
        });
    fail_if_any(&long.collect::<Vec<_>>());
}

#[test]
fn functions_are_short() {
    let mut findings = Vec::new();
    for Source { path, text } in sources(|path| rust(path) && !is_test(path)) {
        let mut open: Option<(usize, usize)> = None;
        for (number, line) in code(&text) {
            let indent = line.len() - line.trim_start().len();
            let head = line.trim_start();
            let begins = [
                "fn ",
                "pub fn ",
                "async fn ",
                "pub async fn ",
                "pub(super) fn ",
                "pub(super) async fn ",
                "pub(crate) fn ",
            ];
            if begins.iter().any(|begin| head.starts_with(begin)) {
                open = Some((number, indent));
            }
            if let Some((from, at)) = open
                && head == "}"
                && indent == at
            {
                let lines = number - from + 1;
                if lines > FUNCTION_LINES_MAX && !TABLES.contains(&path.as_str()) {
                    findings.push(format!(
                        "{path}:{from}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}"
                    ));
                }
                open = None;
            }
        }
    }
    fail_if_any(&findings);
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = sources(rust).into_iter().filter(|source| {
        let first = source
            .text
            .lines()
            .find(|line| !line.starts_with("#!") && !line.is_empty());
        !first.is_some_and(|line| line.starts_with("//!"))
    });
    let findings = silent.map(|source| {
        format!(
            "{}: begin with `//!`: purpose, promises, what is left to others",
            source.path
        )
    });
    fail_if_any(&findings.collect::<Vec<_>>());
}

#[test]
fn no_forbidden_words() {
    // Spelled in halves, so that this file passes.
    let words: [(&str, &str); 7] = [
        (concat!("to", "do!("), "finish it"),
        (concat!("unimpl", "emented!("), "finish it"),
        (concat!("db", "g!("), "remove it"),
        (
            concat!("#[ig", "nore"),
            "a test that is not run shows nothing",
        ),
        (concat!("#[should_", "panic"), "assert on the value instead"),
        (concat!("FIX", "ME"), "fix it, or open an issue"),
        (concat!("TO", "DO"), "fix it, or open an issue"),
    ];
    let mut findings = Vec::new();
    for Source { path, text } in sources(rust) {
        for (number, line) in text.lines().enumerate() {
            for (word, advice) in words {
                if line.contains(word) {
                    findings.push(format!("{path}:{}: `{word}`: {advice}", number + 1));
                }
            }
            if line.trim_start().starts_with("matches!(") && line.trim_end().ends_with(");") {
                findings.push(format!(
                    "{path}:{}: a bare `matches!` checks nothing: assert it",
                    number + 1
                ));
            }
        }
    }
    fail_if_any(&findings);
}

#[test]
fn the_model_is_pure() {
    let impure = [
        "tokio",
        "async ",
        "SystemTime",
        "Instant",
        "rand::",
        "std::fs",
        "std::net",
        "tracing",
        "metrics::",
        "Mutex",
    ];
    let mut findings = Vec::new();
    for Source { path, text } in sources(|path| path.starts_with("src/model/") && rust(path)) {
        for (number, line) in code(&text).filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if let Some(word) = impure.iter().find(|word| line.contains(**word)) {
                findings.push(format!(
                    "{path}:{number}: `{word}`: the model computes, the flow acts"
                ));
            }
        }
    }
    fail_if_any(&findings);
}

#[test]
fn arrows_point_one_way() {
    // Folder, and what it may not use of this crate.
    let rules: [(&str, &[&str]); 9] = [
        (
            "src/model/",
            &[
                "app",
                "cli",
                "client",
                "config",
                "flow",
                "http",
                "queue",
                "schema",
                "store",
                "telemetry",
                "time_source",
                "worker",
            ],
        ),
        (
            "src/schema/",
            &[
                "app",
                "cli",
                "client",
                "config",
                "flow",
                "http",
                "queue",
                "store",
                "telemetry",
                "worker",
            ],
        ),
        (
            "src/store/",
            &[
                "app",
                "cli",
                "client",
                "config",
                "flow",
                "http",
                "queue",
                "telemetry",
                "worker",
            ],
        ),
        (
            "src/queue/",
            &[
                "app",
                "cli",
                "client",
                "config",
                "flow",
                "http",
                "store",
                "telemetry",
                "worker",
            ],
        ),
        (
            "src/flow/",
            &[
                "app",
                "cli",
                "client",
                "config",
                "http",
                "telemetry",
                "worker",
            ],
        ),
        (
            "src/http/",
            &["app", "cli", "client", "config", "store", "worker"],
        ),
        (
            "src/worker/",
            &["app", "cli", "config", "flow", "store", "telemetry"],
        ),
        (
            "src/client/",
            &[
                "app",
                "cli",
                "config",
                "flow",
                "queue",
                "store",
                "telemetry",
                "worker",
            ],
        ),
        (
            "src/config/",
            &[
                "app",
                "cli",
                "client",
                "flow",
                "http",
                "queue",
                "store",
                "telemetry",
                "worker",
            ],
        ),
    ];
    let mut findings = Vec::new();
    for Source { path, text } in
        sources(|path| path.starts_with("src/") && rust(path) && !is_test(path))
    {
        let Some((_, forbidden)) = rules.iter().find(|(folder, _)| path.starts_with(folder)) else {
            continue;
        };
        let used = crate_uses(&text);
        for name in *forbidden {
            if let Some((number, _)) = used.iter().find(|(_, used)| used == name) {
                findings.push(format!(
                    "{path}:{number}: uses `crate::{name}`: that arrow points the wrong way"
                ));
            }
        }
    }
    fail_if_any(&findings);
}

/// The modules of this crate that a file names, with the line.
fn crate_uses(text: &str) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    let mut in_group = false;
    for (number, line) in code(text).filter(|(_, line)| !line.trim_start().starts_with("//")) {
        let name_of = |rest: &str| {
            rest.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect::<String>()
        };
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            if let Some(group) = rest.strip_prefix('{') {
                in_group = true;
                used.extend(group.split(',').map(|part| (number, name_of(part.trim()))));
            } else {
                used.push((number, name_of(rest)));
            }
        }
        // A grouped import has one module a line, indented once.
        if in_group && line.starts_with("    ") && !line.starts_with("     ") {
            used.push((number, name_of(line.trim())));
        }
        in_group &= !line.contains("};");
    }
    used
}

#[test]
fn adapters_do_not_see_each_other() {
    let mut findings = Vec::new();
    for (folder, other) in [
        ("cassandra", "memory"),
        ("memory", "cassandra"),
        ("kafka", "memory"),
        ("memory", "kafka"),
    ] {
        for side in ["store", "queue"] {
            for Source { path, text } in
                sources(|path| path.starts_with(&format!("src/{side}/{folder}/")) && !is_test(path))
            {
                let word = format!("{side}::{other}");
                if code(&text).any(|(_, line)| line.contains(&word)) {
                    findings.push(format!(
                        "{path}: names {word}: adapters share only the seam"
                    ));
                }
            }
        }
    }
    fail_if_any(&findings);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut findings = Vec::new();
    for Source { path, text } in sources(|path| path.ends_with(".md")) {
        let folder = root()
            .join(&path)
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !folder.join(file).exists() {
                findings.push(format!("{path}: the link to {target} leads nowhere"));
            }
        }
    }
    fail_if_any(&findings);
}

#[test]
fn texts_are_clean() {
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("bash", "_jobs"),
    ];
    let mut findings = Vec::new();
    for Source { path, text } in
        sources(|path| !path.ends_with(".lock") && !path.starts_with("tests/golden/"))
    {
        let spaces = path.ends_with(".rs") || path.ends_with(".md") || path.ends_with(".toml");
        for (number, line) in text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
        {
            if places.iter().any(|place| line.contains(place)) {
                findings.push(format!("{path}:{number}: names a place of one machine"));
            }
            if spaces && line.ends_with([' ', '\t']) {
                findings.push(format!("{path}:{number}: ends in blanks"));
            }
            let comment = line.trim_start().starts_with("//");
            if comment && line.chars().count() > COMMENT_CHARS_MAX && !line.contains("://") {
                findings.push(format!(
                    "{path}:{number}: a comment line of more than {COMMENT_CHARS_MAX} characters"
                ));
            }
        }
    }
    fail_if_any(&findings);
}
