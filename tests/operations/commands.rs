//! The commands in pages for operators exist: the program knows each subcommand and each flag.

use std::collections::BTreeMap;

use super::read;
use crate::server::program;

const PAGES: [&str; 1] = ["docs/runbook.md"];

/// The commands of this program in the shell blocks of a page, as words.
fn commands(page: &str) -> Vec<Vec<String>> {
    let blocks = page
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines);
    let own = lines.filter(|line| line.starts_with("tickwheel "));
    own.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect())
        .collect()
}

/// Prints the help of the subcommand that `words` begin with.
fn help(words: &[String], seen: &mut BTreeMap<String, String>) -> String {
    let mut taken = 0;
    let mut text = String::new();
    for count in 1..=words.len().min(2) {
        let key = words[..count].join(" ");
        let found = seen.entry(key).or_insert_with(|| {
            let mut arguments: Vec<&str> = words[..count].iter().map(String::as_str).collect();
            arguments.push("--help");
            let output = program(&arguments);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() {
                text
            } else {
                String::new()
            }
        });
        // A name that is no subcommand is an argument of the one before, whose help comes again.
        if found.is_empty() {
            break;
        }
        (taken, text) = (count, found.clone());
        if !text.contains("\nCommands:\n") {
            break;
        }
    }
    assert!(
        taken > 0 && !text.contains("\nCommands:\n"),
        "there is no command {words:?}"
    );
    text
}

#[test]
fn commands_and_flags_of_pages_exist() {
    let mut seen = BTreeMap::new();
    for page in PAGES {
        let commands = commands(&read(page));
        assert!(!commands.is_empty(), "{page} has no command");
        for words in commands {
            let help = help(&words, &mut seen);
            let flags = words.iter().filter(|word| word.starts_with("--"));
            for flag in flags {
                let known = help.split([' ', ',', '\n']).any(|word| word == flag);
                assert!(known, "{page}: {words:?}: there is no {flag}");
            }
        }
    }
}
