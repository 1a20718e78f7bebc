//! A store in memory that behaves like three replicas under quorum, in virtual time and from one seed.
//!
//! Every replica has its own rows, with write times, deletes of ranges and times to live; plain writes reach them one by
//! one, late, or not at all; reads ask two and repair them; conditional writes are rounds of one register per partition,
//! with every outcome that such a round has for its caller. What replicas hold alike is kept once, so that a call costs
//! about what it costs in a plain map as long as nothing is broken.
//!
//! It promises what [`tickwheel::store`] asks for, and of everything else the worst: a write whose caller was told of an
//! error surfaces later, is seen and then not seen, or comes up under a range that was deleted meanwhile. One seed and one
//! order of calls give one history. Ballots and messages of the rounds are not modelled, nor are clocks of the replicas.
//!
//! [`Replicas::handle`] is a node's [`tickwheel::store::Store`], [`Replicas::control`] sets what is broken.

mod cluster;
mod control;
mod dice;
mod faults;
mod handle;
mod inspect;
mod read;
mod round;
mod row;
mod set;
mod store;
mod tables;
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cluster::{Cluster, Link};
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

    /// Returns the runner's hand on it.
    pub(crate) fn control(self: &Arc<Self>) -> Control {
        Control::new(Arc::clone(self))
    }

    /// Everything whose time has come has taken effect.
    fn lock(&self) -> MutexGuard<'_, Cluster> {
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        cluster.catch_up();
        cluster
    }
}
