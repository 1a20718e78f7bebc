//! The outcome of an attempt tells the executor whether a notice or an action comes again.

use std::time::Duration;

use super::http::Sent;

/// How an attempt went.
pub(super) enum Done {
    /// It is done.
    Succeeded,
    /// Nothing was tried: it is to come again after this.
    Busy(Duration),
    /// It is to be tried again: after this, or after a wait of its own.
    Again(Option<Duration>, String),
    /// It is not to be tried again.
    Refused(String),
}

impl From<Sent> for Done {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Succeeded(_) => Self::Succeeded,
            Sent::Busy(again) => Self::Busy(again),
            Sent::Again(after, error, _) => Self::Again(after, error),
            Sent::Failed(error, _) | Sent::Gone(error, _) => Self::Refused(error),
        }
    }
}
