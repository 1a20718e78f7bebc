//! The environment holds settings for a node, and names the files that hold secrets.

use super::{Problem, keys::Key};

/// Returns the value that the environment has for a setting, and the variable that has it. A secret may lie in a file, which a
/// variable of its own names.
pub(super) fn value_of(
    key: &Key,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<(String, String)>, Problem> {
    let variable = key.variable();
    let of_file = key.file_variable();
    let path = of_file.and_then(|name| Some((environment(&name)?, name)));
    match (environment(&variable), path) {
        (Some(_), Some((_, origin))) => Err(Problem {
            reason: format!("{variable} is set, too: set one of them"),
            origin,
        }),
        (Some(value), None) => Ok(Some((value, variable))),
        (None, Some((path, origin))) => match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some((text.trim().to_owned(), origin))),
            Err(error) => Err(Problem {
                reason: format!("{path} cannot be read: {error}"),
                origin,
            }),
        },
        (None, None) => Ok(None),
    }
}
