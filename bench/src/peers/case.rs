//! A case names a row of figures, for the scenarios that measure it and for the list of cases.

use std::fmt;

use super::Manner;

/// One row of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Register(Manner),
    Burst,
    /// At so many tasks a second.
    Steady(u64),
    Pending,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(Manner::Singly) => f.write_str("registered, singly"),
            Self::Register(Manner::Batched) => f.write_str("registered, in batches"),
            Self::Burst => f.write_str("burst, delivered and acknowledged"),
            Self::Steady(rate) => write!(f, "steady, {rate}/s"),
            Self::Pending => f.write_str("pending, each"),
        }
    }
}
