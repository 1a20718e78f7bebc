//! The history holds for the row of a task how its earlier attempts ended, within a bound.

use super::time::Millis;

/// Attempts that a task shows; older ones are only counted.
pub const ATTEMPTS_KEPT_MAX: usize = 20;

/// Bytes that the attempts of a row take at most: tasks of a slot share conditional writes, which must stay small.
pub const HISTORY_BYTES_MAX: usize = 4096;

/// Longest error in the history: the row has the last one whole.
pub const HISTORY_ERROR_BYTES_MAX: usize = 1024;

/// Longest beginning of an answer over HTTP that an attempt shows.
pub const RESPONSE_BYTES_MAX: usize = 1024;

/// Longest error in the history beside an answer, which tells the same.
const ERROR_BESIDE_ANSWER_BYTES_MAX: usize = 256;

/// The bytes of an attempt beside its texts.
const ATTEMPT_BYTES: usize = 32;

/// How an attempt ended; numbers are what stores keep, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum Ending {
    /// Its worker reported success.
    Succeeded = 1,
    /// Its worker reported a failure after which the task may be tried again.
    Retry = 2,
    /// Its worker reported a failure for good.
    Failed = 3,
    /// Its worker gave the task back, or never got it.
    Snoozed = 4,
    /// Its worker stopped sending heartbeats.
    Lost = 5,
    /// The task was cancelled while it ran.
    Cancelled = 6,
    /// It took longer than its time limit.
    TimedOut = 7,
}

impl Ending {
    /// Every ending.
    pub const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Retry,
        Self::Failed,
        Self::Snoozed,
        Self::Lost,
        Self::Cancelled,
        Self::TimedOut,
    ];

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let mut known = Self::ALL.into_iter();
        known.find(|ending| i32::from(ending.number()) == number)
    }

    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Retry => "retry",
            Self::Failed => "failed",
            Self::Snoozed => "snoozed",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

/// The answer of a receiver over HTTP to an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// The beginning of its body, as text: [`RESPONSE_BYTES_MAX`] at most.
    pub response: String,
}

/// One attempt of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number.
    pub attempt: u32,
    /// The worker that claimed it.
    pub worker: String,
    /// When it was claimed.
    pub claimed: Option<Millis>,
    /// When it ended; none while it runs.
    pub ended: Option<Millis>,
    /// How it ended; none while it runs, or where a later version knows better.
    pub ending: Option<Ending>,
    /// The error that its worker reported.
    pub error: Option<String>,
    /// The answer to it; only for a task that is delivered over HTTP, and where there was one.
    pub answered: Option<Answered>,
}

/// The attempts before the last one, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The attempts.
    pub attempts: Vec<Attempt>,
    /// Older ones that were dropped.
    pub dropped: u32,
    /// The answer to the last attempt, which is not among these.
    pub answered: Option<Answered>,
}

impl Answered {
    /// An answer with this beginning of its body: bytes that are no text are replaced, control characters left out.
    #[must_use]
    pub fn new(status: u16, body: &[u8]) -> Self {
        let body = body.get(..RESPONSE_BYTES_MAX).unwrap_or(body);
        let text = String::from_utf8_lossy(body);
        let is_shown = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
        let response = cut(text.chars().filter(is_shown).collect(), RESPONSE_BYTES_MAX);
        Self { status, response }
    }
}

impl Attempt {
    /// Returns about how many bytes it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let error = match &self.error {
            Some(error) => error.len(),
            None => 0,
        };
        let answered = match &self.answered {
            Some(answered) => answered.response.len(),
            None => 0,
        };
        ATTEMPT_BYTES + self.worker.len() + error + answered
    }
}

impl History {
    /// Adds an attempt, and drops the oldest ones that find no room.
    #[must_use]
    pub fn with(mut self, mut attempt: Attempt) -> Self {
        let bytes_max = match &attempt.answered {
            Some(_) => ERROR_BESIDE_ANSWER_BYTES_MAX,
            None => HISTORY_ERROR_BYTES_MAX,
        };
        attempt.error = attempt.error.map(|error| cut(error, bytes_max));
        self.attempts.push(attempt);
        self.answered = None;
        let mut bytes: usize = self.attempts.iter().map(Attempt::bytes).sum();
        let mut excess = 0;
        for (index, oldest) in self.attempts.iter().enumerate() {
            let many = self.attempts.len() - index > ATTEMPTS_KEPT_MAX;
            if !many && bytes <= HISTORY_BYTES_MAX {
                break;
            }
            bytes -= oldest.bytes();
            excess = index + 1;
        }
        self.attempts.drain(..excess);
        let excess = u32::try_from(excess).unwrap_or(u32::MAX);
        self.dropped = self.dropped.saturating_add(excess);
        self
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
