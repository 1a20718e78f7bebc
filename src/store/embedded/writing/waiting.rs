//! The waiting requests are ordered for the writer, so that small ones need not wait for much that is written beside them.
//!
//! A request of few rows comes from a caller who waits for it alone: a claim, a settle, a registration. One of many rows comes
//! from a stage that hands out thousands of tasks, or carries a large content. Behind a flood of those a claim would wait for
//! several syncs, each of megabytes. So small ones go first, and large ones take a small part of each group as long as small ones
//! come. A group always has some of both, so neither waits for ever.
//!
//! Requests of one kind stay in their order. A request overtakes others only while their callers wait for them, which is what
//! callers at the same time must expect anyway. A large one whose caller has given up is left out: its outcome is unknown, and
//! must not appear behind what the caller does next.

use std::{collections::VecDeque, time::Duration};

use tokio::sync::OwnedSemaphorePermit;

use super::{command::Act, writer::GROUP_ROWS_MAX};
use crate::time_source::Moment;

/// Rows and bytes of a small request. A task with its entry and its look has two rows of a few hundred bytes.
const SMALL: Size = Size {
    rows: 16,
    bytes: 16 * 1024,
};

/// Large requests in a group while small ones come. They take some 5 ms of the writer and of the disk.
const BESIDE: Size = Size {
    rows: 512,
    bytes: 256 * 1024,
};

/// Large requests in a group otherwise. At this size a sync is a small part of its cost.
const ALONE: Size = Size {
    rows: GROUP_ROWS_MAX,
    bytes: 8 * 1024 * 1024,
};

/// How long small requests are expected to come on.
const EXPECTED: Duration = Duration::from_millis(100);

/// How much is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Size {
    rows: usize,
    bytes: usize,
}

impl Size {
    const fn is_within(self, most: Self) -> bool {
        self.rows <= most.rows && self.bytes <= most.bytes
    }

    const fn reaches(self, most: Self) -> bool {
        self.rows >= most.rows || self.bytes >= most.bytes
    }
}

/// A request, and its share of the queue.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) act: Act,
    /// Of its keys and values.
    pub(super) bytes: usize,
    /// None for work that may as well be left undone.
    pub(super) share: Option<OwnedSemaphorePermit>,
}

impl Queued {
    fn size(&self) -> Size {
        Size {
            rows: self.act.rows(),
            bytes: self.bytes,
        }
    }

    /// A small one that waits for all before it, or that nobody waits for, is not urgent.
    fn is_urgent(&self) -> bool {
        let waits = matches!(self.act, Act::Settle { .. } | Act::Upkeep);
        !waits && self.share.is_some() && self.size().is_within(SMALL)
    }

    fn is_given_up(&self) -> bool {
        self.share.is_some() && self.act.is_given_up()
    }
}

/// The requests that wait for the writer.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    urgent: VecDeque<Queued>,
    others: VecDeque<Queued>,
    /// When the last urgent one was taken.
    seen: Option<Moment>,
}

impl Waiting {
    /// Takes on a request.
    pub(super) fn push(&mut self, queued: Queued) {
        if queued.is_urgent() {
            self.urgent.push_back(queued);
        } else {
            self.others.push_back(queued);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.others.is_empty()
    }

    /// Returns the next group, which is not empty unless all have given up. One that waits for those before it gets all of them
    /// in its group or an earlier one, since all urgent ones are in it.
    pub(super) fn group(&mut self, now: Moment) -> Vec<Queued> {
        if !self.urgent.is_empty() {
            self.seen = Some(now);
        }
        let mut group: Vec<Queued> = self.urgent.drain(..).collect();
        let expected = self.seen.is_some_and(|seen| now.since(seen) < EXPECTED);
        let most = if expected { BESIDE } else { ALONE };
        let mut size = Size::default();
        while !size.reaches(most)
            && let Some(next) = self.others.pop_front()
        {
            if next.is_given_up() {
                continue;
            }
            let Size { rows, bytes } = next.size();
            size = Size {
                rows: size.rows + rows,
                bytes: size.bytes + bytes,
            };
            group.push(next);
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Semaphore, oneshot};

    use super::*;
    use crate::{
        store::{Error, embedded::disk::database::Space, embedded::writing::command::Write},
        time_source::TimeSource,
    };

    type Answer = oneshot::Receiver<Result<(), Error>>;

    fn request(rows: usize, bytes: usize) -> (Queued, Answer) {
        let (answer, answered) = oneshot::channel();
        let write = |_| Write {
            space: Space::Row,
            key: b"k".into(),
            value: None,
        };
        let act = Act::Put {
            writes: (0..rows).map(write).collect(),
            answer,
        };
        (queued(act, bytes), answered)
    }

    fn queued(act: Act, bytes: usize) -> Queued {
        let room = Arc::new(Semaphore::new(1));
        Queued {
            act,
            bytes,
            share: room.try_acquire_owned().ok(),
        }
    }

    fn rows(group: &[Queued]) -> Vec<usize> {
        group.iter().map(|one| one.act.rows()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn small_requests_go_first_and_large_ones_take_a_part_of_each_group() {
        let (mut waiting, time) = (Waiting::default(), TimeSource::real());
        let mut callers = Vec::new();
        let mut push = |waiting: &mut Waiting, rows, bytes| {
            let (queued, answer) = request(rows, bytes);
            waiting.push(queued);
            callers.push(answer);
        };
        for _ in 0..20 {
            push(&mut waiting, 300, 1000);
        }
        push(&mut waiting, SMALL.rows, SMALL.bytes);
        push(&mut waiting, 1, 10);
        assert_eq!(rows(&waiting.group(time.moment())), [16, 1, 300, 300]);
        // Others are expected for a while, and then no more.
        push(&mut waiting, 1, 10);
        let seen = time.moment();
        assert_eq!(rows(&waiting.group(seen)), [1, 300, 300]);
        let just = seen.after(EXPECTED.saturating_sub(Duration::from_millis(1)));
        assert_eq!(rows(&waiting.group(just)), [300, 300]);
        let later = seen.after(EXPECTED);
        assert_eq!(rows(&waiting.group(later)), [300; 14]);
        assert!(waiting.is_empty() && waiting.group(later).is_empty());
        // Bytes count as rows do.
        push(&mut waiting, 1, SMALL.bytes + 1);
        push(&mut waiting, 1, BESIDE.bytes);
        push(&mut waiting, 1, 1 << 20);
        push(&mut waiting, SMALL.rows, 10);
        assert_eq!(rows(&waiting.group(later)), [16, 1, 1]);
        for _ in 0..9 {
            push(&mut waiting, 1, 1 << 20);
        }
        let much_later = later.after(EXPECTED);
        assert_eq!(rows(&waiting.group(much_later)), [1; 8]);
        assert_eq!(rows(&waiting.group(much_later)), [1; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_for_those_before_it_comes_behind_them() {
        let (mut waiting, time) = (Waiting::default(), TimeSource::real());
        let (large, _large) = request(BESIDE.rows, 10);
        let (small, _small) = request(1, 10);
        let (answer, _answered) = oneshot::channel();
        let (first, _first) = request(1, 10);
        waiting.push(first);
        waiting.push(large);
        waiting.push(queued(Act::Settle { answer }, 0));
        waiting.push(small);
        let is_settle = |one: &Queued| matches!(one.act, Act::Settle { .. });
        let group = waiting.group(time.moment());
        assert!(!group.iter().any(is_settle) && group.len() == 3);
        let group = waiting.group(time.moment());
        assert!(group.len() == 1 && group.iter().all(is_settle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_request_whose_caller_has_gone_is_left_out() {
        let (mut waiting, time) = (Waiting::default(), TimeSource::real());
        let (gone, answer) = request(100, 10);
        let (stays, _answer) = request(200, 10);
        waiting.push(gone);
        waiting.push(stays);
        // No caller ever waits for this one.
        waiting.push(Queued {
            act: Act::Upkeep,
            bytes: 0,
            share: None,
        });
        drop(answer);
        assert_eq!(rows(&waiting.group(time.moment())), [200, 1]);
    }
}
