//! The blocks of the README and of other pages, for the tests that run them.

/// Returns the block of a page that stands behind `<!-- runs: NAME -->`.
pub(crate) fn block_of(page: &'static str, name: &str) -> &'static str {
    let mark = format!("<!-- runs: {name} -->\n```");
    let (_, rest) = page.split_once(&mark).expect("the page has the block");
    let (_, rest) = rest.split_once('\n').expect("a language");
    rest.split_once("\n```").expect("its end").0
}
