//! The blocks of the README, for the tests that run them.

const README: &str = include_str!("../README.md");

/// Returns the block that stands behind `<!-- runs: NAME -->`.
pub(crate) fn block(name: &str) -> &'static str {
    let mark = format!("<!-- runs: {name} -->\n```");
    let (_, rest) = README.split_once(&mark).expect("the README has the block");
    let (_, rest) = rest.split_once('\n').expect("a language");
    rest.split_once("\n```").expect("its end").0
}
