//! `Set` is a set of the three replicas for the simulated store.

use std::fmt;

/// The number of replicas.
pub(crate) const REPLICAS: usize = 3;

/// How many of them make a quorum.
pub(super) const QUORUM: u32 = 2;

/// Some of the replicas 0, 1 and 2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set(u8);

impl Set {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(0b111);

    pub(crate) const fn only(replica: usize) -> Self {
        Self((1 << replica) & Self::ALL.0)
    }

    /// Any of the eight sets, by its number.
    pub(super) const fn from_low_bits(bits: u64) -> Self {
        Self((bits & 0b111) as u8)
    }

    pub(crate) const fn has(self, replica: usize) -> bool {
        self.0 & Self::only(replica).0 != 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn is_quorum(self) -> bool {
        self.0.count_ones() >= QUORUM
    }

    pub(super) fn members(self) -> impl Iterator<Item = usize> {
        (0..REPLICAS).filter(move |replica| self.has(*replica))
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (replica, letter) in ["A", "B", "C"].into_iter().enumerate() {
            f.write_str(if self.has(replica) { letter } else { "-" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
