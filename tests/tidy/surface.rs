//! The public surface of the SDK is four rooms, and their signatures name no type of the other rooms.

use std::collections::BTreeSet;

use super::{Source, code, fail_if_any, rust, sources};

/// The rooms that a program may depend on.
const PUBLIC: [&str; 4] = ["api", "client", "testing", "worker"];

/// Types of other rooms that `api` exports under its own name. Their methods that name other types are hidden.
const EXPORTED: [&str; 2] = ["NotATaskId", "TaskId"];

/// Files of the public rooms that are hidden as a whole, where their module is declared.
const HIDDEN_FILES: [&str; 1] = ["src/api/time.rs"];

const HIDDEN: &str = "#[doc(hidden)]";
const ROOM_HIDDEN: &str = "#[cfg_attr(not(tickwheel_rooms), doc(hidden))]";

fn is_public(path: &str) -> bool {
    let is_room =
        |room: &str| path.starts_with(&format!("src/{room}/")) || path == format!("src/{room}.rs");
    rust(path) && PUBLIC.iter().any(|room| is_room(room)) && !HIDDEN_FILES.contains(&path)
}

/// The words of a text that may be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.starts_with(char::is_uppercase))
}

/// The names of the types that a file declares.
fn declared(text: &str) -> impl Iterator<Item = String> {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    code(text).filter_map(move |(_, line)| {
        let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
        words(rest).next().map(str::to_owned)
    })
}

/// The names that a file imports from rooms that are not public.
fn imported(text: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = code(text).map(|(_, line)| line).collect();
    let text = lines.join(" ");
    let trees = text.split("use crate::").skip(1);
    let statements = trees.filter_map(|rest| rest.split(';').next());
    let mut names = BTreeSet::new();
    for statement in statements {
        let mut depth = 0_usize;
        let (mut room, mut path) = (String::new(), String::new());
        for c in statement.trim().chars().chain([',']) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth <= usize::from(statement.trim().starts_with('{')) => {
                    path.push(' ');
                    let first = path.trim().split([':', ' ']).next().unwrap_or_default();
                    room.push_str(first);
                    if !PUBLIC.contains(&room.as_str()) {
                        names.extend(words(&path).map(str::to_owned));
                    }
                    (room, path) = (String::new(), String::new());
                    continue;
                }
                _ => {}
            }
            path.push(if c == '{' || c == '}' { ' ' } else { c });
        }
    }
    names
}

/// The public signatures of a file with their lines: fields, functions, whole enums and traits, and heads of `impl`.
fn signatures(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut hidden, mut open): (bool, Option<(usize, usize, String, bool)>) = (false, None);
    for (number, line) in code(text) {
        let head = line.trim_start();
        let indent = line.len() - head.len();
        if let Some((from, at, mut signature, whole)) = open.take() {
            if !head.starts_with("//") && !head.starts_with('#') {
                // The name of a variant is no type.
                let is_variant = whole && head.starts_with(char::is_uppercase);
                let from = if is_variant {
                    head.find(['(', ',', ' ']).unwrap_or(0)
                } else {
                    0
                };
                signature.push_str(&head[from..]);
                signature.push(' ');
            }
            let ends = if whole {
                head == "}" && indent == at
            } else {
                head.ends_with(['{', ';', ',']) && indent == at || head.ends_with([';', '{'])
            };
            if ends {
                found.push((from, signature))
            } else {
                open = Some((from, at, signature, whole))
            }
            continue;
        }
        if head == HIDDEN {
            hidden = true;
        }
        let is_item = head.starts_with("pub ") || head.starts_with("impl");
        if is_item && !hidden {
            let whole = (head.starts_with("pub enum") || head.starts_with("pub trait"))
                && head.ends_with('{');
            if !whole && head.ends_with(['{', ';', ',', '}']) {
                found.push((number, head.to_owned()));
            } else {
                open = Some((number, indent, format!("{head} "), whole));
            }
        }
        hidden &= !is_item && !head.is_empty();
    }
    found
}

fn internal_types(Source { path, text }: &Source, internal: &BTreeSet<String>) -> Vec<String> {
    let imported = imported(text);
    let own: BTreeSet<String> = declared(text).collect();
    let is_internal =
        |name: &&str| imported.contains(*name) || internal.contains(*name) && !own.contains(*name);
    let mut findings = Vec::new();
    for (number, signature) in signatures(text) {
        // Only an implementation of a trait for a type can be seen, and only public fields of a tuple.
        let is_inherent = signature.starts_with("impl") && !signature.contains(" for ");
        let is_closed = signature.starts_with("pub struct ") && !signature.contains("(pub ");
        if is_inherent || is_closed {
            continue;
        }
        let room = signature.split("crate::").skip(1).find(|rest| {
            let room = rest.split(':').next().unwrap_or_default();
            !PUBLIC.contains(&room) && !signature.starts_with("pub use")
        });
        let name = words(&signature).find(|name| is_internal(name) && !EXPORTED.contains(name));
        if let Some(name) = name.or(room) {
            findings.push(format!(
                "{path}:{number}: a public signature names `{name}` of another room: use a type of `api` or of \
                 the standard library, or hide it from the documentation"
            ));
        }
    }
    findings
}

#[test]
fn public_signatures_name_no_internal_type() {
    let mut internal = BTreeSet::new();
    for source in sources(|path| path.starts_with("src/") && rust(path) && !is_public(path)) {
        internal.extend(declared(&source.text));
    }
    assert!(internal.contains("Millis") && internal.contains("TimeSource"));
    let public = sources(is_public);
    // A name that a public room declares, too, is told apart by the imports of each file.
    for source in &public {
        for name in declared(&source.text) {
            internal.remove(&name);
        }
    }
    let found = public
        .iter()
        .flat_map(|source| internal_types(source, &internal));
    fail_if_any(&found.collect::<Vec<_>>());
}

#[test]
fn the_root_shows_three_rooms() {
    let root = sources(|path| path == "src/lib.rs").remove(0).text;
    let mut before = "";
    let mut shown = Vec::new();
    for line in root.lines() {
        if let Some(room) = line.strip_prefix("pub mod ")
            && before != ROOM_HIDDEN
        {
            shown.push(room.trim_end_matches(';'));
        }
        before = line;
    }
    assert_eq!(shown, PUBLIC);
}

#[test]
fn the_rule_of_the_surface_finds_what_it_is_for() {
    let internal = BTreeSet::from(["Millis".to_owned(), "TimeSource".to_owned()]);
    let cases = [
        ("    pub fn now(&self) -> Millis {\n", 1),
        ("    pub at: Option<Millis>,\n", 1),
        ("    pub fn f(\n        time: &TimeSource,\n    ) {\n", 1),
        ("impl From<Millis> for A {\n", 1),
        ("impl Millis {\n", 0),
        ("pub struct A(Millis);\n", 0),
        ("pub struct A(pub Millis);\n", 1),
        ("#[doc(hidden)]\nimpl From<Millis> for A {\n", 0),
        (
            "    #[doc(hidden)]\n    #[must_use]\n    pub fn time(self, time: TimeSource) -> Self {\n",
            0,
        ),
        ("    pub(crate) fn now(&self) -> Millis {\n", 0),
        (
            "pub enum A {\n    /// Millis.\n    Millis,\n    B(u8),\n}\n",
            0,
        ),
        ("pub enum A {\n    B(Millis),\n}\n", 1),
        ("pub trait A {\n    fn f(&self, time: &TimeSource);\n}\n", 1),
        (
            "use crate::{\n    api::X,\n    queue::{self, Consumer},\n};\n    pub fn f(a: Consumer) {\n",
            1,
        ),
        (
            "use crate::{\n    api::X,\n    queue::{self, Consumer},\n};\n    pub fn f(a: X) {\n",
            0,
        ),
        (
            "use crate::model::task::Priority;\n    pub priority: Priority,\n",
            1,
        ),
        (
            "use crate::api::task_request::Priority;\n    pub priority: Priority,\n",
            0,
        ),
        ("    pub source: crate::queue::Error,\n", 1),
    ];
    for (text, expected) in cases {
        let source = Source {
            path: "src/client/a.rs".to_owned(),
            text: text.to_owned(),
        };
        let found = internal_types(&source, &internal);
        assert_eq!(found.len(), expected, "{text}\n{found:?}");
    }
}
