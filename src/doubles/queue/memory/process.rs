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

use super::{MemoryQueue, broker::Member};

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

    /// Joins a group; the member leaves it when the process is killed.
    pub(super) fn join(&self, group: &str, topics: &[String]) -> Member {
        let member = self.queue.state().broker.join(group, topics);
        lock(&self.life.members).push((group.to_owned(), member));
        self.queue.wake();
        member
    }

    /// Kills the process: no call on it completes from now on, and its consumers leave their groups.
    pub(super) fn kill(&self) {
        if self.life.killed.swap(true, Ordering::SeqCst) {
            return;
        }
        let members = std::mem::take(&mut *lock(&self.life.members));
        let mut state = self.queue.state();
        for (group, member) in members {
            state.broker.leave(&group, member);
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
