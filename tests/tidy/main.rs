//! This test checks the house rules no other tool checks: lengths, words, purity of the model, arrows, links.
//!
//! One function checks one rule; a finding says file, line and remedy. Standard library only, to link fast.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

mod circles;
mod door;
mod links;
mod names;
mod order;
mod packages;
mod prose;
mod publish;
mod storeys;
mod surface;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The longest file; a longer one has two purposes.
const FILE_LINES_MAX: usize = 500;

/// The longest function outside tests.
const FUNCTION_LINES_MAX: usize = 60;

/// Functions that are tables: one row is a statement.
const TABLES: [&str; 1] = ["src/store/cassandra/statements.rs"];

/// The longest comment line; rustfmt checks code lines.
const COMMENT_CHARS_MAX: usize = 130;

/// A file under version control.
struct Source {
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
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

/// The lines outside the file's own tests, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // An item marked as test code is left out, up to the brace or semicolon that ends it.
    let mut skipping = false;
    let numbered = text.lines().enumerate();
    numbered.filter_map(move |(index, line)| {
        let begins = line == "#[cfg(test)]";
        let skipped = skipping || begins;
        let ends = line == "}" || (line.ends_with(';') && !line.starts_with(' '));
        skipping = skipped && (begins || !ends);
        (!skipped).then_some((index + 1, line))
    })
}

/// A line that is code: not a comment.
fn is_code((_, line): &(usize, &str)) -> bool {
    !line.trim_start().starts_with("//")
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
    let checked = sources(|path| rust(path) && !is_test(path) && !TABLES.contains(&path));
    fail_if_any(&checked.iter().flat_map(long_functions).collect::<Vec<_>>());
}

fn long_functions(Source { path, text }: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    for (number, line) in code(text).filter(is_code) {
        let head = line.trim_start();
        let indent = line.len() - head.len();
        let before = head.split("fn ").next().unwrap_or_default();
        // `crate` is of `pub(in crate::a)`.
        let modifiers = ["pub", "crate::", "const", "async", "unsafe", "extern"];
        let is_modifier = |word: &str| modifiers.iter().any(|known| word.starts_with(known));
        if head.contains("fn ") && before.split_whitespace().all(is_modifier) {
            open = Some((number, indent));
        }
        if let Some((from, at)) = open
            && head == "}"
            && indent == at
        {
            let lines = number - from + 1;
            if lines > FUNCTION_LINES_MAX {
                findings.push(format!(
                    "{path}:{from}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}"
                ));
            }
            open = None;
        }
    }
    findings
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
    let checked = sources(rust);
    fail_if_any(&checked.iter().flat_map(forbidden_words).collect::<Vec<_>>());
}

fn forbidden_words(Source { path, text }: &Source) -> Vec<String> {
    // The words are written in halves, so that this file passes.
    let words: [(&str, &str); 7] = [
        (concat!("to", "do!("), "finish it"),
        (concat!("unimpl", "emented!("), "finish it"),
        (concat!("db", "g!("), "remove it"),
        (
            concat!("#[ig", "nore"),
            "say `make test-all`, which runs it",
        ),
        (concat!("#[should_", "panic"), "assert on the value instead"),
        (concat!("FIX", "ME"), "fix it, or open an issue"),
        (concat!("TO", "DO"), "fix it, or open an issue"),
    ];
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_run = line.contains("make test-all");
        for (word, advice) in words {
            if line.contains(word) && !is_run {
                findings.push(format!("{path}:{}: `{word}`: {advice}", index + 1));
            }
        }
    }
    findings
}

#[test]
fn every_match_that_is_tested_for_is_asserted() {
    let checked = sources(rust);
    fail_if_any(&checked.iter().flat_map(bare_matches).collect::<Vec<_>>());
}

/// Finds a `matches!` whose result is not used, on one line or on several.
fn bare_matches(Source { path, text }: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut ended = true;
    let mut open: Option<(usize, usize)> = None;
    for (number, line) in code_and_tests(text).filter(is_code) {
        let head = line.trim_start();
        let indent = line.len() - head.len();
        if ended && head.starts_with("matches!(") {
            open = Some((number, indent));
        }
        if let Some((from, at)) = open
            && indent == at
            && head.ends_with([')', ';'])
        {
            if head.ends_with(");") {
                findings.push(format!(
                    "{path}:{from}: a bare `matches!` checks nothing: assert it"
                ));
            }
            open = None;
        }
        ended = head.is_empty() || head.ends_with([';', '{', '}']);
    }
    findings
}

fn code_and_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}

#[test]
fn the_model_is_pure() {
    let checked = sources(|path| path.starts_with("src/model/") && rust(path));
    fail_if_any(&checked.iter().flat_map(impurities).collect::<Vec<_>>());
}

fn impurities(Source { path, text }: &Source) -> Vec<String> {
    let impure = "tokio async .await SystemTime Instant rand:: std::fs std::net std::thread std::env \
                  tracing metrics:: Mutex Atomic RefCell println!";
    let mut findings = Vec::new();
    for (number, line) in code(text).filter(is_code) {
        if let Some(word) = impure.split_whitespace().find(|word| line.contains(word)) {
            findings.push(format!(
                "{path}:{number}: `{word}`: the model computes, the flow acts"
            ));
        }
    }
    findings
}

/// The parts of this crate that each folder may use beside itself. A folder that is not listed puts the
/// program together and may use all of it.
const ARROWS: [(&str, &str); 13] = [
    ("src/model/", ""),
    ("src/schema/", "model limits"),
    ("src/api/", "model limits"),
    ("src/store/", "model schema limits failpoint time_source"),
    ("src/queue/", "model schema limits time_source wake"),
    ("src/doubles/", "model store queue limits time_source wake"),
    (
        "src/flow/",
        "model schema store queue limits failpoint telemetry time_source wake",
    ),
    ("src/telemetry/", "limits time_source"),
    ("src/config/", "model limits"),
    // Topic names come from the queue's messages; a store must not be used.
    (
        "src/http/",
        "api model schema queue flow limits time_source telemetry",
    ),
    ("src/client/", "api model limits time_source"),
    (
        "src/worker/",
        "api model schema queue client limits time_source",
    ),
    ("src/time_source", "model"),
];

#[test]
fn arrows_point_one_way() {
    let checked = sources(|path| path.starts_with("src/") && rust(path) && !is_test(path));
    fail_if_any(&checked.iter().flat_map(wrong_arrows).collect::<Vec<_>>());
}

fn wrong_arrows(Source { path, text }: &Source) -> Vec<String> {
    let Some((folder, allowed)) = ARROWS.iter().find(|(folder, _)| path.starts_with(folder)) else {
        return Vec::new();
    };
    let own = folder.trim_start_matches("src/").trim_end_matches('/');
    let wrong = crate_uses(text).into_iter().filter(|(_, name)| {
        // Deliberate bugs live where the real ones would; in a build for users they are a constant.
        name != own
            && name != "flaw"
            && !name.is_empty()
            && !allowed.split(' ').any(|other| other == name)
    });
    wrong
        .map(|(number, name)| {
            format!("{path}:{number}: uses `crate::{name}`: that arrow points the wrong way")
        })
        .collect()
}

/// The modules of this crate that a file names, with the line.
fn crate_uses(text: &str) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    let mut in_group = false;
    for (number, line) in code(text).filter(is_code) {
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
        ("src/store/embedded/", "store::cassandra"),
        ("src/store/cassandra/", "store::embedded"),
        ("src/queue/embedded/", "queue::kafka"),
        ("src/queue/kafka/", "queue::embedded"),
        ("src/doubles/", "store::cassandra"),
        ("src/doubles/", "store::embedded"),
        ("src/doubles/", "queue::kafka"),
        ("src/doubles/", "queue::embedded"),
    ] {
        for Source { path, text } in sources(|path| path.starts_with(folder) && !is_test(path)) {
            if code(&text).any(|(_, line)| line.contains(other)) {
                findings.push(format!(
                    "{path}: names {other}: adapters share only the seam"
                ));
            }
        }
    }
    fail_if_any(&findings);
}

#[test]
fn every_dependency_comes_from_the_public_registry() {
    let known = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let checked = sources(|path| path.ends_with("Cargo.lock") || path.ends_with(".toml"));
    let mut findings = Vec::new();
    for Source { path, text } in &checked {
        for (number, line) in code_and_tests(text) {
            let other = path.ends_with(".lock") && line.starts_with("source") && line != known;
            let named = ["registry-index", "sparse+http", "replace-with", " git = \""];
            if other || named.iter().any(|word| line.contains(word)) {
                findings.push(format!("{path}:{number}: a source that is not everybody's"));
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
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
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

/// Each rule gets a text that it must find, and a similar one that is allowed. A rule that never
/// finds anything is useless.
#[test]
fn every_rule_finds_what_it_is_for() {
    type Rule = fn(&Source) -> Vec<String>;
    let long = format!(
        "    pub(super) const fn f() {{\n{}    }}\n",
        "        g();\n".repeat(59)
    );
    let behind_tests = format!("#[cfg(test)]\nmod fixtures;\n\n{long}");
    let of_room = long.replace("pub(super)", "pub(in crate::a)");
    let short = long.replacen("        g();\n", "", 1);
    let in_tests = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
    let unasserted = [
        "    x();\n    matches",
        "!(\n        a,\n        B\n    );\n",
    ]
    .concat();
    let unfinished = concat!("to", "do!()");
    let cases: [(Rule, &str, &str, usize); 15] = [
        (long_functions, "src/a.rs", &long, 1),
        (long_functions, "src/a.rs", &behind_tests, 1),
        (long_functions, "src/a.rs", &of_room, 1),
        (long_functions, "src/a.rs", &short, 0),
        (long_functions, "src/a.rs", &in_tests, 0),
        (forbidden_words, "src/a.rs", unfinished, 1),
        (bare_matches, "tests/a.rs", &unasserted, 1),
        (
            bare_matches,
            "tests/a.rs",
            "    assert!(\n        matches!(a, B)\n    );",
            0,
        ),
        (
            bare_matches,
            "src/a.rs",
            "fn f() -> bool {\n    matches!(a, B)\n}",
            0,
        ),
        (impurities, "src/model/a.rs", "let now = Instant::now();", 1),
        (
            impurities,
            "src/model/a.rs",
            "// An Instant is not read here.",
            0,
        ),
        (wrong_arrows, "src/model/a.rs", "use crate::flow::x;", 1),
        (
            wrong_arrows,
            "src/http/a.rs",
            "use crate::{\n    flow,\n    store::{A, B},\n};",
            1,
        ),
        (
            wrong_arrows,
            "src/flow/a.rs",
            "use crate::{\n    queue::A,\n    store::{A, B},\n};",
            0,
        ),
        (wrong_arrows, "src/worker/a.rs", "crate::store::A", 1),
    ];
    for (rule, path, text, expected) in cases {
        let source = Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let found = rule(&source);
        assert_eq!(found.len(), expected, "{path}: {text}\n{found:?}");
    }
}
