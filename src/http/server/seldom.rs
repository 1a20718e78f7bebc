//! The seldom line is a line of the log that callers may cause: it is written for operators once a minute at most.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::time_source::Moment;

const EVERY: Duration = Duration::from_secs(60);

/// Lets a line pass once a minute.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<Option<Moment>>);

impl Seldom {
    /// Tells whether the line may be written now; then the next one waits.
    pub(super) fn passes(&self, now: Moment) -> bool {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = next.is_none_or(|next| next <= now);
        if passes {
            *next = Some(now.after(EVERY));
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::time::Millis, time_source::TimeSource};

    #[tokio::test(start_paused = true)]
    async fn a_line_passes_once_a_minute() {
        let (time, line) = (TimeSource::simulated(Millis(0), 1), Seldom::default());
        assert!(line.passes(time.moment()));
        time.sleep(Duration::from_secs(59)).await;
        assert!(!line.passes(time.moment()));
        time.sleep(Duration::from_secs(1)).await;
        assert!(line.passes(time.moment()));
    }
}
