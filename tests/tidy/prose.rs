//! The rules of prose: documents have short lines and name files that exist, and sentences have a noun as their subject.

use super::{Source, fail_if_any, root, rust, sources};

/// Longest line of a document: two of them fit side by side on a screen.
const DOCUMENT_CHARS_MAX: usize = 100;

/// Words that hide the subject of a sentence. A reader has to wait for its end to learn what it is about.
const HIDDEN_SUBJECTS: [&str; 6] = ["Who", "Whoever", "What", "Whatever", "That", "Nobody"];

fn is_document(path: &str) -> bool {
    path.ends_with(".md")
}

#[test]
fn documents_have_short_lines() {
    let checked = sources(is_document);
    fail_if_any(&checked.iter().flat_map(long_lines).collect::<Vec<_>>());
}

fn long_lines(Source { path, text }: &Source) -> Vec<String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > DOCUMENT_CHARS_MAX)
        .map(|(index, _)| {
            format!(
                "{path}:{}: a line of more than {DOCUMENT_CHARS_MAX} characters",
                index + 1
            )
        })
        .collect()
}

#[test]
fn sentences_have_a_subject() {
    let checked = sources(|path| rust(path) || is_document(path));
    fail_if_any(&checked.iter().flat_map(hidden_subjects).collect::<Vec<_>>());
}

/// The prose of a line: a document's line, or the text of a comment that stands on a line of its own.
fn prose<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    if is_document(path) {
        return Some(line.trim_start_matches(['-', '*', ' ']));
    }
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim_start())
}

fn hidden_subjects(Source { path, text }: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        in_block ^= is_document(path) && line.trim_start().starts_with("```");
        if in_block {
            continue;
        }
        let Some(text) = prose(path, line) else {
            continue;
        };
        let begins = |word: &&str| {
            let at_start = text
                .strip_prefix(*word)
                .is_some_and(|rest| rest.starts_with([' ', ',']));
            let inside = [". ", "! ", "? "]
                .iter()
                .any(|end| text.contains(&format!("{end}{word} ")));
            at_start || inside
        };
        if let Some(word) = HIDDEN_SUBJECTS.iter().find(|word| begins(word)) {
            findings.push(format!(
                "{path}:{}: a sentence begins with `{word}`: name its subject",
                index + 1
            ));
        }
    }
    findings
}

#[test]
fn documents_name_files_that_exist() {
    let checked = sources(is_document);
    fail_if_any(&checked.iter().flat_map(lost_files).collect::<Vec<_>>());
}

/// Files of the source in backticks, by their path from the root or from `src/`.
fn lost_files(Source { path, text }: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    for name in text.split('`').skip(1).step_by(2) {
        let is_file =
            name.ends_with(".rs") && name.contains('/') && !name.contains([' ', '*', '{']);
        let exists = |name: &str| root().join(name).exists();
        if is_file && !exists(name) && !exists(&format!("src/{name}")) {
            findings.push(format!("{path}: there is no file `{name}`"));
        }
    }
    findings
}

/// A rule that finds nothing anywhere shows nothing.
#[test]
fn every_rule_of_prose_finds_what_it_is_for() {
    type Rule = fn(&Source) -> Vec<String>;
    let long = "x".repeat(DOCUMENT_CHARS_MAX + 1);
    let cases: [(Rule, &str, &str, usize); 10] = [
        (long_lines, "a.md", &long, 1),
        (long_lines, "a.md", &long[1..], 0),
        (hidden_subjects, "a.rs", concat!("/// Wh", "at is read."), 1),
        (
            hidden_subjects,
            "a.rs",
            concat!("// It is. Th", "at is why."),
            1,
        ),
        (hidden_subjects, "a.rs", "/// Whole seconds are read.", 0),
        (hidden_subjects, "a.rs", "let text = \"What is it\";", 0),
        (hidden_subjects, "a.md", concat!("- Wh", "o reads it."), 1),
        (hidden_subjects, "a.md", "```\nWhat is shown\n```", 0),
        (lost_files, "a.md", "see `nowhere/at_all.rs`", 1),
        (
            lost_files,
            "a.md",
            "see `tests/tidy/prose.rs` and `flow/mod.rs`",
            0,
        ),
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
