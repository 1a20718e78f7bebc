//! The memory of levels keeps for a node which levels it knows of the nodes of the cluster; `super::levels` reads and writes
//! them.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use crate::{
    model::{ids::NodeId, level::Level},
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

/// The levels of the nodes of the cluster.
#[derive(Debug, Default)]
pub struct Levels(Mutex<Known>);

impl Levels {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}
