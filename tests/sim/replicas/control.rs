//! `Control` lets the runner break parts of the store at any moment, slow operations down, and kill nodes.

use std::{sync::Arc, time::Duration};

use super::{
    Replicas,
    cluster::{Arrival, Cluster, Pending, Sink, Who},
    dice::Wait,
    faults::{Faults, SwapFate, WriteFate},
    set::Set,
};

/// The writer of hints, which no death of a node loses.
const NOBODY: usize = usize::MAX;

/// The runner's handle of a store. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    replicas: Arc<Replicas>,
}

impl Control {
    pub(super) const fn new(replicas: Arc<Replicas>) -> Self {
        Self { replicas }
    }

    /// Sets chances and latencies.
    pub(crate) fn set(&self, faults: Faults) {
        self.change(|cluster| {
            cluster.note(Who::Control, format_args!("{faults:?}"));
            cluster.faults = faults;
        });
    }

    /// Returns what is set.
    pub(crate) fn faults(&self) -> Faults {
        self.replicas.lock().faults
    }

    /// Makes one operation slower, by its method's name.
    pub(crate) fn slow(&self, operation: &'static str, by: Wait) {
        self.change(|cluster| {
            cluster.note(Who::Control, format_args!("slow {operation} {by:?}"));
            if by == Wait::NONE {
                cluster.slow.remove(operation);
            } else {
                cluster.slow.insert(operation, by);
            }
        });
    }

    /// Stops these replicas and starts the others. A replica that is back gets most of the writes
    /// that it missed.
    pub(crate) fn down(&self, replicas: Set) {
        self.change(|cluster| {
            cluster.note(Who::Control, format_args!("down {replicas}"));
            let back = cluster.down.without(replicas);
            cluster.down = replicas;
            cluster.hand_over_hints(back);
        });
    }

    /// Cuts a node off these replicas, and joins it to the others.
    pub(crate) fn cut(&self, node: usize, replicas: Set) {
        self.change(|cluster| {
            cluster.note(Who::Control, format_args!("cut n{node} {replicas}"));
            if let Some(link) = cluster.links.get_mut(node) {
                link.cut = replicas;
            }
            cluster.hand_over_hints(Set::ALL.without(cluster.down));
        });
    }

    /// A node dies: its calls never return from now on, and its pending writes may take effect or not.
    pub(crate) fn kill(&self, node: usize) {
        self.change(|cluster| {
            cluster.note(Who::Control, format_args!("kill n{node}"));
            if let Some(link) = cluster.links.get_mut(node) {
                link.killed = true;
            }
            cluster.forget_some_of(node);
        });
    }

    /// Ends every fault; a killed node stays dead, and pending writes stay on their way.
    pub(crate) fn heal(&self) {
        self.change(|cluster| {
            cluster.note(Who::Control, format_args!("heal"));
            cluster.faults = Faults {
                patience: cluster.faults.patience,
                lateness: cluster.faults.lateness,
                ..Faults::NONE
            };
            cluster.slow.clear();
            cluster.down = Set::NONE;
            for link in &mut cluster.links {
                link.cut = Set::NONE;
            }
            cluster.next_writes.clear();
            cluster.next_swaps.clear();
            cluster.hand_over_hints(Set::ALL);
        });
    }

    /// Chooses the fate of the next plain write that has none yet.
    pub(crate) fn next_write(&self, fate: WriteFate) {
        self.change(|cluster| cluster.next_writes.push_back(fate));
    }

    /// Chooses the fate of the next conditional write that has none yet.
    pub(crate) fn next_swap(&self, fate: SwapFate) {
        self.change(|cluster| cluster.next_swaps.push_back(fate));
    }

    /// Sends a line for each event to `sink`, or to none. The sink must not call the store.
    pub(crate) fn trace(&self, sink: Option<Sink>) {
        self.replicas.lock().sink = sink;
    }

    /// Returns how many writes may still take effect: on their way, accepted and undecided, or kept for a replica.
    pub(crate) fn under_way(&self) -> usize {
        let cluster = self.replicas.lock();
        let hints: usize = cluster.hints.iter().map(Vec::len).sum();
        cluster.pending.len() + cluster.accepted.len() + hints
    }

    fn change(&self, act: impl FnOnce(&mut Cluster)) {
        let mut cluster = self.replicas.lock();
        act(&mut cluster);
        cluster.consider_calm();
    }
}

impl Cluster {
    /// Sends replicas that are back the writes that they missed; some are lost, some take long.
    fn hand_over_hints(&mut self, to: Set) {
        for replica in to.members() {
            for write in std::mem::take(&mut self.hints[replica]) {
                if self.dice.below(8) == 0 {
                    continue;
                }
                let after = self.dice.between(self.faults.lateness);
                let arrival = Arrival::Write {
                    write,
                    at: Set::only(replica),
                    sure: false,
                };
                self.schedule(NOBODY, after.max(Duration::from_micros(1)), arrival);
            }
        }
    }

    /// Loses pending writes of a dead node, by chance.
    fn forget_some_of(&mut self, node: usize) {
        let dice = &mut self.dice;
        self.pending
            .retain(|_, Pending { node: of, .. }| *of != node || dice.coin());
    }
}
