//! Names of a Rust file: which it brings in, which it defines, which paths it spells out. For the rule of circles.
//!
//! The reader knows tokens, not grammar. Test code is left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::Source;

/// The words that begin an item.
const ITEMS: [&str; 9] = [
    "fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod",
];

/// A name that a file brings in.
#[derive(Debug)]
pub(crate) struct Import {
    /// The name in this file; `*` stands for all names of a module.
    pub(crate) name: String,
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    pub(crate) is_passed_on: bool,
}

/// The names of a file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    /// The module of the file, from its crate on.
    pub(crate) module: Vec<String>,
    pub(crate) imports: Vec<Import>,
    /// The paths of two or more parts in its code, with their lines.
    pub(crate) spelt_out: Vec<(Vec<String>, usize)>,
    /// The words of its code, without those of `use`.
    pub(crate) words: BTreeSet<String>,
    /// The items that it defines, child modules with them, and the word that begins each.
    pub(crate) items: BTreeMap<String, String>,
}

/// A word, a `::` or another character of the code, with its line.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    fn is_word(self) -> bool {
        self.text.starts_with(is_of_word)
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub(crate) fn read(source: &Source) -> File {
    let tokens = without_tests(&tokens(&source.text));
    let mut file = File {
        path: source.path.clone(),
        module: module(&source.path),
        imports: Vec::new(),
        spelt_out: Vec::new(),
        words: BTreeSet::new(),
        items: BTreeMap::new(),
    };
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let before = at.checked_sub(1).map_or("", |before| tokens[before].text);
        match token.text {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        at = match token.text {
            "use" => read_use(&tokens, at, before == "pub" || before == ")", &mut file),
            word if token.is_word() && !matches!(before, "::" | ".") => {
                if depth == 0 && ITEMS.contains(&before) {
                    file.items
                        .entry(word.to_owned())
                        .or_insert_with(|| before.to_owned());
                }
                read_path(&tokens, at, &mut file)
            }
            _ => at + 1,
        };
    }
    file
}

/// `src/flow/stages/poll/hub.rs` is `tickwheel`, `flow`, `poll`, `hub`.
pub(crate) fn module(path: &str) -> Vec<String> {
    let (name, rest) = match path.strip_prefix("bench/src/") {
        Some(rest) => ("bench", rest),
        None => ("tickwheel", path.trim_start_matches("src/")),
    };
    let parts = rest.trim_end_matches(".rs").split('/');
    let parts = parts.filter(|part| !["mod", "lib", "main"].contains(part));
    [name].into_iter().chain(parts).map(str::to_owned).collect()
}

/// Whether a file is the one of a folder, or of a crate.
pub(crate) fn is_of_folder(path: &str) -> bool {
    let name = Path::new(path).file_stem();
    name.is_some_and(|name| ["mod", "lib", "main"].iter().any(|known| name == *known))
        || path == "src/limits.rs"
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = literal(rest) {
            length
        } else if is_of_word(first) {
            rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (text, behind) = rest.split_at(length);
        let is_code = is_of_word(first) || first.is_ascii_punctuation();
        if is_code && !text.starts_with("//") && literal(rest).is_none() {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = behind;
    }
    tokens
}

/// The length of the text or character that `rest` begins with.
fn literal(rest: &str) -> Option<usize> {
    let marks = rest.trim_start_matches(['b', 'c']);
    if rest.len() - marks.len() > 1 {
        return None;
    }
    let before = rest.len() - marks.len();
    if let Some(raw) = marks.strip_prefix('r') {
        let text = raw.trim_start_matches('#');
        let closing = format!("\"{}", "#".repeat(raw.len() - text.len()));
        let inner = text.strip_prefix('"')?;
        let end = inner.find(&closing)? + closing.len();
        return Some(rest.len() - inner.len() + end);
    }
    if let Some(inner) = marks.strip_prefix('"') {
        return Some(before + 1 + end_of_literal(inner, '"')?);
    }
    let inner = marks.strip_prefix('\'')?;
    // A lifetime has no closing mark behind its first character.
    let is_character = inner.starts_with('\\') || inner.chars().nth(1) == Some('\'');
    is_character
        .then(|| end_of_literal(inner, '\''))?
        .map(|end| before + 1 + end)
}

/// The place behind the closing mark.
fn end_of_literal(inner: &str, mark: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        if c == mark && !is_escaped {
            return Some(at + 1);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    None
}

/// The code without items that are compiled for tests only.
fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let ahead = tokens[at..].iter().map(|token| token.text);
        if ahead.take(mark.len()).eq(mark) {
            at = end_of_item(tokens, at + mark.len());
        } else {
            kept.push(*token);
            at += 1;
        }
    }
    kept
}

/// The place behind the `;` or the `}` that ends the item at `at`.
fn end_of_item(tokens: &[Token<'_>], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" if depth <= 1 => return at,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return at,
            _ => {}
        }
    }
    at
}

/// Reads a `use` and returns the place behind it.
fn read_use(tokens: &[Token<'_>], at: usize, is_passed_on: bool, file: &mut File) -> usize {
    // The parts before each open brace.
    let mut outer: Vec<Vec<String>> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut name: Option<String> = None;
    let mut next = at + 1;
    // `use<'a>` in the bounds of a type brings in nothing.
    if tokens.get(next).is_some_and(|token| token.text == "<") {
        return next;
    }
    while let Some(token) = tokens.get(next) {
        next += 1;
        match token.text {
            "{" => outer.push(path.clone()),
            "," | "}" | ";" => {
                let base = outer.last().cloned().unwrap_or_default();
                if path.len() > base.len() {
                    if path.last().is_some_and(|last| last == "self") {
                        path.pop();
                    }
                    file.imports.push(Import {
                        name: name
                            .take()
                            .or_else(|| path.last().cloned())
                            .unwrap_or_default(),
                        path: path.clone(),
                        line: token.line,
                        is_passed_on,
                    });
                }
                path = base;
                match token.text {
                    ";" => break,
                    "}" => {
                        // Nothing of the group is left to bring in at the comma behind it.
                        outer.pop();
                        path = outer.last().cloned().unwrap_or_default();
                    }
                    _ => {}
                }
            }
            "as" => name = tokens.get(next).map(|token| token.text.to_owned()),
            "::" => {}
            word if name.is_none() => path.push(word.to_owned()),
            _ => {}
        }
    }
    next
}

/// Reads a word with the parts behind it and returns the place behind them.
fn read_path(tokens: &[Token<'_>], at: usize, file: &mut File) -> usize {
    let mut path = vec![tokens[at].text.to_owned()];
    file.words.insert(tokens[at].text.to_owned());
    let mut next = at + 1;
    while let [sign, word, ..] = &tokens[next..]
        && sign.text == "::"
        && word.is_word()
    {
        path.push(word.text.to_owned());
        next += 2;
    }
    if path.len() > 1 {
        file.spelt_out.push((path, tokens[at].line));
    }
    next
}
