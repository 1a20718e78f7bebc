//! The verdict tells the delivery what an answer over HTTP means for its task.

use std::time::Duration;

use crate::model::time::Millis;

/// Longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The task has succeeded.
    Succeeded,
    /// It is tried again by its own rule, and no sooner than after this.
    Retry(Option<Duration>),
    /// It has failed for good.
    Failed,
    /// The resource of the URL is gone: it has failed for good.
    Gone,
}

/// Judges an answer by its status. `retry_after` is that header.
pub(super) fn judge(
    status: u16,
    retry_after: Option<&str>,
    retries_4xx: bool,
    now: Millis,
) -> Verdict {
    let again = Verdict::Retry(retry_after.and_then(|text| wait(text, now)));
    match status {
        200..=299 => Verdict::Succeeded,
        410 => Verdict::Gone,
        // The receiver, or something before it, was too slow, or has too much to do.
        408 | 429 => again,
        400..=499 if !retries_4xx => Verdict::Failed,
        _ => again,
    }
}

/// Reads a wait: whole seconds, or an HTTP date.
fn wait(text: &str, now: Millis) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    let at = Millis(at.timestamp().as_millisecond());
    Some(at.since(now).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);

    #[test]
    fn each_answer_has_its_meaning() {
        let own = Verdict::Retry(None);
        for (status, verdict) in [
            (200, Verdict::Succeeded),
            (204, Verdict::Succeeded),
            (299, Verdict::Succeeded),
            (100, own),
            (301, own),
            (307, own),
            (400, own),
            (404, own),
            (408, own),
            (410, Verdict::Gone),
            (429, own),
            (500, own),
            (502, own),
            (503, own),
        ] {
            assert_eq!(judge(status, None, true, NOW), verdict, "{status}");
        }
        assert_eq!(judge(404, None, false, NOW), Verdict::Failed);
        for status in [301, 408, 429, 500, 503] {
            assert_eq!(judge(status, None, false, NOW), own, "{status}");
        }
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept_within_a_day() {
        let asked = |text: &str| judge(503, Some(text), true, NOW);
        let after = |seconds: u64| Verdict::Retry(Some(Duration::from_secs(seconds)));
        assert_eq!(asked("120"), after(120));
        assert_eq!(asked(" 0 "), after(0));
        assert_eq!(asked("99999999"), after(86_400));
        assert_eq!(asked("Fri, 15 Jan 2027 08:01:00 GMT"), after(60));
        assert_eq!(asked("Fri, 15 Jan 2027 07:00:00 GMT"), after(0));
        assert_eq!(asked("Sun, 15 Jan 2040 07:00:00 GMT"), after(86_400));
        for text in ["", "soon", "-5", "1.5"] {
            assert_eq!(asked(text), Verdict::Retry(None), "{text}");
        }
        for status in [302, 408, 413, 429, 500] {
            let asked = judge(status, Some("120"), true, NOW);
            assert_eq!(asked, after(120), "{status}");
        }
    }
}
