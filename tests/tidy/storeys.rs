//! The rule that no arrow runs back among folders, at any depth: one may read them from the lowest to the highest.
//!
//! Folder A uses folder B beside it where a file of A uses a file of B, as in the rule of circles ([`super::circles`]). A file
//! that lies beside folders counts as one of them. The storeys of the flow have an order, and features are islands.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Source,
    circles::{Tree, Use},
    fail_if_any, is_test, rust, sources,
};

/// The storeys of `src/flow`, from the lowest one up. A storey uses itself and those below.
const STOREYS: [&str; 4] = ["base", "features", "life", "stages"];

/// A use of a file by another one, as the reader finds it.
#[derive(Debug, Clone)]
struct Arrow {
    /// `src/a/x.rs:7 uses `Y` of src/b/y.rs`.
    text: String,
}

/// Arrows among the children of one folder: by whom, of what.
type Arrows = BTreeMap<(String, String), Arrow>;

#[test]
fn folders_do_not_use_each_other_in_a_circle() {
    fail_if_any(&findings(&checked()));
}

fn checked() -> Vec<Source> {
    sources(|path| {
        let is_ours = path.starts_with("src/") || path.starts_with("bench/src/");
        is_ours && rust(path) && !is_test(path) && path != "src/main.rs"
    })
}

fn findings(sources: &[Source]) -> Vec<String> {
    let tree = Tree::of(sources);
    let mut folders: BTreeMap<String, Arrows> = BTreeMap::new();
    for at in 0..tree.len() {
        for one in tree.uses(at) {
            let (by, of) = (tree.path(at), tree.path(one.of));
            if let Some((folder, from, to)) = parted(by, of) {
                let arrows = folders.entry(folder).or_default();
                arrows
                    .entry((from, to))
                    .or_insert_with(|| arrow(by, of, &one));
            }
        }
    }
    let of_folder = |(folder, arrows): (&String, &Arrows)| {
        let mut found = circles(folder, arrows);
        found.extend(arrows.iter().filter_map(|((from, to), arrow)| {
            let wrong = is_wrong(folder, from, to);
            wrong.then(|| format!("{}: that arrow points the wrong way", arrow.text))
        }));
        found
    };
    folders.iter().flat_map(of_folder).collect()
}

fn arrow(by: &str, of: &str, one: &Use) -> Arrow {
    let text = format!("{by}:{} uses `{}` of {of}", one.line, one.item);
    Arrow { text }
}

/// Returns the lowest folder that holds both files, and which of its children they lie in. None where that is one child.
fn parted(by: &str, of: &str) -> Option<(String, String, String)> {
    let (mut by, mut of) = (by.split('/'), of.split('/'));
    let mut folder = String::new();
    loop {
        // A module may have its file beside its folder.
        let child = |part: &str| part.strip_suffix(".rs").unwrap_or(part).to_owned();
        let (from, to) = (by.next()?, of.next()?);
        if from == to {
            folder = format!("{folder}{from}/");
        } else if child(from) == child(to) {
            return None;
        } else {
            return Some((folder, child(from), child(to)));
        }
    }
}

/// Whether the order of the flow forbids an arrow.
fn is_wrong(folder: &str, from: &str, to: &str) -> bool {
    let storey = |child: &str| STOREYS.iter().position(|storey| *storey == child);
    match folder {
        "src/flow/" => storey(from) < storey(to),
        "src/flow/features/" => true,
        _ => false,
    }
}

/// The circles among the children of a folder, each with the arrows inside of it.
fn circles(folder: &str, arrows: &Arrows) -> Vec<String> {
    let children: BTreeSet<&String> = arrows.keys().flat_map(|(from, to)| [from, to]).collect();
    let reached = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from.clone()];
        while let Some(at) = open.pop() {
            let next = arrows.keys().filter(|(by, _)| *by == at);
            open.extend(
                next.map(|(_, to)| to.clone())
                    .filter(|to| reached.insert(to.clone())),
            );
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = children
        .iter()
        .map(|child| (*child, reached(child)))
        .collect();
    let mut told: BTreeSet<&String> = BTreeSet::new();
    let mut findings = Vec::new();
    for child in &children {
        if told.contains(child) || !reached[child].contains(*child) {
            continue;
        }
        let is_in =
            |other: &&String| reached[child].contains(*other) && reached[*other].contains(*child);
        let circle: Vec<&String> = children.iter().copied().filter(is_in).collect();
        told.extend(&circle);
        let inside = arrows
            .iter()
            .filter(|((from, to), _)| circle.contains(&from) && circle.contains(&to));
        let lines: Vec<String> = inside
            .map(|(_, arrow)| format!("    {}", arrow.text))
            .collect();
        let names: Vec<&str> = circle.iter().map(|name| name.as_str()).collect();
        findings.push(format!(
            "{} of {folder} use each other in a circle: move what they share to the lowest of them\n{}",
            names.join(", "),
            lines.join("\n")
        ));
    }
    findings
}

/// The rule finds each kind of arrow back, and passes those that point down.
#[test]
fn arrows_back_are_found_and_no_others() {
    let cases: [(&[(&str, &str)], usize); 6] = [
        // Two folders whose files are in no circle.
        (
            &[
                (
                    "a/one",
                    "use crate::b::two::Two;\nstruct One(Two);\nstruct Low;",
                ),
                ("b/two", "struct Two;"),
                ("b/three", "use crate::a::four::Four;\nstruct Three(Four);"),
                ("a/four", "struct Four;"),
            ],
            1,
        ),
        (
            &[
                ("a/one", "use crate::b::two::Two;\nstruct One(Two);"),
                ("b/two", "struct Two;"),
            ],
            0,
        ),
        // Also deep down, and where a file lies beside a folder.
        (
            &[
                ("x/a/one", "use crate::x::b::Two;\nstruct One(Two);"),
                ("x/b", "struct Two;\nfn f(_: crate::x::a::four::Four) {}"),
                ("x/a/four", "struct Four;"),
            ],
            1,
        ),
        // The file of a module and its folder are one.
        (
            &[
                ("a", "struct S(one::One);"),
                ("a/one", "struct One;\nfn f() { super::g(); }"),
            ],
            0,
        ),
        // The storeys of the flow have an order.
        (
            &[
                (
                    "flow/base/one",
                    "use crate::flow::life::two::Two;\nstruct One(Two);",
                ),
                ("flow/life/two", "struct Two;"),
            ],
            1,
        ),
        (
            &[
                (
                    "flow/features/a/one",
                    "use crate::flow::features::b::two::Two;\nstruct One(Two);",
                ),
                ("flow/features/b/two", "struct Two;"),
            ],
            1,
        ),
    ];
    for (files, expected) in cases {
        // Each folder has its `mod.rs`, but the one whose module has a file beside it.
        let mut texts: BTreeMap<String, &str> = BTreeMap::new();
        for (path, text) in files {
            let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
            let beside = |folder: &&str| files.iter().any(|(path, _)| path == folder);
            for folder in folders.filter(|folder| !beside(folder)) {
                texts.entry(format!("src/{folder}/mod.rs")).or_default();
            }
            texts.insert(format!("src/{path}.rs"), text);
        }
        let sources = texts.into_iter().map(|(path, text)| Source {
            path,
            text: text.to_owned(),
        });
        let found = findings(&sources.collect::<Vec<_>>());
        assert_eq!(found.len(), expected, "{files:?}\n{found:?}");
    }
}
