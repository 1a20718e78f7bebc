//! The regions of a page are the parts that change by themselves. A page marks them by comments.

use xxhash_rust::xxh3::Xxh3;

/// Returns the regions of a page: the text between `<!--live:NAME-->` and `<!--/live:NAME-->`. Text of others has no such
/// comment, since its angle brackets are escaped.
pub(in crate::http::ui) fn of(html: &str) -> impl Iterator<Item = (&str, &str)> {
    html.split("<!--live:").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("-->")?;
        let (text, _) = rest.split_once("<!--/live:")?;
        Some((name, text))
    })
}

/// Returns the tag of a page: it differs once a region does. A page without regions has none.
pub(in crate::http::ui) fn tag(html: &str) -> Option<String> {
    let mut hasher = Xxh3::new();
    let mut count = 0;
    for (name, text) in of(html) {
        hasher.update(name.as_bytes());
        hasher.update(b"\0");
        hasher.update(text.as_bytes());
        count += 1;
    }
    (count > 0).then(|| format!("\"{:016x}\"", hasher.digest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_that_of_the_regions() {
        let page =
            |before: &str, text: &str| format!("{before}<!--live:a-->{text}<!--/live:a--></p>");
        assert_eq!(of(&page("x", "y")).collect::<Vec<_>>(), [("a", "y")]);
        assert_eq!(tag(&page("1", "y")), tag(&page("2", "y")));
        assert_ne!(tag(&page("1", "y")), tag(&page("1", "z")));
        assert_eq!(tag("<p>"), None);
    }
}
