//! The memory of abandoned records tells the publisher the fate of records that were still open when their
//! batch was answered, because their topic is sick.
//!
//! Their tasks are tried again, every fifth of a second at first. A record that is open must not be sent a
//! second time, and neither must one that was acknowledged meanwhile. Otherwise each would go out several
//! times when its topic is well again. The memory is lost with the process. A record may go out twice then,
//! which is allowed.
//!
//! A task with a row is tried again by its looks as well, long after. A message that was acknowledged and
//! then lost has to go out anew then. So its acknowledgement counts for less time than the shortest one
//! between a message and its look. A record is tried again for no other reason, so its acknowledgement counts
//! as long as it is remembered.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    limits,
    time_source::{Moment, TimeSource},
};

#[derive(Debug, Default)]
struct State {
    /// When each record was acknowledged; none while it is open. At most as many are open as the producers
    /// hold.
    records: HashMap<String, Option<Moment>>,
    /// Records that were acknowledged, the oldest first.
    acknowledged: VecDeque<String>,
}

/// The outcomes of records that no caller waits for any more.
#[derive(Debug)]
pub(super) struct Abandoned {
    time: TimeSource,
    state: Mutex<State>,
}

impl Abandoned {
    pub(super) fn new(time: TimeSource) -> Self {
        Self {
            time,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Tells whether nothing is remembered, so that nobody needs to ask.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().records.is_empty()
    }

    /// Remembers a record that is open.
    pub(super) fn open(&self, identity: &str) {
        self.lock().records.insert(identity.to_owned(), None);
    }

    /// Learns the outcome of a record. One that was not acknowledged is forgotten.
    pub(super) fn settle(&self, identity: String, acknowledged: bool) {
        let mut state = self.lock();
        if !acknowledged {
            state.records.remove(&identity);
            return;
        }
        let now = self.time.moment();
        state.records.insert(identity.clone(), Some(now));
        state.acknowledged.push_back(identity);
        while let Some(oldest) = state.acknowledged.front() {
            let at = state.records.get(oldest).copied().flatten();
            let old = at.is_none_or(|at| now.since(at) > limits::ABANDONED_KEPT);
            if !old && state.acknowledged.len() <= limits::ABANDONED_MAX {
                break;
            }
            if let Some(oldest) = state.acknowledged.pop_front()
                && at.is_some()
            {
                state.records.remove(&oldest);
            }
        }
    }

    /// Tells about a record that is about to be sent: `false` while it is open, and `true` once, after it was
    /// acknowledged within `kept`. Otherwise none.
    pub(super) fn ask(&self, identity: &str, kept: Duration) -> Option<bool> {
        let mut state = self.lock();
        let Some(at) = *state.records.get(identity)? else {
            return Some(false);
        };
        state.records.remove(identity);
        (self.time.moment().since(at) <= kept).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let abandoned = Abandoned::new(TimeSource::real());
        for number in 0..2 * limits::ABANDONED_MAX {
            abandoned.open(&number.to_string());
            abandoned.settle(number.to_string(), true);
        }
        let state = abandoned.lock();
        assert_eq!(state.records.len(), limits::ABANDONED_MAX);
        assert_eq!(state.acknowledged.len(), limits::ABANDONED_MAX);
        drop(state);
        assert_eq!(abandoned.ask("0", limits::ABANDONED_KEPT), None);
        let last = (2 * limits::ABANDONED_MAX - 1).to_string();
        assert_eq!(abandoned.ask(&last, limits::ABANDONED_KEPT), Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn an_acknowledgement_counts_for_as_long_as_is_asked_for() {
        let time = TimeSource::simulated(crate::model::time::Millis(0), 1);
        let abandoned = Abandoned::new(time.clone());
        for name in ["a", "b", "c"] {
            abandoned.open(name);
        }
        time.sleep(Duration::from_secs(60)).await;
        let kept = limits::ABANDONED_TRACKED_KEPT;
        assert_eq!(abandoned.ask("a", kept), Some(false), "it is open still");
        abandoned.settle("a".to_owned(), true);
        abandoned.settle("b".to_owned(), true);
        abandoned.settle("c".to_owned(), true);
        time.sleep(kept).await;
        assert_eq!(abandoned.ask("a", kept), Some(true));
        time.sleep(Duration::from_millis(1)).await;
        assert_eq!(abandoned.ask("b", kept), None, "a look sends it again");
        assert_eq!(abandoned.ask("c", limits::ABANDONED_KEPT), Some(true));
    }
}
