//! The share of a node is all that this node knows of the present activity of a callback, for the nodes that tell people of it.
//!
//! Each node tells its own share. The shares of all nodes together are the activity of the callback: numbers are added, a worker
//! that several nodes know is one worker.

use super::time::Millis;

/// A worker that has polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenWorker {
    /// Its name.
    pub name: String,
    /// The version of its program, if it says so.
    pub version: Option<String>,
    /// When it last polled, by the clock of the node.
    pub last: Millis,
}

/// A share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallbackShare {
    /// Workers that have polled lately, by name.
    pub workers: Vec<SeenWorker>,
    /// Due tasks that no worker has taken.
    pub ready: u64,
    /// Since when the oldest of them is due.
    pub oldest: Option<Millis>,
    /// Attempts that run.
    pub running: u64,
    /// Tasks that wait for their next attempt.
    pub retrying: u64,
    /// Tasks that were handed over lately, by classes of lateness.
    pub late: Vec<u64>,
    /// The lateness of the latest of them, in milliseconds.
    pub latest_ms: i64,
}

impl CallbackShare {
    /// Tells whether nothing goes on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let handed_over: u64 = self.late.iter().sum();
        self.ready + self.running + self.retrying + handed_over == 0 && self.workers.is_empty()
    }

    /// Adds the share of another node. Of a worker that both know, the last poll counts; at most so many workers are kept.
    pub fn add(&mut self, other: Self, workers_max: usize) {
        let Self {
            workers,
            ready,
            oldest,
            running,
            retrying,
            late,
            latest_ms,
        } = other;
        self.workers.extend(workers);
        self.workers
            .sort_by(|one, two| (&one.name, two.last).cmp(&(&two.name, one.last)));
        self.workers.dedup_by(|one, two| one.name == two.name);
        self.workers.truncate(workers_max);
        self.ready = self.ready.saturating_add(ready);
        self.oldest = self.oldest.into_iter().chain(oldest).min();
        self.running = self.running.saturating_add(running);
        self.retrying = self.retrying.saturating_add(retrying);
        self.late.resize(self.late.len().max(late.len()), 0);
        for (sum, more) in self.late.iter_mut().zip(late) {
            *sum = sum.saturating_add(more);
        }
        self.latest_ms = self.latest_ms.max(latest_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str, last: i64) -> SeenWorker {
        SeenWorker {
            name: name.to_owned(),
            version: None,
            last: Millis(last),
        }
    }

    #[test]
    fn shares_are_added_and_a_worker_of_two_nodes_is_one() {
        let mut sum = CallbackShare {
            workers: vec![worker("a", 5), worker("b", 5)],
            ready: 1,
            oldest: Some(Millis(9)),
            running: 2,
            retrying: 3,
            late: vec![1, 2],
            latest_ms: 7,
        };
        let other = CallbackShare {
            workers: vec![worker("b", 8), worker("c", 1)],
            ready: 10,
            oldest: Some(Millis(4)),
            running: 20,
            retrying: 30,
            late: vec![1, 1, 1],
            latest_ms: 3,
        };
        sum.add(other, 10);
        let workers = [worker("a", 5), worker("b", 8), worker("c", 1)];
        assert_eq!(sum.workers, workers);
        assert_eq!((sum.ready, sum.running, sum.retrying), (11, 22, 33));
        assert_eq!((sum.oldest, sum.latest_ms), (Some(Millis(4)), 7));
        assert_eq!(sum.late, [2, 3, 1]);
        sum.add(CallbackShare::default(), 2);
        assert_eq!(sum.workers.len(), 2, "no more than there is room for");
        assert!(CallbackShare::default().is_idle() && !sum.is_idle());
    }
}
