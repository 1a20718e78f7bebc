//! The hub brings waiting polls and the messages of feeds together.
//!
//! It has one lock, no waiting and no I/O. It promises: a message is in one place only (a buffer, or the
//! batch of one poll); a batch that its poll does not take goes back; polls are served in the order of their
//! arrival; and ready messages are spread over the waiting polls. Between two calls either no poll waits for
//! a callback, or no message of it is ready, or the first poll in line gathers for a moment. This pause keeps
//! one callback in a flood from crowding out others of the same poll.

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{
    PollRequest, Refusal,
    buffer::{Item, Origin},
    line::{Made, Place, Poll, State},
};
use crate::{
    flow::features::limit::limiter::Limiter,
    limits,
    model::time::Millis,
    time_source::{Moment, TimeSource},
};

/// The meeting place.
#[derive(Debug)]
pub(super) struct Hub {
    state: Mutex<State>,
    /// Callbacks that may be polled.
    feeds_max: usize,
    time: TimeSource,
}

/// The next steps of a feed.
#[derive(Debug)]
pub(super) struct Needs {
    /// Receive so many messages.
    pub(super) room: usize,
    /// Mark these as handled.
    pub(super) handled: Vec<Origin>,
    /// Come back then.
    pub(super) next_due: Option<Millis>,
    /// Come back then, by the monotonic clock.
    pub(super) gathered: Option<Moment>,
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
            state.put_back(items, self.hub.time.now(), self.hub.time.moment());
        }
        state.report();
    }
}

impl Hub {
    pub(super) fn new(feeds_max: usize, time: TimeSource, limiter: Limiter) -> Self {
        Self {
            state: Mutex::new(State::new(limiter)),
            feeds_max,
            time,
        }
    }

    /// Puts a poll in line, at its old place when it has one, and serves it with what is there. Also returns
    /// the callbacks that need a feed.
    ///
    /// # Errors
    /// Too many wait, or the node is stopping.
    pub(super) fn join(
        &self,
        place: Option<Place>,
        request: &PollRequest,
    ) -> Result<(Ticket<'_>, Vec<Made>), Refusal> {
        let mut state = self.lock();
        let newcomer = place.is_none();
        let now = self.time.moment();
        let made = state.admit(&request.callbacks, newcomer, self.feeds_max, now)?;
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
            gathers_until: None,
        };
        state.wait(place, poll);
        // No other poll waits for the ready messages.
        state.serve_from_all(place);
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
        state.receive(callback, items, now);
        if state.serve(callback, self.time.moment()).is_some()
            && let Some(feed) = state.feeds.get(callback)
        {
            feed.signal.notify_one();
        }
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
        state.put_back(items, self.time.now(), self.time.moment());
        state.report();
    }

    /// Notes messages that were out as handled.
    pub(super) fn handled(&self, items: Vec<Item>) {
        let mut state = self.lock();
        for item in items {
            if let Some(feed) = item.spec.queue().and_then(|name| state.feeds.get_mut(name)) {
                feed.out = feed.out.saturating_sub(1);
                feed.handled.extend(item.origin);
                feed.signal.notify_one();
            }
        }
    }

    /// Says what a feed has to do next; when it is to close, the hub has forgotten it.
    pub(super) fn needs(&self, callback: &str) -> Needs {
        let (mut state, now) = (self.lock(), self.time.now());
        if let Some(feed) = state.feeds.get_mut(callback) {
            feed.buffer.promote(now);
            feed.apart.promote(now);
        }
        let moment = self.time.moment();
        let gathered = state.serve(callback, moment);
        let stopping = state.stopping;
        let Some(feed) = state.feeds.get_mut(callback) else {
            return Needs {
                room: 0,
                handled: Vec::new(),
                next_due: None,
                gathered: None,
                close: true,
                stopping,
            };
        };
        let idle = moment.since(feed.polled) >= limits::POLL_IDLE;
        let held = feed.buffer.waiting();
        let buffered = held + feed.apart.waiting();
        let before = std::mem::replace(&mut feed.counted, buffered);
        let close = feed.out == 0 && (stopping || (idle && feed.line.is_empty()));
        // Ready messages are for waiting polls; held messages are bounded.
        let room = limits::POLL_TASKS_MAX.saturating_sub(held);
        // Polls that were served from those apart are gone before anything else is received.
        let least = match feed.apart.ready() {
            0 => 0,
            _ => limits::POLL_BESIDE_APART,
        };
        let wanted = feed.wanted.max(least);
        let needs = Needs {
            room: room.min(wanted.saturating_sub(feed.buffer.ready())),
            handled: std::mem::take(&mut feed.handled),
            next_due: [feed.buffer.next_due(), feed.apart.next_due()]
                .into_iter()
                .flatten()
                .min(),
            gathered,
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

    /// Answers the polls of a worker that wait with nothing, of those whose callbacks are all covered.
    pub(super) fn dismiss(&self, worker: &str, covers: impl Fn(&str) -> bool) {
        let mut state = self.lock();
        let is_covered = |poll: &Poll| poll.callbacks.iter().all(|callback| covers(callback));
        state.dismiss(|_, poll| poll.worker == worker && is_covered(poll));
        state.report();
    }

    /// Tells whether a poll waits for a callback.
    pub(super) fn is_polled(&self, callback: &str) -> bool {
        let state = self.lock();
        let feed = state.feeds.get(callback);
        feed.is_some_and(|feed| !feed.line.is_empty())
    }

    /// Tells whether messages are out for claims.
    pub(super) fn is_claiming(&self) -> bool {
        self.lock().feeds.values().any(|feed| feed.out > 0)
    }

    /// Returns when the first held message may be claimed.
    pub(super) fn next_held(&self) -> Option<Millis> {
        let state = self.lock();
        let held = state.feeds.values();
        let held = held.flat_map(|feed| [feed.buffer.next_due(), feed.apart.next_due()]);
        held.flatten().min()
    }

    /// Forgets a feed that has failed, and answers the polls that wait for it with nothing: the next poll makes it anew.
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
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        doubles::{
            queue::memory::{Keep, MemoryQueue},
            store::memory::MemoryStore,
        },
        flow::{
            base::{context::Context, records::callbacks::Callbacks},
            features::limit::deadlines::Deadlines,
        },
        model::{clock::Rules, ids::NodeId, time::TickLength, wheel::Shape},
    };

    fn hub(feeds_max: usize) -> Hub {
        let time = TimeSource::simulated(Millis(0), 1);
        Hub::new(feeds_max, time.clone(), limiter(&time))
    }

    /// A limiter without callbacks that have limits.
    fn limiter(time: &TimeSource) -> Limiter {
        let tick = TickLength::new(Duration::from_secs(1)).unwrap();
        let shape = Shape::new(1, tick, 60).unwrap();
        let ctx = Arc::new(Context::new(
            NodeId::NOBODY,
            MemoryStore::new(shape, time.clone()),
            Arc::new(MemoryQueue::new(time.clone(), 1, Keep::Everything).handle()),
            time.clone(),
            Rules {
                shape,
                look_ahead: 2,
                lease: Duration::from_secs(5),
                grace: Duration::from_secs(3),
                skew_max: Duration::from_secs(1),
                stall_max: Duration::from_secs(5),
            },
        ));
        let (callbacks, watch) = (Callbacks::new(Arc::clone(&ctx)), Deadlines::new(&ctx));
        Limiter::new(ctx, callbacks, watch)
    }

    fn poll(callbacks: impl IntoIterator<Item = String>) -> PollRequest {
        PollRequest {
            worker: "w".to_owned(),
            callbacks: callbacks.into_iter().collect(),
            max: 1,
            wait: Duration::ZERO,
            version: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_brings_many_callbacks_leaves_room_for_who_brings_one() {
        let hub = hub(1000);
        let mut waiting = Vec::new();
        let mut refused = None;
        for round in 0..20 {
            let names = (0..100).map(|number| format!("made-up-{round}-{number}"));
            match hub.join(None, &poll(names)) {
                Ok((ticket, made)) => {
                    assert_eq!(made.len(), 100);
                    waiting.push(ticket);
                }
                Err(refusal) => refused = Some(refusal.to_string()),
            }
        }
        let refused = refused.expect("some are refused");
        assert!(
            refused.contains("poll_feeds_max") && refused.contains("1000"),
            "{refused}"
        );
        for number in 0..50 {
            let one = hub.join(None, &poll([format!("own-{number}")]));
            waiting.push(one.expect("there is room for another").0);
        }
        // A callback that is polled already needs no room.
        let known = (0..100).map(|number| format!("made-up-0-{number}"));
        assert!(hub.join(None, &poll(known)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_waited_is_not_sent_away_when_it_is_crowded() {
        let hub = hub(10);
        let request = poll(["work".to_owned()]);
        let (first, _) = hub.join(None, &request).unwrap();
        let place = first.place;
        let mut crowd = Vec::new();
        let refused = loop {
            match hub.join(None, &request) {
                Ok((ticket, _)) => crowd.push(ticket),
                Err(refusal) => break refusal,
            }
        };
        assert!(matches!(refused, Refusal::TooMany(_)), "{refused}");
        // It had a batch whose claim failed, and comes back; others came for its place meanwhile.
        drop(first);
        crowd.push(hub.join(None, &request).unwrap().0);
        assert!(hub.join(None, &request).is_err());
        let (again, _) = hub.join(Some(place), &request).unwrap();
        assert_eq!(again.place, place);
    }
}
