//! The conversion of the test clock reads how far a test moves the clock of its service, and says how that went.

use std::time::Duration;

use super::violations::Violations;
use crate::{
    api::{
        test_clock::{AdvanceClockRequest, AdvanceClockResponse, SetClockRequest},
        text::InstantText,
        time,
    },
    flow::stages::walk::Walked,
    http::error::Error,
    limits::{WALK_MAX, WALK_SETTLE, WALK_SETTLE_MAX},
    model::time::{Millis, rfc3339},
};

/// Reads up to which time the clock is to go, and how long it waits for workers at each stop.
///
/// # Errors
/// All mistakes of the request.
pub(in crate::http) fn way(
    request: &AdvanceClockRequest,
    now: Millis,
) -> Result<(Millis, Duration), Error> {
    let mut violations = Violations::default();
    violations.exclusive(("by", request.by.is_some()), ("to", request.to.is_some()));
    let to = match (&request.by, &request.to) {
        (Some(by), _) => {
            let to = time::duration(by, Duration::ZERO).map(|by| now.after(by));
            violations.take("/by", to.and_then(|to| within(now, to)))
        }
        (None, Some(to)) => {
            let to = time::instant(to).and_then(|to| within(now, to));
            violations.take("/to", to)
        }
        (None, None) => {
            let detail = r#"is missing: say how far, such as "3d", or give `to`"#;
            violations.add("/by", detail);
            None
        }
    };
    let settle_within = request.settle_within.as_ref().and_then(|text| {
        let most = WALK_SETTLE_MAX;
        let too_long = || format!("must be at most {}s", most.as_secs());
        let settle = time::duration(text, Duration::ZERO);
        let settle = settle.and_then(|one| (one <= most).then_some(one).ok_or_else(too_long));
        violations.take("/settle_within", settle)
    });
    violations.finish()?;
    Ok((to.unwrap_or(now), settle_within.unwrap_or(WALK_SETTLE)))
}

/// Reads to which time the clock is to jump.
///
/// # Errors
/// The mistake of the request.
pub(in crate::http) fn jump(request: &SetClockRequest, now: Millis) -> Result<Millis, Error> {
    let mut violations = Violations::default();
    let back = || {
        let shows = rfc3339(now);
        format!("the clock shows {shows}, and goes forward only")
    };
    let to = time::instant(&request.time)
        .and_then(|to| (to >= now).then_some(to).ok_or_else(back))
        .and_then(|to| within(now, to));
    let to = violations.take("/time", to);
    violations.finish()?;
    Ok(to.unwrap_or(now))
}

fn within(now: Millis, to: Millis) -> Result<Millis, String> {
    let days = WALK_MAX.as_secs() / 86_400;
    let too_far = || format!("must be at most {days} days ahead of the clock: move it in steps");
    (to <= now.after(WALK_MAX))
        .then_some(to)
        .ok_or_else(too_far)
}

impl From<Walked> for AdvanceClockResponse {
    fn from(walked: Walked) -> Self {
        let reached = InstantText::from(walked.reached);
        let counts = (walked.unsettled, walked.waiting);
        Self::new((reached, walked.is_there), walked.fired, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::text::DurationText;

    const NOW: Millis = Millis(1_800_000_000_000);
    const DAY: Duration = Duration::from_secs(86_400);

    fn asked(by: Option<&str>, to: Option<&str>, within: Option<&str>) -> AdvanceClockRequest {
        let duration = |text: &str| DurationText(text.to_owned());
        AdvanceClockRequest {
            by: by.map(duration),
            to: to.map(InstantText::from),
            settle_within: within.map(duration),
        }
    }

    #[test]
    fn a_way_is_a_duration_or_a_time_and_every_mistake_is_named() {
        let read = |request| way(&request, NOW).unwrap();
        let three = asked(Some("3d"), None, None);
        assert_eq!(read(three), (NOW.after(DAY * 3), WALK_SETTLE));
        let at = rfc3339(NOW.after(DAY));
        let second = Duration::from_secs(1);
        let tomorrow = asked(None, Some(&at), Some("1s"));
        assert_eq!(read(tomorrow), (NOW.after(DAY), second));
        for (request, pointers) in [
            (asked(None, None, None), vec!["/by"]),
            (asked(Some("3d"), Some(&at), None), vec!["/to"]),
            (
                asked(Some("soon"), None, Some("61s")),
                vec!["/by", "/settle_within"],
            ),
            (asked(Some("1000d"), None, None), vec!["/by"]),
            (asked(None, Some("tomorrow"), None), vec!["/to"]),
        ] {
            let error = way(&request, NOW).unwrap_err();
            let named: Vec<&str> = error.errors.iter().map(|one| &*one.pointer).collect();
            assert_eq!(named, pointers);
        }
    }

    #[test]
    fn the_clock_jumps_forward_only() {
        let to = |at: Millis| {
            let time = at.into();
            jump(&SetClockRequest { time }, NOW).map_err(|error| error.detail)
        };
        assert_eq!(to(NOW.after(DAY)), Ok(NOW.after(DAY)));
        assert!(
            to(NOW.before(DAY))
                .unwrap_err()
                .contains("goes forward only")
        );
        assert!(to(NOW.after(DAY * 900)).unwrap_err().contains("400 days"));
    }
}
