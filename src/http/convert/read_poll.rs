//! This conversion translates polls for the domain, and handouts into answers for workers.

use std::time::Duration;

use super::{
    violations::{Violations, name},
    worker_calls::worker_name,
};
use crate::{
    api::{
        poll::{PollRequest, PollResponse},
        text::DurationText,
        time,
    },
    flow::stages::poll,
    http::error::Error,
    limits::{POLL_CALLBACKS_MAX, POLL_TASKS_MAX, WAIT_MAX, WORKER_VERSION_CHARS_MAX},
};

/// How long a poll waits when it does not say how long: below the idle limits of usual proxies.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Converts a poll.
///
/// # Errors
/// All mistakes of the request.
pub fn poll_request(request: PollRequest) -> Result<poll::PollRequest, Error> {
    worker_name(&request.worker)?;
    let mut violations = Violations::default();
    let count = request.callbacks.len();
    if !(1..=POLL_CALLBACKS_MAX).contains(&count) {
        let detail = format!("must have 1 to {POLL_CALLBACKS_MAX} items; has {count}");
        violations.add("/callbacks", detail);
    }
    let mut callbacks: Vec<String> = request
        .callbacks
        .into_iter()
        .take(POLL_CALLBACKS_MAX)
        .enumerate()
        .filter_map(|(index, text)| violations.take(&format!("/callbacks/{index}"), name(text)))
        .collect();
    callbacks.sort_unstable();
    callbacks.dedup();
    let max = usize::try_from(request.max_tasks.unwrap_or(1)).unwrap_or(usize::MAX);
    if !(1..=POLL_TASKS_MAX).contains(&max) {
        violations.add("/max_tasks", format!("must be 1 to {POLL_TASKS_MAX}"));
    }
    let wait = request.wait.as_ref().and_then(|text| {
        let wait = time::duration(text, Duration::ZERO).and_then(|wait| {
            let most = WAIT_MAX.as_secs();
            let too_long = format!("must be at most {most}s; poll again after it");
            (wait <= WAIT_MAX).then_some(wait).ok_or(too_long)
        });
        violations.take("/wait", wait)
    });
    if let Some(version) = &request.version {
        let length = version.chars().count();
        if !(1..=WORKER_VERSION_CHARS_MAX).contains(&length)
            || version.chars().any(char::is_control)
        {
            let detail = format!(
                "must have 1 to {WORKER_VERSION_CHARS_MAX} characters, none of them control"
            );
            violations.add("/version", detail);
        }
    }
    violations.finish()?;
    Ok(poll::PollRequest {
        worker: request.worker,
        callbacks,
        max,
        wait: wait.unwrap_or(WAIT_DEFAULT),
        version: request.version,
    })
}

impl From<&poll::ClaimBatch> for PollResponse {
    fn from(handout: &poll::ClaimBatch) -> Self {
        let millis = u64::try_from(handout.waited().as_millis()).unwrap_or(u64::MAX);
        Self {
            tasks: handout.tasks().cloned().map(Into::into).collect(),
            // Rounded down: no claim may seem to live longer than it does.
            waited: (!handout.is_empty())
                .then(|| DurationText::from(Duration::from_millis(millis))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(callbacks: usize, max_tasks: u32, wait: &str) -> PollRequest {
        PollRequest {
            worker: "w".to_owned(),
            callbacks: (0..callbacks).map(|n| format!("c{n}")).collect(),
            max_tasks: Some(max_tasks),
            wait: Some(DurationText(wait.to_owned())),
            version: None,
        }
    }

    #[test]
    fn a_version_has_a_bound_at_both_ends() {
        let version = |text: String| {
            poll_request(PollRequest {
                version: Some(text),
                ..request(1, 1, "1s")
            })
        };
        for (text, fits) in [
            ("1".to_owned(), true),
            ("v".repeat(64), true),
            ("v".repeat(65), false),
            (String::new(), false),
            ("1\n".to_owned(), false),
        ] {
            assert_eq!(version(text.clone()).is_ok(), fits, "{text:?}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_named_with_its_limit() {
        let error = poll_request(request(101, 0, "61s")).unwrap_err();
        let pointers: Vec<&str> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(pointers, ["/callbacks", "/max_tasks", "/wait"]);
        let details: String = error.errors.iter().map(|e| e.detail.as_str()).collect();
        assert!(
            ["100", "1000", "60s"]
                .iter()
                .all(|limit| details.contains(limit)),
            "{details}"
        );
        let mut bad = request(1, 1, "x");
        bad.callbacks.push("no spaces".to_owned());
        let error = poll_request(bad).unwrap_err();
        let pointers: Vec<&str> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        assert_eq!(pointers, ["/callbacks/1", "/wait"]);
    }

    #[test]
    fn what_is_left_out_has_a_default_and_what_is_double_counts_once() {
        let mut least = request(2, 1, "0s");
        least.callbacks.push("c0".to_owned());
        (least.max_tasks, least.wait) = (None, None);
        let read = poll_request(least).unwrap();
        assert_eq!((read.max, read.wait), (1, WAIT_DEFAULT));
        assert_eq!(read.callbacks, ["c0", "c1"]);
        assert_eq!(poll_request(request(100, 1000, "60s")).unwrap().max, 1000);
    }
}
