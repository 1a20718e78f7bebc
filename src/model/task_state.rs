//! The states of tasks, as rows have them, for the state machine and the stores.

/// The state of a row; numbers are what stores keep, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum State {
    /// Waiting for its (new) start time.
    New = 1,
    /// An attempt of it may be running.
    Claimed = 2,
    /// Waiting for its next attempt.
    Retrying = 3,
    /// Terminal: done.
    Succeeded = 4,
    /// Terminal: the callback said that trying again is of no use.
    Failed = 5,
    /// Terminal: cancelled before it was done.
    Cancelled = 6,
    /// Terminal: too late to be useful.
    Expired = 7,
    /// Terminal: used up its attempts.
    Dead = 8,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::New,
        Self::Claimed,
        Self::Retrying,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::Dead,
    ];

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }

    /// Tells whether the task's life has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        self.number() >= Self::Succeeded.number()
    }
}
