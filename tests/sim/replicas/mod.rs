//! `Replicas` is a store in memory for tests that behaves like three replicas with quorum, in
//! virtual time, from one seed.
//!
//! Every replica has its own rows, with write times, range deletes and times to live. Plain writes reach the
//! replicas one by one, late, or not at all. Reads ask two replicas and repair them. Conditional writes are
//! rounds of one register per partition, with every outcome that such a round has for its caller. Equal rows
//! of the replicas are kept once, so that without faults a call costs about as much as in a plain map.
//!
//! It keeps the promises of [`tickwheel::store`], and otherwise does the worst: a write whose caller got an
//! error comes up later, is seen and then not seen, or appears under a range that was deleted meanwhile. One
//! seed and one order of calls give one history. It does not model ballots and messages of the rounds, nor
//! clocks of the replicas.
//!
//! [`Replicas::handle`] is a node's [`tickwheel::store::Store`], [`Replicas::control`] sets the faults.

mod cluster;
mod control;
mod dice;
mod faults;
mod handle;
mod inspect;
mod read;
mod records;
mod round;
mod row;
mod set;
mod store;
mod tables;
mod tests;

use std::{fmt, sync::Arc};

use cluster::{Cluster, Link};
use parking_lot::{Mutex, MutexGuard};
use tickwheel::{model::wheel::Shape, time_source::TimeSource};

pub(crate) use self::{
    cluster::Sink,
    control::Control,
    dice::Wait,
    faults::{Faults, SwapFate, WriteFate},
    handle::Handle,
    set::Set,
};

/// The store of a simulated cluster.
pub(crate) struct Replicas {
    shape: Shape,
    time: TimeSource,
    cluster: Mutex<Cluster>,
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").finish_non_exhaustive()
    }
}

impl Replicas {
    /// Creates a store without faults whose clock rows begin now. `time` is the true time.
    pub(crate) fn new(shape: Shape, time: TimeSource, seed: u64) -> Arc<Self> {
        let cluster = Cluster::new(shape, time.clone(), seed);
        Arc::new(Self {
            shape,
            time,
            cluster: Mutex::new(cluster),
        })
    }

    /// Returns the handle of one more node, whose own clock may be wrong. A node that starts again gets another.
    pub(crate) fn handle(self: &Arc<Self>, time: TimeSource) -> Arc<Handle> {
        let mut cluster = self.lock();
        cluster.links.push(Link {
            cut: Set::NONE,
            killed: false,
        });
        Arc::new(Handle {
            replicas: Arc::clone(self),
            node: cluster.links.len() - 1,
            time,
        })
    }

    /// Returns the runner's handle of it.
    pub(crate) fn control(self: &Arc<Self>) -> Control {
        Control::new(Arc::clone(self))
    }

    /// Locks the cluster after all events whose time has come have taken effect.
    fn lock(&self) -> MutexGuard<'_, Cluster> {
        let mut cluster = self.cluster.lock();
        cluster.catch_up();
        cluster
    }
}
