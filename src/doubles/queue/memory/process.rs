//! The simulated process is shared by a publisher of the memory queue and its consumers, which die with it.

use std::{
    fmt,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use super::{MemoryQueue, group::Member};
use crate::model::{ids::NodeId, time::Millis};

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
