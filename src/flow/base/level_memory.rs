//! The memory of levels keeps for a node which levels it knows of the nodes of the cluster; `super::levels` reads and writes
//! them.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use crate::{
    model::{
        ids::NodeId,
        level::{self, Level, Needed},
        task::Spec,
    },
    time_source::Moment,
};

/// The knowledge of a node about levels.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Those of listed nodes.
    pub(super) levels: BTreeMap<NodeId, Level>,
    /// When this node wrote its own last.
    pub(super) written: Option<Moment>,
    /// The lowest level of the nodes that were listed last.
    pub(super) least: Option<Level>,
}

/// The levels of the nodes of the cluster, and of the tasks that need one.
#[derive(Debug)]
pub struct Levels {
    known: Mutex<Known>,
    needed: fn(&Spec) -> Needed,
}

impl Default for Levels {
    fn default() -> Self {
        Self::needed_by(level::needed)
    }
}

impl Levels {
    /// Creates a memory with a rule of its own for what tasks need. Tests have one as long as no feature needs a level.
    #[must_use]
    pub fn needed_by(needed: fn(&Spec) -> Needed) -> Self {
        Self {
            known: Mutex::default(),
            needed,
        }
    }

    /// Returns what a task needs.
    pub(in crate::flow) fn needed(&self, spec: &Spec) -> Needed {
        (self.needed)(spec)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}
