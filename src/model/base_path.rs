//! The base path is the part of a path with which every address of the dashboard begins, behind a proxy.

/// Longest base path, without its slash in front: a few words.
pub const BASE_PATH_CHARS_MAX: usize = 128;

/// Returns a base path as addresses begin with it: with a slash in front, and none behind; empty for the root. Returns none for
/// what is no plain path.
#[must_use]
pub fn clean(text: &str) -> Option<String> {
    let inner = text.trim().trim_matches('/');
    if inner.is_empty() {
        return Some(String::new());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(plain);
    let fits = inner.len() <= BASE_PATH_CHARS_MAX && inner.split('/').all(is_part);
    fits.then(|| format!("/{inner}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_a_plain_path() {
        for (text, path) in [
            ("/a/b/", Some("/a/b")),
            ("a", Some("/a")),
            ("/", Some("")),
            ("", Some("")),
            ("//evil.example", Some("/evil.example")),
            ("/a/../b", None),
            ("/a//b", None),
            ("/a\"b", None),
            ("/a?b", None),
        ] {
            assert_eq!(clean(text).as_deref(), path, "{text}");
        }
    }
}
