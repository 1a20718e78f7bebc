//! The hints for paths name to authors of calls the path or the method that was probably meant.

use axum::http::Method;

/// Returns the path that is nearest to one that is not there, by the first parts of those that are.
pub(super) fn meant<'a>(path: &str, there: impl Iterator<Item = &'a str>) -> Option<String> {
    let below = path
        .strip_prefix("/v1/")
        .or_else(|| path.strip_prefix('/'))?;
    let end = below.find(['/', ':']).unwrap_or(below.len());
    let (first, rest) = below.split_at_checked(end)?;
    let allowed = (first.chars().count() / 3).max(1);
    let near = there
        .filter_map(|path| path.strip_prefix("/v1/")?.split(['/', ':']).next())
        .map(|name| (strsim::damerau_levenshtein(name, first), name))
        .filter(|(distance, _)| *distance <= allowed);
    let (_, nearest) = near.min()?;
    let meant = format!("/v1/{nearest}{}", crate::api::text::shorten(rest));
    (meant != path).then_some(meant)
}

/// Says how to do what a method that a path does not take would do elsewhere.
pub(super) fn instead(method: &Method, path: &str) -> Option<&'static str> {
    let of_task = path.starts_with("/v1/tasks/");
    match *method {
        Method::DELETE if of_task => Some(
            "a task is cancelled by POST /v1/tasks/{id}/cancel, a dead one deleted by DELETE /v1/dead-letters/{id}",
        ),
        Method::PUT | Method::PATCH if of_task => Some(
            "a task is moved by POST /v1/tasks/{id}/reschedule; cancel it and register another one to change the rest",
        ),
        Method::POST
            if path.starts_with("/v1/schedules/") || path.starts_with("/v1/callbacks/") =>
        {
            Some("it is set by PUT, as a whole")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: [&str; 5] = [
        "/livez",
        "/v1/tasks",
        "/v1/tasks/{id}/cancel",
        "/v1/dead-letters:groups",
        "/v1/stats",
    ];

    #[test]
    fn the_nearest_path_is_named() {
        for (asked, named) in [
            ("/v1/task", "/v1/tasks"),
            ("/v1/task/7/cancel", "/v1/tasks/7/cancel"),
            ("/tasks", "/v1/tasks"),
            ("/v1/dead_letters:groups", "/v1/dead-letters:groups"),
        ] {
            assert_eq!(
                meant(asked, THERE.into_iter()).as_deref(),
                Some(named),
                "{asked}"
            );
        }
        for asked in ["/v1/tasks", "/", "/v1/weather", "/favicon.ico"] {
            assert_eq!(meant(asked, THERE.into_iter()), None, "{asked}");
        }
    }

    #[test]
    fn a_method_that_is_not_taken_has_another_way() {
        let told = instead(&Method::DELETE, "/v1/tasks/7").unwrap();
        assert!(told.contains("/cancel"), "{told}");
        assert_eq!(instead(&Method::DELETE, "/v1/stats"), None);
    }
}
