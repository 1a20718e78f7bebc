//! The rule that no circle is among the files of `src` or `bench`: a reader can take them one after another.
//!
//! File A uses file B where A's code, tests left out, names an item of B in a `use` or in a path. A name that
//! another file only passes on (`pub use`) counts for the file that defines the item. Neither `mod child;`, nor
//! passing on, nor a `use` of a module itself is a use of a file. A circle is a set of files that all reach one
//! another by uses.
//!
//! One kind of use is left out. A `mod.rs`, and the root of a crate, puts the files of its folder together and
//! defines the types that they share. So a file below may use the types, traits and constants of a `mod.rs`
//! above it. A function of that `mod.rs` counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Source, fail_if_any, is_test,
    names::{File, is_of_folder, read},
    rust, sources,
};

/// How often a name is passed on at most.
const PASSES_MAX: usize = 16;

/// The files of all crates, by number.
pub(super) struct Tree {
    files: Vec<File>,
    modules: BTreeMap<Vec<String>, usize>,
}

/// The use of an item of another file.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) of: usize,
    pub(super) item: String,
    pub(super) line: usize,
}

#[test]
fn files_do_not_use_each_other_in_a_circle() {
    let checked = sources(|path| {
        let is_ours = path.starts_with("src/") || path.starts_with("bench/src/");
        // The file of the program sees the library as other programs do.
        is_ours && rust(path) && !is_test(path) && path != "src/main.rs"
    });
    fail_if_any(&circles(&checked));
}

/// The circles, each with the uses that make the shortest way round.
fn circles(sources: &[Source]) -> Vec<String> {
    let tree = Tree::of(sources);
    let uses: Vec<Vec<Use>> = (0..tree.files.len()).map(|at| tree.uses(at)).collect();
    let reached: Vec<BTreeSet<usize>> = (0..uses.len()).map(|at| reached(&uses, at)).collect();
    let mut told: BTreeSet<usize> = BTreeSet::new();
    let mut findings = Vec::new();
    for at in 0..uses.len() {
        if !reached[at].contains(&at) || told.contains(&at) {
            continue;
        }
        let circle = reached[at]
            .iter()
            .filter(|other| reached[**other].contains(&at));
        told.extend(circle.clone());
        let names: Vec<&str> = circle
            .map(|other| tree.files[*other].path.as_str())
            .collect();
        findings.push(format!(
            "{} use each other in a circle: move what they share to the lowest of them\n{}",
            names.join(", "),
            tree.way_round(&uses, at).join("\n")
        ));
    }
    findings
}

/// The files that `from` uses, and those that they use.
fn reached(uses: &[Vec<Use>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let next = uses[at].iter().map(|one| one.of);
        open.extend(next.filter(|of| reached.insert(*of)));
    }
    reached
}

impl Tree {
    pub(super) fn of(sources: &[Source]) -> Self {
        let files: Vec<File> = sources.iter().map(read).collect();
        let modules = files
            .iter()
            .enumerate()
            .map(|(at, file)| (file.module.clone(), at));
        Self {
            modules: modules.collect(),
            files,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.files.len()
    }

    pub(super) fn path(&self, at: usize) -> &str {
        &self.files[at].path
    }

    /// The uses of a file that count.
    pub(super) fn uses(&self, at: usize) -> Vec<Use> {
        let file = &self.files[at];
        let imported = file
            .imports
            .iter()
            .filter(|import| !import.is_passed_on || file.words.contains(&import.name))
            .map(|import| (&import.path, import.line));
        let spelt_out = file.spelt_out.iter().map(|(path, line)| (path, *line));
        let found = imported.chain(spelt_out).filter_map(|(path, line)| {
            let (of, item) = self.find(at, path, PASSES_MAX)?;
            Some(Use { of, item, line })
        });
        found
            .filter(|one| one.of != at && !self.is_shared_by_folder(at, one))
            .collect()
    }

    /// The file that defines what `path` names in file `at`, and the item's name there.
    fn find(&self, at: usize, path: &[String], passes: usize) -> Option<(usize, String)> {
        let passes = passes.checked_sub(1)?;
        let mut module = self.files[at].module.clone();
        for (depth, part) in path.iter().enumerate() {
            match part.as_str() {
                "crate" => module.truncate(1),
                "self" => {}
                "super" => {
                    module.pop();
                }
                name => {
                    module.push(name.to_owned());
                    if self.modules.contains_key(&module) {
                        continue;
                    }
                    module.pop();
                    let here = *self.modules.get(&module)?;
                    return self.item(here, &path[depth..], passes);
                }
            }
        }
        // The path names a module.
        None
    }

    /// As `find`, for a path that begins with an item of file `here`.
    fn item(&self, here: usize, path: &[String], passes: usize) -> Option<(usize, String)> {
        let (name, behind) = path.split_first()?;
        let file = &self.files[here];
        if file.items.contains_key(name) {
            return Some((here, name.clone()));
        }
        let passed = file.imports.iter().filter(|import| &import.name == name);
        let all = file.imports.iter().filter(|import| import.name == "*");
        let ways = passed.map(|import| [&import.path[..], behind].concat());
        let ways = ways.chain(all.map(|import| {
            let module = &import.path[..import.path.len() - 1];
            [module, path].concat()
        }));
        // A path that leads to itself, such as that of `use bytes::Bytes` in `bytes`, names a package.
        ways.filter(|way| way != path)
            .find_map(|way| self.find(here, &way, passes))
    }

    /// Whether a use is of a type of a `mod.rs` above the file.
    fn is_shared_by_folder(&self, at: usize, one: &Use) -> bool {
        let above = &self.files[one.of];
        let is_function = above.items.get(&one.item).is_some_and(|item| item == "fn");
        is_of_folder(&above.path)
            && self.files[at].module.starts_with(&above.module)
            && !is_function
    }

    /// The uses of the shortest way from a file back to itself.
    fn way_round(&self, uses: &[Vec<Use>], from: usize) -> Vec<String> {
        let mut came: BTreeMap<usize, (usize, &Use)> = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            for one in &uses[at] {
                came.entry(one.of).or_insert_with(|| {
                    open.push_back(one.of);
                    (at, one)
                });
            }
        }
        let mut way = Vec::new();
        let mut at = from;
        while let Some((by, one)) = came.get(&at) {
            way.push(format!(
                "    {}:{} uses `{}` of {}",
                self.files[*by].path, one.line, one.item, self.files[at].path
            ));
            at = *by;
            if at == from {
                break;
            }
        }
        way.reverse();
        way
    }
}

/// The rule finds each kind of circle, and passes the similar texts that are none.
#[test]
fn circles_are_found_and_nothing_else_is() {
    let of_types = "use super::b::B;\nstruct A(B);";
    let cases: [(&[(&str, &str)], usize); 9] = [
        // Two files, by `use`, and by a path.
        (
            &[("a", of_types), ("b", "struct B;\nfn f(_: super::a::A) {}")],
            1,
        ),
        (
            &[
                ("a", of_types),
                (
                    "b",
                    "struct B;\n// As super::a::A is.\nfn f() { g(\"super::a::A\"); }",
                ),
            ],
            0,
        ),
        // Grouped, and around three files.
        (
            &[
                (
                    "a",
                    "use crate::{\n    b::{self, B as Other},\n    limits,\n};\nstruct A(b::B);",
                ),
                ("b", "use super::c;\nstruct B;\nfn f(_: c::C) {}"),
                ("c", "struct C(crate::a::A);"),
            ],
            1,
        ),
        // A `use` of a module alone says nothing.
        (
            &[
                ("a", "use crate::b;\nstruct A;"),
                ("b", "struct B(super::a::A);"),
            ],
            0,
        ),
        // A name that is passed on belongs to the file that defines it.
        (
            &[
                ("room/mod", "mod x;\nmod y;\npub use self::x::X;"),
                ("room/x", "use super::y::Y;\nstruct X(Y);"),
                ("room/y", "use super::X;\nstruct Y;"),
            ],
            1,
        ),
        // The types of a `mod.rs` are those of its folder; its functions are not.
        (
            &[
                ("room/mod", "struct S(x::X);"),
                ("room/x", "struct X;\nfn f(_: super::S) {}"),
            ],
            0,
        ),
        (
            &[
                ("room/mod", "struct S(x::X);\nfn g() {}"),
                ("room/x", "struct X;\nfn f() { super::g(); }"),
            ],
            1,
        ),
        // Tests may use what they test.
        (
            &[
                ("a", of_types),
                (
                    "b",
                    "struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
                ),
            ],
            0,
        ),
        (
            &[
                ("a", of_types),
                (
                    "b",
                    "struct B;\n#[cfg(test)]\nuse crate::{c, a::A};\nfn f(_: super::a::A) {}",
                ),
            ],
            1,
        ),
    ];
    for (files, expected) in cases {
        let sources = files.iter().map(|(path, text)| Source {
            path: format!("src/{path}.rs"),
            text: (*text).to_owned(),
        });
        let found = circles(&sources.collect::<Vec<_>>());
        assert_eq!(found.len(), expected, "{files:?}\n{found:?}");
    }
}
