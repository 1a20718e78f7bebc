//! The level says for a node which features of tasks its program knows, so that nodes of several versions can share a store.
//!
//! An older node that changes a task writes back what it knows of it and forgets the rest. So a task that needs a level is
//! taken only once every node of the cluster has it.

use super::task::Spec;

/// A level of the program. Each is a number that never changes its meaning; a program knows all up to its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u32);

impl Level {
    /// Programs that say nothing of their level: none that was released.
    pub const UNKNOWN: Self = Self(0);
    /// The first release, 0.2.0.
    pub const FIRST: Self = Self(2);
    /// The level of this program.
    pub const OWN: Self = Self::FIRST;

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Takes a stored number, which may be that of a later program.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// The level that a task needs of every node, and the field of its registration that needs it; none of a task that every
/// released program knows whole.
pub type Needed = Option<(Level, &'static str)>;

/// Returns what a task needs: nothing, because the first release knows all of it. The first feature after it begins here.
#[must_use]
pub const fn needed(_: &Spec) -> Needed {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures::spec;

    #[test]
    fn the_first_release_knows_every_task() {
        assert_eq!(needed(&spec()), None);
        assert!(Level::OWN >= Level::FIRST && Level::FIRST > Level::UNKNOWN);
        assert_eq!(Level::from_number(Level::OWN.number()), Level::OWN);
    }
}
