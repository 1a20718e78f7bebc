//! The blocks of the README and of other pages, for the tests that run them.

const README: &str = include_str!("../README.md");

/// Returns the block that stands behind `<!-- runs: NAME -->`.
pub(crate) fn block(name: &str) -> &'static str {
    block_of(README, name)
}

/// Returns that block of another page.
pub(crate) fn block_of(page: &'static str, name: &str) -> &'static str {
    let mark = format!("<!-- runs: {name} -->\n```");
    let (_, rest) = page.split_once(&mark).expect("the page has the block");
    let (_, rest) = rest.split_once('\n').expect("a language");
    rest.split_once("\n```").expect("its end").0
}
