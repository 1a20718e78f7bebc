//! The messages of callbacks with limits wait apart where callbacks share a queue, so that none fills the room of the others.
//!
//! All `http` tasks come through one queue. A message over the limits of its callback is handled there at once, and waits here
//! in memory until the limits let it go. The look of its task stands for it: the look brings the task again if this node dies,
//! or if there is no room.
//!
//! One callback may have half of all room, two a third each, and so on. A task that its look brings while its message still
//! waits has one place.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::sync::Notify;

use super::buffer::{Buffer, Item, take_admitted};
use crate::{
    flow::features::limit::limiter::Limiter,
    limits,
    model::{ids::TaskId, time::Millis},
    time_source::Moment,
};

/// The attempt that a message asks for: task, generation, attempt.
type Asked = (TaskId, u32, u32);

/// The messages of one callback.
#[derive(Debug, Default)]
struct Place {
    buffer: Buffer,
    known: BTreeSet<Asked>,
    bytes: usize,
}

/// The messages that wait apart in one queue; see the module.
#[derive(Debug, Default)]
pub(super) struct Apart {
    places: BTreeMap<String, Place>,
    bytes: usize,
    waiting: usize,
    /// Another callback is first each time.
    turn: usize,
}

impl Apart {
    /// Adds a message. Tells whether there was room for it; its look stands for one without room.
    pub(super) fn add(&mut self, callback: &str, item: Item, now: Millis) -> bool {
        let asked = asked(&item);
        let place = self.places.get(callback);
        if place.is_some_and(|place| place.known.contains(&asked)) {
            return true;
        }
        let (tasks, bytes) = place.map_or((0, 0), |place| (place.known.len(), place.bytes));
        let free = limits::POLL_APART_TASKS_MAX.saturating_sub(self.waiting);
        let free_bytes = limits::POLL_APART_BYTES_MAX.saturating_sub(self.bytes);
        let weight = weight(&item);
        if tasks >= free || bytes + weight > free_bytes {
            return false;
        }
        let place = self.places.entry(callback.to_owned()).or_default();
        place.known.insert(asked);
        place.bytes += weight;
        self.bytes += weight;
        self.waiting += 1;
        place.buffer.add(item, now);
        true
    }

    /// Makes ready what is due.
    pub(super) fn promote(&mut self, now: Millis) {
        for place in self.places.values_mut() {
            place.buffer.promote(now);
        }
    }

    /// Takes up to `max` messages of about `bytes_max` bytes, as the limits of their callbacks let them go; `wanted` is how many
    /// the polls would take. Each callback has a share, then those that have more. `signal` is told once more may go.
    pub(super) fn take(
        &mut self,
        limiter: &Limiter,
        (max, wanted): (usize, usize),
        bytes_max: usize,
        signal: &Arc<Notify>,
    ) -> Vec<Item> {
        let ready = self
            .places
            .iter()
            .filter(|(_, place)| place.buffer.ready() > 0);
        let mut names: Vec<String> = ready.map(|(name, _)| name.clone()).collect();
        if names.is_empty() || max == 0 {
            return Vec::new();
        }
        self.turn = (self.turn + 1) % names.len();
        names.rotate_left(self.turn);
        let share = max.div_ceil(names.len());
        let mut taken: Vec<Item> = Vec::new();
        for most in [share, max] {
            // A callback that had no more in the first round has no more in the second one.
            names.retain(|name| {
                let most = most.min(max - taken.len());
                let bytes: usize = taken.iter().map(|item| item.bytes).sum();
                let left = bytes_max.saturating_sub(bytes);
                if most == 0 || (left == 0 && !taken.is_empty()) {
                    return false;
                }
                let got = self.take_of(name, limiter, (most, wanted), left, signal);
                let all = got.len() == most;
                taken.extend(got);
                all
            });
        }
        taken
    }

    fn take_of(
        &mut self,
        name: &str,
        limiter: &Limiter,
        (max, wanted): (usize, usize),
        bytes_max: usize,
        signal: &Arc<Notify>,
    ) -> Vec<Item> {
        let Some(place) = self.places.get_mut(name) else {
            return Vec::new();
        };
        let taken = take_admitted(
            &mut place.buffer,
            limiter,
            name,
            (max, wanted),
            bytes_max,
            signal,
        );
        for item in &taken {
            place.known.remove(&asked(item));
            let weight = weight(item);
            place.bytes = place.bytes.saturating_sub(weight);
            self.bytes = self.bytes.saturating_sub(weight);
            self.waiting = self.waiting.saturating_sub(1);
        }
        if place.known.is_empty() {
            self.places.remove(name);
        }
        taken
    }

    /// Returns when the limits may let go more of what is ready.
    pub(super) fn again_at(&self, limiter: &Limiter) -> Option<Moment> {
        let ready = self
            .places
            .iter()
            .filter(|(_, place)| place.buffer.ready() > 0);
        ready.filter_map(|(name, _)| limiter.again_at(name)).min()
    }

    /// Returns when the next message is due that is not ready.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let places = self.places.values();
        places.filter_map(|place| place.buffer.next_due()).min()
    }

    /// Returns how many messages wait.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns how many messages are ready.
    pub(super) fn ready(&self) -> usize {
        let places = self.places.values();
        places.map(|place| place.buffer.ready()).sum()
    }
}

/// About how much memory a message takes, with its task. A content that was left in the store takes none.
fn weight(item: &Item) -> usize {
    let topic = item.origin.as_ref().map_or(0, |(topic, ..)| topic.len());
    size_of::<Item>() + size_of::<Asked>() + topic + item.spec.weight()
}

fn asked(item: &Item) -> Asked {
    let dispatch = &item.dispatch;
    (dispatch.id, dispatch.generation, dispatch.expected_attempt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        dispatch::Dispatch,
        fixtures,
        task::{Body, Content, Spec},
    };

    fn message(generation: u32, bytes: usize) -> Item {
        let content = Content {
            payload: vec![0; bytes].into(),
            ..Content::default()
        };
        let spec = Spec {
            body: Body::Inline(content),
            ..fixtures::spec()
        };
        Item {
            origin: None,
            dispatch: Dispatch {
                id: fixtures::id(),
                generation,
                expected_attempt: 0,
                start: fixtures::START,
            },
            published: fixtures::START,
            not_before: fixtures::START,
            spec: Arc::new(spec),
            bytes: 0,
            permit: None,
        }
    }

    #[test]
    fn a_task_that_its_look_brings_again_has_one_place() {
        let mut apart = Apart::default();
        for _ in 0..3 {
            assert!(apart.add("http:a", message(1, 10), fixtures::START));
        }
        assert!(apart.add("http:a", message(2, 10), fixtures::START));
        assert_eq!((apart.waiting(), apart.ready()), (2, 2));
    }

    /// Returns how many of many messages find room.
    fn fill(apart: &mut Apart, callback: &str, bytes: usize) -> usize {
        let all = 0..40_000;
        let kept = all.filter(|n| apart.add(callback, message(*n, bytes), Millis(0)));
        kept.count()
    }

    #[test]
    fn a_callback_has_half_of_the_room_and_leaves_room_for_others() {
        let mut apart = Apart::default();
        let tasks = limits::POLL_APART_TASKS_MAX;
        assert_eq!(fill(&mut apart, "http:a", 0), tasks / 2);
        assert_eq!(fill(&mut apart, "http:b", 0), tasks / 4);
        assert_eq!(fill(&mut apart, "http:c", 0), tasks / 8);
        let mut apart = Apart::default();
        let (bytes, each) = (limits::POLL_APART_BYTES_MAX, 64 * 1024);
        let (fit, rest) = (bytes / each, weight(&message(0, 1)) - 1);
        assert_eq!(fill(&mut apart, "http:a", each - rest), fit / 2);
        assert_eq!(fill(&mut apart, "http:b", each - rest), fit / 4);
    }

    #[test]
    fn messages_fill_the_room_by_all_that_their_tasks_own() {
        let spec = Arc::new(fixtures::laden());
        let mut apart = Apart::default();
        let laden = |generation| Item {
            spec: Arc::clone(&spec),
            ..message(generation, 0)
        };
        let kept = (0..40_000).filter(|n| apart.add("http:a", laden(*n), Millis(0)));
        let (kept, most) = (kept.count(), limits::POLL_APART_BYTES_MAX / 2);
        assert!(kept <= most / fixtures::LADEN_BYTES, "{kept} messages fit");
        assert!(apart.bytes <= most, "{}", apart.bytes);
    }
}
