//! The simulated process is shared by a publisher of the memory queue and its consumers, which die with it.

use std::{
    collections::BTreeSet,
    fmt,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use super::{MemoryQueue, group::Member};
use crate::{
    model::{ids::NodeId, time::Millis},
    queue::survivors::Survivors,
};

/// Called before and after each operation with its name and whether it is over; `true` kills the process there.
pub type Hook = Arc<dyn Fn(&'static str, bool) -> bool + Send + Sync>;

/// A simulated process. Clones are the same process.
#[derive(Clone)]
pub(super) struct Process {
    queue: MemoryQueue,
    life: Arc<Life>,
}

#[derive(Default)]
struct Life {
    killed: AtomicBool,
    hook: Mutex<Option<Hook>>,
    members: Mutex<Vec<(String, Member)>>,
    node: Mutex<Option<NodeId>>,
    survivors: Mutex<Survivors<Member>>,
    paused: Mutex<Option<Millis>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("killed", &self.life.killed)
            .finish_non_exhaustive()
    }
}

impl Process {
    pub(super) fn new(queue: MemoryQueue) -> Self {
        Self {
            queue,
            life: Arc::default(),
        }
    }

    /// Gives its members the name of a node.
    pub(super) fn name(&self, node: NodeId) {
        *lock(&self.life.node) = Some(node);
    }

    /// Joins a group; the member dies with the process.
    pub(super) fn join(&self, group: &str, topics: &[String]) -> Member {
        let (node, now) = (*lock(&self.life.node), self.queue.shared.time.now());
        let mut state = self.queue.state();
        let member = state.broker.join(group, topics, node, now);
        drop(state);
        lock(&self.life.members).push((group.to_owned(), member));
        self.queue.wake();
        member
    }

    /// Kills the process: no call on it completes from now on, and its consumers are heard of no more.
    pub(super) fn kill(&self) {
        if self.life.killed.swap(true, Ordering::SeqCst) {
            return;
        }
        let members = std::mem::take(&mut *lock(&self.life.members));
        self.lose(&members);
    }

    /// Stops the process until an instant: its sessions end if that is long.
    pub(super) fn pause(&self, until: Millis) {
        *lock(&self.life.paused) = Some(until);
        let ends = self
            .queue
            .shared
            .time
            .now()
            .after(self.queue.state().broker.session());
        if until > ends {
            let members = lock(&self.life.members).clone();
            self.lose(&members);
        }
    }

    /// Returns until when the process is stopped, if it is.
    pub(super) fn paused_until(&self, now: Millis) -> Option<Millis> {
        lock(&self.life.paused).filter(|until| *until > now)
    }

    /// Looks for members of a dead node in the groups that this process has members of, and takes out those whose turn it is.
    pub(super) fn take_out(&self, dead: NodeId) {
        let Some(me) = *lock(&self.life.node) else {
            return;
        };
        let time = &self.queue.shared.time;
        let mut survivors = lock(&self.life.survivors);
        survivors.note(dead, time.moment());
        let mut state = self.queue.state();
        let members = lock(&self.life.members);
        let joined = members
            .iter()
            .filter(|(group, member)| state.broker.has(group, *member));
        let groups: BTreeSet<String> = joined.map(|(group, _)| group.clone()).collect();
        for group in groups {
            if !survivors.is_open(dead, &group) {
                continue;
            }
            let listed = state.broker.listed(&group);
            for member in survivors.take_notice(me, dead, &group, &listed) {
                state.broker.leave(&group, member, time.now());
            }
        }
        drop(state);
        self.queue.wake();
    }

    fn lose(&self, members: &[(String, Member)]) {
        let now = self.queue.shared.time.now();
        let mut state = self.queue.state();
        for (group, member) in members {
            state.broker.die(group, *member, now);
        }
        drop(state);
        self.queue.wake();
    }

    /// Tells whether the process was killed.
    pub(super) fn is_killed(&self) -> bool {
        self.life.killed.load(Ordering::SeqCst)
    }

    pub(super) fn set_hook(&self, hook: Hook) {
        *lock(&self.life.hook) = Some(hook);
    }

    /// Passes one side of an operation, or stays here for ever when the process is dead.
    pub(super) async fn pass(&self, operation: &'static str, over: bool) {
        if !self.is_killed() {
            let hook = lock(&self.life.hook).clone();
            if hook.is_some_and(|hook| hook(operation, over)) {
                self.kill();
            }
        }
        if self.is_killed() {
            pending::<()>().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
