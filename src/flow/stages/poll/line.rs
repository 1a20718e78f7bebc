//! The lines hold the state of the [hub](super::hub), behind its lock: waiting polls, and the messages ready for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::sync::{Notify, oneshot};

use super::{
    Refusal,
    apart::Apart,
    buffer::{Buffer, Item, Origin, take_admitted},
};
use crate::{
    flow::features::limit::limiter::Limiter, limits, model::time::Millis, time_source::Moment,
};

/// The number of a poll: its place in line.
pub(super) type Place = u64;

/// A callback that needs a feed, and what wakes that.
pub(super) type Made = (String, Arc<Notify>);

#[derive(Debug)]
pub(super) struct Poll {
    pub(super) worker: String,
    pub(super) callbacks: Vec<String>,
    pub(super) max: usize,
    pub(super) sender: oneshot::Sender<Vec<Item>>,
    /// The end of the wait of a callback that would fill it alone, for messages of its other callbacks.
    pub(super) gathers_until: Option<Moment>,
}

/// The state of a callback that is polled.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) buffer: Buffer,
    /// Messages of callbacks with limits that share this queue with others.
    pub(super) apart: Apart,
    /// Whose turn it is, of these and the others, where only one can be taken.
    apart_first: bool,
    /// Polls that wait for it.
    pub(super) line: BTreeSet<Place>,
    /// How many messages these would take.
    pub(super) wanted: usize,
    /// Messages that are out for a claim.
    pub(super) out: usize,
    /// To be told to the consumer.
    pub(super) handled: Vec<Origin>,
    /// Wakes the feed when something of the above has changed.
    pub(super) signal: Arc<Notify>,
    pub(super) polled: Moment,
    /// The size of its buffer when it was counted last.
    pub(super) counted: usize,
    /// Why nothing can be received at the moment.
    pub(super) problem: Option<String>,
}

#[derive(Debug)]
pub(super) struct State {
    limiter: Limiter,
    pub(super) polls: BTreeMap<Place, Poll>,
    /// Ordered, so that a stop wakes them in the same order in every simulated run.
    pub(super) feeds: BTreeMap<String, Feed>,
    pub(super) last: Place,
    /// Messages in all buffers, as last counted.
    pub(super) buffered: usize,
    pub(super) stopping: bool,
}

impl State {
    pub(super) const fn new(limiter: Limiter) -> Self {
        Self {
            limiter,
            polls: BTreeMap::new(),
            feeds: BTreeMap::new(),
            last: 0,
            buffered: 0,
            stopping: false,
        }
    }

    /// Makes feeds of callbacks that have none; returns these. A poll that has waited already is not sent away.
    pub(super) fn admit(
        &mut self,
        callbacks: &[String],
        newcomer: bool,
        feeds_max: usize,
        now: Moment,
    ) -> Result<Vec<Made>, Refusal> {
        if self.stopping {
            return Err(Refusal::Stopping);
        }
        let free = limits::POLLS_WAITING_MAX.saturating_sub(self.polls.len());
        let waiting = |name: &String| self.feeds.get(name).map_or(0, |feed| feed.line.len());
        // One callback may have half of all places, two a third each, and so on: there is always room for another.
        let crowded = callbacks.iter().find(|name| waiting(name) >= free);
        if let Some(name) = crowded.filter(|_| newcomer) {
            let of = waiting(name);
            return Err(Refusal::TooMany(format!(
                "{of} polls for callback {name:?} wait at this node, its share of the limit"
            )));
        }
        let unknown = |name: &&String| !self.feeds.contains_key(*name);
        let new: Vec<String> = callbacks.iter().filter(unknown).cloned().collect();
        // A poll may name as many new callbacks as leave room for as many again: one with few finds room when
        // one with many does not.
        let free = feeds_max.saturating_sub(self.feeds.len());
        let share = if new.len() > 1 { free / 2 } else { free };
        if new.len() > share {
            let polled = self.feeds.len();
            return Err(Refusal::TooMany(format!(
                "{polled} callbacks are polled at this node, whose limit is {feeds_max} (`poll_feeds_max`): \
                 there is no room for {} more of one poll",
                new.len()
            )));
        }
        let mut made = Vec::new();
        for name in new {
            let signal = Arc::new(Notify::new());
            made.push((name.clone(), Arc::clone(&signal)));
            self.feeds.insert(name, Feed::new(signal, now));
        }
        for name in callbacks {
            if let Some(feed) = self.feeds.get_mut(name) {
                feed.polled = now;
            }
        }
        Ok(made)
    }

    pub(super) fn wait(&mut self, place: Place, poll: Poll) {
        for name in &poll.callbacks {
            if let Some(feed) = self.feeds.get_mut(name) {
                feed.line.insert(place);
                feed.wanted += poll.max;
                feed.signal.notify_one();
            }
        }
        self.polls.insert(place, poll);
    }

    /// Takes a poll out of every line; none when it has been served.
    pub(super) fn leave(&mut self, place: Place) -> Option<Poll> {
        let poll = self.polls.remove(&place)?;
        for name in &poll.callbacks {
            if let Some(feed) = self.feeds.get_mut(name)
                && feed.line.remove(&place)
            {
                feed.wanted -= poll.max;
            }
        }
        Some(poll)
    }

    /// Serves a poll from all its callbacks with what is ready: first each its share, then those that have more.
    pub(super) fn serve_from_all(&mut self, place: Place) {
        let Some(Poll { callbacks, max, .. }) = self.polls.get(&place) else {
            return;
        };
        let ready = |name: &&String| {
            let feed = self.feeds.get(*name);
            feed.is_some_and(|feed| feed.ready() > 0)
        };
        let share = max.div_ceil(callbacks.iter().filter(ready).count().max(1));
        let mut batch: Vec<Item> = Vec::new();
        // Each poll begins with another callback, so that none is always the last.
        let count = callbacks.len().max(1);
        let first = usize::try_from(place).unwrap_or(0) % count;
        for most in [share, *max] {
            for name in callbacks.iter().cycle().skip(first).take(count) {
                let bytes: usize = batch.iter().map(|item| item.bytes).sum();
                let left = limits::POLL_BYTES_MAX.saturating_sub(bytes);
                if left == 0 && !batch.is_empty() {
                    break;
                }
                if let Some(feed) = self.feeds.get_mut(name) {
                    let most = most.min(max - batch.len());
                    batch.extend(feed.take(&self.limiter, name, most, left));
                }
            }
        }
        if !batch.is_empty() {
            self.hand(place, batch);
        }
    }

    /// Spreads ready messages over the waiting polls, in order. Returns when to come back, if the first poll
    /// is left a moment to see what its other callbacks have, or a limit keeps the messages back.
    pub(super) fn serve(&mut self, callback: &str, now: Moment) -> Option<Moment> {
        while let Some(feed) = self.feeds.get_mut(callback)
            && let Some(place) = feed.line.first().copied()
            && feed.ready() > 0
        {
            let share = feed.ready().div_ceil(feed.line.len());
            let poll = self.polls.get_mut(&place);
            let max = poll.as_ref().map_or(1, |poll| poll.max);
            if share >= max
                && let Some(poll) = poll.filter(|poll| poll.callbacks.len() > 1)
            {
                // It would fill the poll alone every time: a callback in a flood would crowd out the others.
                let until = now.after(limits::POLL_GATHER);
                let until = *poll.gathers_until.get_or_insert(until);
                if now < until {
                    return Some(until);
                }
                self.serve_from_all(place);
                if self.polls.contains_key(&place) {
                    // Limits keep back all that is ready for it.
                    return self.again_at(callback);
                }
                continue;
            }
            let most = share.min(max);
            let batch = feed.take(&self.limiter, callback, most, limits::POLL_BYTES_MAX);
            if batch.is_empty() {
                return self.again_at(callback);
            }
            self.hand(place, batch);
        }
        None
    }

    /// Returns when the limits may let go more of what is ready in a feed.
    fn again_at(&self, callback: &str) -> Option<Moment> {
        let feed = self.feeds.get(callback)?;
        let apart = feed.apart.again_at(&self.limiter);
        let own = self.limiter.again_at(callback);
        apart.into_iter().chain(own).min()
    }

    /// Adds what a feed has received.
    pub(super) fn receive(&mut self, callback: &str, items: Vec<Item>, now: Millis) {
        if let Some(feed) = self.feeds.get_mut(callback) {
            feed.problem = None;
            for item in items {
                feed.keep(item, &self.limiter, now);
            }
        }
    }

    pub(super) fn hand(&mut self, place: Place, batch: Vec<Item>) {
        let refused = match self.leave(place) {
            Some(poll) => poll.sender.send(batch).err(),
            None => Some(batch),
        };
        // Its ticket leaves the line before its receiver is gone, so this does not happen; if it does, nothing is lost.
        for item in refused.into_iter().flatten() {
            if let Some(feed) = item.spec.queue().and_then(|name| self.feeds.get_mut(name)) {
                feed.out = feed.out.saturating_sub(1);
                feed.keep(item, &self.limiter, Millis(i64::MAX));
            }
        }
    }

    pub(super) fn put_back(&mut self, items: Vec<Item>, now: Millis, moment: Moment) {
        let mut touched = BTreeSet::new();
        for item in items {
            let Some(name) = item.spec.queue().map(str::to_owned) else {
                continue;
            };
            if let Some(feed) = self.feeds.get_mut(&name) {
                feed.out = feed.out.saturating_sub(1);
                feed.keep(item, &self.limiter, now);
                feed.signal.notify_one();
                touched.insert(name);
            }
        }
        for name in touched {
            // Its feed is awake, and comes back when it is time.
            self.serve(&name, moment);
        }
    }

    /// Answers polls that wait with nothing.
    pub(super) fn dismiss(&mut self, which: impl Fn(Place, &Poll) -> bool) {
        let chosen = self
            .polls
            .iter()
            .filter(|(place, poll)| which(**place, poll));
        let places: Vec<Place> = chosen.map(|(place, _)| *place).collect();
        for place in places {
            if let Some(poll) = self.leave(place) {
                // A poll that does not wait any more needs no answer.
                drop(poll.sender.send(Vec::new()));
            }
        }
    }

    pub(super) fn report(&self) {
        metrics::gauge!("tickwheel_polls_waiting").set(self.polls.len() as f64);
        metrics::gauge!("tickwheel_poll_buffered_tasks").set(self.buffered as f64);
    }
}

impl Feed {
    pub(super) fn new(signal: Arc<Notify>, polled: Moment) -> Self {
        Self {
            buffer: Buffer::default(),
            apart: Apart::default(),
            apart_first: false,
            line: BTreeSet::new(),
            wanted: 0,
            out: 0,
            handled: Vec::new(),
            counted: 0,
            signal,
            polled,
            problem: None,
        }
    }

    /// Returns how many messages are due; limits may keep some of them back.
    fn ready(&self) -> usize {
        self.buffer.ready() + self.apart.ready()
    }

    /// Takes messages for a poll, as many as the limits of their callbacks let go. Those that wait apart have half of it, and
    /// what the others leave.
    pub(super) fn take(
        &mut self,
        limiter: &Limiter,
        callback: &str,
        max: usize,
        bytes_max: usize,
    ) -> Vec<Item> {
        if max == 0 {
            return Vec::new();
        }
        self.apart_first = !self.apart_first;
        let half = (max + usize::from(self.apart_first)) / 2;
        let most = half.max(max.saturating_sub(self.buffer.ready()));
        let wanted = self.wanted;
        let mut taken = self
            .apart
            .take(limiter, (most, wanted), bytes_max, &self.signal);
        let bytes: usize = taken.iter().map(|item| item.bytes).sum();
        let left = bytes_max.saturating_sub(bytes);
        if left > 0 || taken.is_empty() {
            let most = (max - taken.len(), wanted);
            let own = take_admitted(
                &mut self.buffer,
                limiter,
                callback,
                most,
                left,
                &self.signal,
            );
            taken.extend(own);
        }
        self.out += taken.len();
        taken
    }

    /// Keeps a message that came, or was out. One whose callback has limits and shares the queue waits apart: it is handled in
    /// the queue, and its look stands for it.
    fn keep(&mut self, mut item: Item, limiter: &Limiter, now: Millis) {
        item.permit = None;
        let shares = item.spec.queue() != item.spec.callback();
        let limited = item
            .spec
            .callback()
            .filter(|name| shares && limiter.has_limits(name));
        let Some(callback) = limited.map(str::to_owned) else {
            self.buffer.add(item, now);
            return;
        };
        self.handled.extend(item.origin.take());
        if !self.apart.add(&callback, item, now) {
            metrics::counter!("tickwheel_poll_left_total").increment(1);
        }
    }
}
