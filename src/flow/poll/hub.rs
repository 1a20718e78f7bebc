//! Who waits for what, and what is there: the meeting place of polls and feeds.
//!
//! One lock, no waiting, no I/O. It promises: a message is in one place only (a buffer, or the batch of one poll); a batch
//! that its poll does not take goes back; polls are served in the order of their arrival, and what is there is spread over
//! those that wait. Between two calls either nobody waits for a callback, or nothing of it is ready.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, oneshot};

use super::{
    PollRequest, Refusal,
    buffer::{Buffer, Item, Origin},
};
use crate::{
    limits,
    model::time::Millis,
    time_source::{Moment, TimeSource},
};

/// The number of a poll: its place in line.
pub(super) type Place = u64;

/// A callback that needs a feed, and what wakes that.
pub(super) type Made = (String, Arc<Notify>);

#[derive(Debug)]
struct Poll {
    worker: String,
    callbacks: Vec<String>,
    max: usize,
    sender: oneshot::Sender<Vec<Item>>,
}

/// What is known of a callback that is polled.
#[derive(Debug)]
struct Feed {
    buffer: Buffer,
    /// Polls that wait for it.
    line: BTreeSet<Place>,
    /// How many messages these would take.
    wanted: usize,
    /// Messages that are out for a claim.
    out: usize,
    /// To be told to the consumer.
    handled: Vec<Origin>,
    /// Wakes the feed when something of the above has changed.
    signal: Arc<Notify>,
    polled: Moment,
    /// What it had buffered when that was counted last.
    counted: usize,
    /// Why nothing can be received at the moment.
    problem: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    polls: BTreeMap<Place, Poll>,
    /// Ordered, so that a stop wakes them in the same order in every simulated run.
    feeds: BTreeMap<String, Feed>,
    last: Place,
    /// Messages in all buffers, as last counted.
    buffered: usize,
    stopping: bool,
}

/// The meeting place.
#[derive(Debug)]
pub(super) struct Hub {
    state: Mutex<State>,
    time: TimeSource,
}

/// What a feed has to do next.
#[derive(Debug)]
pub(super) struct Needs {
    /// Receive so many messages.
    pub(super) room: usize,
    /// Mark these as handled.
    pub(super) handled: Vec<Origin>,
    /// Come back then.
    pub(super) next_due: Option<Millis>,
    /// Close: nobody needs it, and the hub has forgotten it.
    pub(super) close: bool,
    /// Receive nothing any more, and close once nothing is out.
    pub(super) stopping: bool,
}

/// A poll's place in line; leaving it gives everything back.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    hub: &'a Hub,
    pub(super) place: Place,
    receiver: oneshot::Receiver<Vec<Item>>,
}

impl Ticket<'_> {
    /// Waits for a batch; an empty one says that the node stops.
    pub(super) async fn batch(&mut self) -> Vec<Item> {
        (&mut self.receiver).await.unwrap_or_default()
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        if state.leave(self.place).is_none()
            && let Ok(items) = self.receiver.try_recv()
        {
            state.put_back(items, self.hub.time.now());
        }
        state.report();
    }
}

impl Hub {
    pub(super) fn new(time: TimeSource) -> Self {
        Self {
            state: Mutex::default(),
            time,
        }
    }

    /// Puts a poll in line, at its old place when it has one, and serves it with what is there; returns the callbacks
    /// that need a feed, too.
    ///
    /// # Errors
    /// Too many wait, or the node is stopping.
    pub(super) fn join(
        &self,
        place: Option<Place>,
        request: &PollRequest,
    ) -> Result<(Ticket<'_>, Vec<Made>), Refusal> {
        let mut state = self.lock();
        let made = state.admit(&request.callbacks, self.time.moment())?;
        let place = place.unwrap_or_else(|| {
            state.last += 1;
            state.last
        });
        let (sender, receiver) = oneshot::channel();
        let poll = Poll {
            worker: request.worker.clone(),
            callbacks: request.callbacks.clone(),
            max: request.max,
            sender,
        };
        state.wait(place, poll);
        state.serve_newcomer(place);
        state.report();
        let ticket = Ticket {
            hub: self,
            place,
            receiver,
        };
        Ok((ticket, made))
    }

    /// Adds what a feed has received.
    pub(super) fn arrived(&self, callback: &str, items: Vec<Item>) {
        let (mut state, now) = (self.lock(), self.time.now());
        if let Some(feed) = state.feeds.get_mut(callback) {
            feed.problem = None;
            for item in items {
                feed.buffer.add(item, now);
            }
        }
        state.serve(callback);
        state.report();
    }

    /// Notes why a feed cannot receive.
    pub(super) fn failed(&self, callback: &str, problem: String) {
        if let Some(feed) = self.lock().feeds.get_mut(callback) {
            feed.problem = Some(problem);
        }
    }

    /// Returns why one of these callbacks cannot be received.
    pub(super) fn problem(&self, callbacks: &[String]) -> Option<String> {
        let state = self.lock();
        let mut feeds = callbacks.iter().filter_map(|name| state.feeds.get(name));
        feeds.find_map(|feed| feed.problem.clone())
    }

    /// Takes back messages that were out.
    pub(super) fn put_back(&self, items: Vec<Item>) {
        let mut state = self.lock();
        state.put_back(items, self.time.now());
        state.report();
    }

    /// Notes messages that were out as handled.
    pub(super) fn handled(&self, items: Vec<Item>) {
        let mut state = self.lock();
        for item in items {
            if let Some(feed) = item
                .spec
                .callback()
                .and_then(|name| state.feeds.get_mut(name))
            {
                feed.out = feed.out.saturating_sub(1);
                feed.handled.push(item.origin);
                feed.signal.notify_one();
            }
        }
    }

    /// Says what a feed has to do next; when it is to close, the hub has forgotten it.
    pub(super) fn needs(&self, callback: &str) -> Needs {
        let (mut state, now) = (self.lock(), self.time.now());
        if let Some(feed) = state.feeds.get_mut(callback) {
            feed.buffer.promote(now);
        }
        state.serve(callback);
        let stopping = state.stopping;
        let Some(feed) = state.feeds.get_mut(callback) else {
            return Needs {
                room: 0,
                handled: Vec::new(),
                next_due: None,
                close: true,
                stopping,
            };
        };
        let idle = self.time.moment().since(feed.polled) >= limits::POLL_IDLE;
        let buffered = feed.buffer.len();
        let before = std::mem::replace(&mut feed.counted, buffered);
        let close = feed.out == 0 && (stopping || (idle && feed.line.is_empty()));
        // Nothing is ready while somebody waits; what is held back is bounded.
        let room = limits::POLL_TASKS_MAX.saturating_sub(feed.buffer.len());
        let needs = Needs {
            room: room.min(feed.wanted),
            handled: std::mem::take(&mut feed.handled),
            next_due: feed.buffer.next_due(),
            close,
            stopping,
        };
        state.buffered = state.buffered + buffered - before;
        if close {
            state.feeds.remove(callback);
            state.buffered -= buffered;
        }
        state.report();
        needs
    }

    /// Answers the polls of a worker that wait with nothing.
    pub(super) fn dismiss(&self, worker: &str) {
        let mut state = self.lock();
        state.dismiss(|_, poll| poll.worker == worker);
        state.report();
    }

    /// Forgets a feed that has failed, and answers with nothing who waits for it: the next poll makes it anew.
    pub(super) fn forget(&self, callback: &str) {
        let mut state = self.lock();
        if let Some(feed) = state.feeds.remove(callback) {
            state.buffered -= feed.counted;
            state.dismiss(|place, _| feed.line.contains(&place));
        }
        state.report();
    }

    /// Answers every poll that waits with nothing, and tells the feeds to close.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        state.dismiss(|_, _| true);
        for feed in state.feeds.values() {
            feed.signal.notify_one();
        }
        state.report();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes feeds of callbacks that have none; returns these.
    fn admit(&mut self, callbacks: &[String], now: Moment) -> Result<Vec<Made>, Refusal> {
        if self.stopping {
            return Err(Refusal::Stopping);
        }
        if self.polls.len() >= limits::POLLS_WAITING_MAX {
            let limit = limits::POLLS_WAITING_MAX;
            return Err(Refusal::TooMany(format!(
                "{limit} polls wait at this node, which is its limit"
            )));
        }
        let unknown = |name: &&String| !self.feeds.contains_key(*name);
        let new: Vec<String> = callbacks.iter().filter(unknown).cloned().collect();
        if self.feeds.len() + new.len() > limits::POLL_FEEDS_MAX {
            let limit = limits::POLL_FEEDS_MAX;
            return Err(Refusal::TooMany(format!(
                "{limit} callbacks are polled at this node, which is its limit"
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

    fn wait(&mut self, place: Place, poll: Poll) {
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
    fn leave(&mut self, place: Place) -> Option<Poll> {
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

    /// Serves a poll that has just come, from all its callbacks: nobody else waits for what is ready.
    fn serve_newcomer(&mut self, place: Place) {
        let Some(Poll { callbacks, max, .. }) = self.polls.get(&place) else {
            return;
        };
        let mut batch: Vec<Item> = Vec::new();
        // Each poll begins with another callback, so that none is always the last.
        let count = callbacks.len().max(1);
        let first = usize::try_from(place).unwrap_or(0) % count;
        for name in callbacks.iter().cycle().skip(first).take(count) {
            let bytes: usize = batch.iter().map(|item| item.bytes).sum();
            let left = limits::POLL_BYTES_MAX.saturating_sub(bytes);
            if left == 0 && !batch.is_empty() {
                break;
            }
            if let Some(feed) = self.feeds.get_mut(name) {
                batch.extend(feed.take(max - batch.len(), left));
            }
        }
        if !batch.is_empty() {
            self.hand(place, batch);
        }
    }

    /// Spreads what is ready over the polls that wait, the first first.
    fn serve(&mut self, callback: &str) {
        while let Some(feed) = self.feeds.get_mut(callback)
            && let Some(place) = feed.line.first().copied()
            && feed.buffer.ready() > 0
        {
            let share = feed.buffer.ready().div_ceil(feed.line.len());
            let max = self.polls.get(&place).map_or(1, |poll| poll.max);
            let batch = feed.take(share.min(max), limits::POLL_BYTES_MAX);
            self.hand(place, batch);
        }
    }

    fn hand(&mut self, place: Place, batch: Vec<Item>) {
        let refused = match self.leave(place) {
            Some(poll) => poll.sender.send(batch).err(),
            None => Some(batch),
        };
        // Its ticket leaves the line before its receiver is gone, so this does not happen; if it does, nothing is lost.
        for item in refused.into_iter().flatten() {
            if let Some(feed) = item
                .spec
                .callback()
                .and_then(|name| self.feeds.get_mut(name))
            {
                feed.out = feed.out.saturating_sub(1);
                feed.buffer.add(item, Millis(i64::MAX));
            }
        }
    }

    fn put_back(&mut self, items: Vec<Item>, now: Millis) {
        let mut touched = BTreeSet::new();
        for item in items {
            let Some(name) = item.spec.callback().map(str::to_owned) else {
                continue;
            };
            if let Some(feed) = self.feeds.get_mut(&name) {
                feed.out = feed.out.saturating_sub(1);
                feed.buffer.add(item, now);
                feed.signal.notify_one();
                touched.insert(name);
            }
        }
        for name in touched {
            self.serve(&name);
        }
    }

    /// Answers polls that wait with nothing.
    fn dismiss(&mut self, which: impl Fn(Place, &Poll) -> bool) {
        let chosen = self
            .polls
            .iter()
            .filter(|(place, poll)| which(**place, poll));
        let places: Vec<Place> = chosen.map(|(place, _)| *place).collect();
        for place in places {
            if let Some(poll) = self.leave(place) {
                // Who does not wait any more needs no answer.
                drop(poll.sender.send(Vec::new()));
            }
        }
    }

    fn report(&self) {
        metrics::gauge!("tickwheel_polls_waiting").set(self.polls.len() as f64);
        metrics::gauge!("tickwheel_poll_buffered_tasks").set(self.buffered as f64);
    }
}

impl Feed {
    fn new(signal: Arc<Notify>, polled: Moment) -> Self {
        Self {
            buffer: Buffer::default(),
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

    fn take(&mut self, max: usize, bytes_max: usize) -> Vec<Item> {
        let taken = self.buffer.take(max, bytes_max);
        self.out += taken.len();
        taken
    }
}
