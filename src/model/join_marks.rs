//! The marks of joins tell end steps for tasks of which callbacks others may wait, by a few bits: the end of a task of another
//! one need not ask.
//!
//! The callback of a task that is not known yet is not known either. So a wait for such a task is a time, until which tasks of
//! all callbacks may be waited for: it has a deadline.

use std::time::Duration;

use super::{preference::mix, time::Millis};

/// How long behind its deadline a wait for unknown tasks counts at least: clocks differ, and its own end may come late.
const COUNTS_BEHIND: Duration = DAY;

/// Times are rounded up to this, so that many waits share one change of the record.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// The callbacks, each by one bit.
    pub callbacks: [u64; 4],
    /// Until then tasks of all callbacks are meant; none if they are not.
    pub all_until: Option<Millis>,
}

impl Marks {
    /// The mark of one callback.
    #[must_use]
    pub fn of(callback: &str) -> Self {
        let fold = |seed: u64, byte: u8| mix(seed ^ u64::from(byte));
        let hash = callback.bytes().fold(0x6a6f_696e, fold);
        let mut callbacks = [0; 4];
        // Two bits choose the word, six the bit in it.
        if let Some(word) = callbacks.get_mut((hash >> 6) as usize & 3) {
            *word = 1 << (hash & 63);
        }
        Self {
            callbacks,
            all_until: None,
        }
    }

    /// The mark of a task that is not known, which is waited for until this deadline.
    #[must_use]
    pub fn of_unknown(deadline: Millis) -> Self {
        let end = deadline.after(COUNTS_BEHIND);
        Self {
            callbacks: [0; 4],
            all_until: Some(end.ceil_to_grid(Millis(0), DAY)),
        }
    }

    /// Returns these with others.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let mut callbacks = self.callbacks;
        for (word, more) in callbacks.iter_mut().zip(other.callbacks) {
            *word |= more;
        }
        Self {
            callbacks,
            all_until: self.all_until.max(other.all_until),
        }
    }

    /// Tells whether all of others are among these.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.with(other) == self
    }

    /// Tells whether the task that a mark is of may be waited for now.
    #[must_use]
    pub fn covers(self, mark: Self, now: Millis) -> bool {
        self.has(mark) || self.all_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);

    #[test]
    fn marks_are_of_callbacks_and_of_all_for_a_time() {
        let (mail, report) = (Marks::of("mail"), Marks::of("report"));
        assert!(mail.covers(mail, NOW) && !mail.covers(report, NOW));
        let both = mail.with(report);
        assert!(both.has(mail) && both.has(report) && !mail.has(both));
        let unknown = Marks::of_unknown(NOW);
        let until = unknown.all_until.unwrap();
        assert!(until >= NOW.after(COUNTS_BEHIND));
        assert!(until <= NOW.after(COUNTS_BEHIND + DAY));
        let some = mail.with(unknown);
        assert!(some.covers(report, NOW) && !some.has(report));
        assert!(!some.covers(report, until) && some.covers(mail, until));
        // Waits of one day change nothing more, and a later deadline counts.
        assert!(some.has(Marks::of_unknown(NOW.before(DAY))));
        let later = Marks::of_unknown(NOW.after(DAY * 2));
        assert!(!some.has(later) && some.with(later).has(some));
    }

    #[test]
    fn each_callback_has_one_bit() {
        for name in ["a", "b", "mail", "report", ""] {
            let bits: u32 = Marks::of(name)
                .callbacks
                .iter()
                .map(|word| word.count_ones())
                .sum();
            assert_eq!(bits, 1, "{name}");
        }
    }
}
