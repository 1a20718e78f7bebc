//! The repeats bound the log for operators where one failure comes again and again: one line at once, then one a minute with the
//! number of the others.

use std::{mem, time::Duration};

use parking_lot::Mutex;

use crate::time_source::Moment;

/// Least time between two lines: short enough that an operator who looks sees one, long enough that a flood fills no disk.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// The lines about one kind of failure so far.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    at: Option<Moment>,
    unsaid: u64,
}

impl Repeats {
    /// Takes note of a failure. If it is to be logged, returns how many others were not logged since the last.
    pub fn say(&self, now: Moment) -> Option<u64> {
        let mut said = self.0.lock();
        if said.at.is_some_and(|at| now.since(at) < SAID_EVERY) {
            said.unsaid += 1;
            return None;
        }
        said.at = Some(now);
        Some(mem::take(&mut said.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::time::Millis, time_source::TimeSource};

    #[test]
    fn failures_are_told_once_a_minute_with_the_number_of_the_others() {
        let time = TimeSource::simulated(Millis(0), 1);
        let (repeats, now) = (Repeats::default(), time.moment());
        let said = |seconds| repeats.say(now.after(Duration::from_secs(seconds)));
        let told = [0, 1, 2, 59, 60, 61, 300].map(said);
        assert_eq!(told, [Some(0), None, None, None, Some(3), None, Some(1)]);
    }
}
