//! The watches hand the changes of tasks that this node writes to readers that follow a task or a callback.
//!
//! A change is the row that was written. A reader that is slow loses changes beyond [`WATCH_CHANGES_MAX`], and is told how many:
//! so its memory is bounded, and no write waits for it. Changes that another node writes are found by reading rows.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    limits::{WATCH_CHANGES_MAX, WATCHES_MAX},
    model::{ids::TaskId, row::TaskRow, state::State},
};

/// The thing that a reader follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// One task.
    Task(TaskId),
    /// The tasks of a callback, but for those of the service itself.
    Callback(String),
}

impl Watched {
    fn concerns(&self, row: &TaskRow) -> bool {
        match self {
            Self::Task(id) => row.id == *id,
            Self::Callback(name) => {
                row.detail.spec.callback() == Some(name) && !row.id.is_internal()
            }
        }
    }
}

/// A change of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The task.
    pub id: TaskId,
    /// Its generation.
    pub generation: u32,
    /// Its claims so far.
    pub attempt: u32,
    /// Its state.
    pub state: State,
    /// The worker that claimed it last; empty if none did.
    pub worker: String,
    /// The last failure.
    pub error: Option<String>,
}

impl Change {
    fn of(row: &TaskRow) -> Self {
        Self {
            id: row.id,
            generation: row.generation,
            attempt: row.attempt,
            state: row.state,
            worker: row.detail.worker.clone(),
            error: row.detail.error.clone(),
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    changes: VecDeque<Change>,
    missed: u64,
}

#[derive(Debug)]
struct Reader {
    watched: Watched,
    waiting: Mutex<Waiting>,
    signal: Notify,
}

#[derive(Debug, Default)]
struct Register {
    /// How many there are: a node without readers looks at nothing else.
    count: AtomicUsize,
    readers: Mutex<Vec<Arc<Reader>>>,
}

/// The watches of a node. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Watches(Arc<Register>);

/// A reader, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    of: Watches,
    reader: Arc<Reader>,
}

impl Watches {
    /// Adds a reader; none when there are too many.
    pub(in crate::flow) fn add(&self, watched: Watched) -> Option<Watch> {
        let reader = Arc::new(Reader {
            watched,
            waiting: Mutex::default(),
            signal: Notify::new(),
        });
        let mut readers = self.0.readers.lock();
        if readers.len() >= WATCHES_MAX {
            return None;
        }
        readers.push(Arc::clone(&reader));
        self.0.count.store(readers.len(), Ordering::Relaxed);
        drop(readers);
        Some(Watch {
            of: self.clone(),
            reader,
        })
    }

    /// Hands rows that were written to the readers that they concern.
    pub(in crate::flow) fn wrote<'a>(&self, rows: impl Iterator<Item = &'a TaskRow>) {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let readers = self.0.readers.lock().clone();
        for row in rows {
            let concerned = readers.iter().filter(|one| one.watched.concerns(row));
            for reader in concerned {
                let mut waiting = reader.waiting.lock();
                if waiting.changes.len() >= WATCH_CHANGES_MAX {
                    waiting.missed += 1;
                } else {
                    waiting.changes.push_back(Change::of(row));
                }
                drop(waiting);
                reader.signal.notify_one();
            }
        }
    }
}

impl Watch {
    /// Waits for a change. Cancel-safe.
    pub async fn changed(&self) {
        self.reader.signal.notified().await;
    }

    /// Takes the changes that have come, and how many were lost behind them.
    #[must_use]
    pub fn take(&self) -> (Vec<Change>, u64) {
        let mut waiting = self.reader.waiting.lock();
        let missed = std::mem::take(&mut waiting.missed);
        (waiting.changes.drain(..).collect(), missed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut readers = self.of.0.readers.lock();
        readers.retain(|one| !Arc::ptr_eq(one, &self.reader));
        self.of.0.count.store(readers.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::model::fixtures;

    #[test]
    fn a_reader_gets_the_changes_that_concern_it_and_is_told_what_it_missed() {
        let watches = Watches::default();
        let spec = Arc::new(fixtures::spec());
        let row = fixtures::row(State::Claimed, &spec);
        watches.wrote(std::iter::once(&row));
        let of = |name: &str| watches.add(Watched::Callback(name.to_owned())).unwrap();
        let (mail, other) = (of("mail"), of("other"));
        let task = watches.add(Watched::Task(row.id)).unwrap();
        for _ in 0..WATCH_CHANGES_MAX + 2 {
            watches.wrote(std::iter::once(&row));
        }
        assert!(other.changed().now_or_never().is_none());
        assert_eq!(other.take(), (Vec::new(), 0));
        for reader in [&mail, &task] {
            reader.changed().now_or_never().unwrap();
            let (changes, missed) = reader.take();
            assert_eq!((changes.len(), missed), (WATCH_CHANGES_MAX, 2));
            assert_eq!(changes[0], Change::of(&row));
            assert_eq!(reader.take(), (Vec::new(), 0));
        }
        drop((mail, other, task));
        assert_eq!(watches.0.count.load(Ordering::Relaxed), 0);
        let all: Vec<Option<Watch>> = (0..=WATCHES_MAX)
            .map(|_| watches.add(Watched::Task(row.id)))
            .collect();
        assert_eq!(all.iter().flatten().count(), WATCHES_MAX);
    }
}
