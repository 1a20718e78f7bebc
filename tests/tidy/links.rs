//! Links in documents lead to files and headings that exist.

use std::{collections::BTreeMap, fs, path::Path};

use super::{Source, fail_if_any, root, sources};

#[test]
fn links_in_documents_lead_somewhere() {
    let checked = sources(|path| path.ends_with(".md"));
    fail_if_any(&checked.iter().flat_map(lost_links).collect::<Vec<_>>());
}

fn lost_links(Source { path, text }: &Source) -> Vec<String> {
    let own = root().join(path);
    let folder = own.parent().map(Path::to_path_buf).unwrap_or_default();
    let rests = text.split("](").skip(1);
    let targets = rests.filter_map(|rest| rest.split(')').next());
    let mut findings = Vec::new();
    for target in targets.filter(|target| !target.contains("://")) {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = folder.join(file);
        let is_own = target.starts_with('#');
        if !is_own && !file.exists() {
            findings.push(format!("{path}: the link to {target} leads nowhere"));
        } else if !anchor.is_empty() {
            let there = if is_own {
                Some(text.clone())
            } else {
                fs::read_to_string(&file).ok()
            };
            let found = there.is_some_and(|text| anchors(&text).contains(&anchor.to_owned()));
            if !found {
                findings.push(format!(
                    "{path}: there is no heading for the link to {target}"
                ));
            }
        }
    }
    findings
}

/// The anchors of the headings of a document, as code hosts make them.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut in_block = false;
    let mut anchors = Vec::new();
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_block || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let name: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        let name = name.replace(' ', "-");
        let count = seen.entry(name.clone()).or_default();
        anchors.push(if *count == 0 {
            name
        } else {
            format!("{name}-{count}")
        });
        *count += 1;
    }
    anchors
}

#[test]
fn the_rule_of_links_finds_what_it_is_for() {
    let cases = [
        ("# A\n[a](#a)", 0),
        ("# A, and `b`!\n[a](#a-and-b)", 0),
        ("# A\n## A\n[a](#a-1)", 0),
        ("# A\n[a](#b)", 1),
        ("```\n# A\n```\n[a](#a)", 1),
        ("[a](nowhere.md)", 1),
        ("[a](ARCHITECTURE.md#the-map) and [b](docs)", 0),
        ("[a](ARCHITECTURE.md#nowhere)", 1),
    ];
    for (text, expected) in cases {
        let source = Source {
            path: "a.md".to_owned(),
            text: text.to_owned(),
        };
        let found = lost_links(&source);
        assert_eq!(found.len(), expected, "{text}\n{found:?}");
    }
}
