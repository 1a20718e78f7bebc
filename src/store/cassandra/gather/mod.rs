//! The gatherer joins requests of callers who know nothing of each other, to spare work for the servers.
//!
//! A request costs a server several times as much as a row in it. Registrations sent one by one would keep it
//! busy with little else. No caller waits to fill a request: the first few to the same servers leave as they
//! come. Items that come while those are under way form the next one, which leaves when one of them is
//! answered, or at once when it is full. A caller who is alone does not wait, and one among many waits for
//! one answer at most. If that does not come soon, because the server that was asked hangs, the request is
//! overtaken.
//!
//! Items that share a request share its fate. Only items for the same servers are sent together, so a server
//! that is away fails only those that it would have failed anyway. If a request is refused for an item in it,
//! the carrier takes it apart.
//!
//! A sent item goes on when its caller gives up: the request may carry items of others as well. An item that
//! still waits then is not sent.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::link::Replicas;
use crate::{
    limits::{BATCH_BYTES_MAX, BATCH_PARTITIONS_MAX, BATCH_ROWS_MAX, GATHERED_WAIT_MAX},
    time_source::TimeSource,
};

/// How much a request carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) partitions: usize,
}

impl Load {
    pub(super) const fn with(self, more: Self) -> Self {
        Self {
            rows: self.rows + more.rows,
            bytes: self.bytes + more.bytes,
            partitions: self.partitions + more.partitions,
        }
    }

    const fn without(self, less: Self) -> Self {
        Self {
            rows: self.rows - less.rows,
            bytes: self.bytes - less.bytes,
            partitions: self.partitions - less.partitions,
        }
    }

    /// Tells whether one request may carry this load.
    pub(super) const fn fits(self) -> bool {
        self.rows <= BATCH_ROWS_MAX
            && self.bytes <= BATCH_BYTES_MAX
            && self.partitions <= BATCH_PARTITIONS_MAX
    }

    /// Tells whether a request with this load has room for no more.
    const fn is_full(self) -> bool {
        self.rows >= BATCH_ROWS_MAX
            || self.bytes >= BATCH_BYTES_MAX
            || self.partitions >= BATCH_PARTITIONS_MAX
    }
}

/// Sends requests.
#[async_trait]
pub(super) trait Carrier: Send + Sync + 'static {
    type Item: Send + 'static;
    type Answer: Send + 'static;

    /// Sends items in one request; one answer each, in order.
    async fn carry(&self, items: Vec<Self::Item>) -> Vec<Self::Answer>;
}

/// An item that waits for its request, and the channel to the caller that waits for its answer.
struct Waiting<C: Carrier> {
    item: C::Item,
    load: Load,
    answer: oneshot::Sender<C::Answer>,
}

/// The items on their way to the same servers.
struct Home<C: Carrier> {
    /// Requests under way.
    lanes: usize,
    waiting: VecDeque<Waiting<C>>,
    load: Load,
}

impl<C: Carrier> Home<C> {
    const fn new() -> Self {
        Self {
            lanes: 0,
            waiting: VecDeque::new(),
            load: Load {
                rows: 0,
                bytes: 0,
                partitions: 0,
            },
        }
    }

    /// Takes the items of one request: at least one, unless no caller waits any more.
    fn take(&mut self) -> Vec<Waiting<C>> {
        let (mut taken, mut load) = (Vec::new(), Load::default());
        while let Some(first) = self.waiting.front() {
            let more = load.with(first.load);
            let is_wanted = !first.answer.is_closed();
            if is_wanted && !taken.is_empty() && !more.fits() {
                break;
            }
            let Some(first) = self.waiting.pop_front() else {
                break;
            };
            self.load = self.load.without(first.load);
            if is_wanted {
                load = more;
                taken.push(first);
            }
        }
        taken
    }

    /// Opens a lane for the waiting items; none when no caller waits.
    fn open(&mut self) -> Option<Vec<Waiting<C>>> {
        let request = self.take();
        if request.is_empty() {
            return None;
        }
        self.lanes += 1;
        Some(request)
    }

    /// Tells whether the waiting items should leave although so many requests are under way.
    const fn is_ready(&self, under_way: usize, at_once: usize) -> bool {
        under_way < at_once || self.load.is_full() || !self.load.fits()
    }
}

/// Gathers the items for one carrier.
pub(super) struct Gather<C: Carrier> {
    pub(super) carrier: C,
    /// Requests to the same servers that leave as they come, at most.
    at_once: usize,
    time: TimeSource,
    homes: Mutex<HashMap<Replicas, Home<C>>>,
}

impl<C: Carrier> Gather<C> {
    pub(super) fn new(carrier: C, at_once: usize, time: TimeSource) -> Arc<Self> {
        Arc::new(Self {
            carrier,
            at_once,
            time,
            homes: Mutex::default(),
        })
    }

    /// Sends an item to the servers that are its home, and returns its answer; none when the node ended
    /// before it came.
    ///
    /// An item is sent after the call has begun. Dropping the future does not take back an item that was
    /// sent.
    pub(super) async fn ask(
        self: &Arc<Self>,
        home: Replicas,
        item: C::Item,
        load: Load,
    ) -> Option<C::Answer> {
        let (answer, mut answered) = oneshot::channel();
        self.enter(&home, Waiting { item, load, answer });
        loop {
            let wait = self.time.within(GATHERED_WAIT_MAX, &mut answered);
            match wait.await {
                Some(answer) => return answer.ok(),
                None => self.overtake(&home),
            }
        }
    }

    fn enter(self: &Arc<Self>, key: &Replicas, waiting: Waiting<C>) {
        let mut requests = Vec::new();
        {
            let mut homes = self.lock();
            let home = homes.entry(key.clone()).or_insert_with(Home::new);
            home.load = home.load.with(waiting.load);
            home.waiting.push_back(waiting);
            while home.is_ready(home.lanes, self.at_once) {
                let Some(request) = home.open() else { break };
                requests.push(request);
            }
        }
        self.send(key, requests);
    }

    /// Sends the waiting items although no answer has come: the server that was asked may hang, and others
    /// have the same rows.
    fn overtake(self: &Arc<Self>, key: &Replicas) {
        let request = self.lock().get_mut(key).and_then(Home::open);
        self.send(key, request);
    }

    /// Starts lanes. Not under the lock: a node that ends drops them at once, and that drop takes the lock.
    fn send(self: &Arc<Self>, key: &Replicas, requests: impl IntoIterator<Item = Vec<Waiting<C>>>) {
        for request in requests {
            let lane = Lane {
                gather: Arc::clone(self),
                key: key.clone(),
                ended: false,
            };
            tokio::spawn(lane.run(request));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Replicas, Home<C>>> {
        self.homes.lock()
    }
}

/// Sends one request after the other to the same servers.
struct Lane<C: Carrier> {
    gather: Arc<Gather<C>>,
    key: Replicas,
    ended: bool,
}

impl<C: Carrier> Lane<C> {
    async fn run(mut self, mut request: Vec<Waiting<C>>) {
        while !request.is_empty() {
            let mut asked = Vec::with_capacity(request.len());
            let mut items = Vec::with_capacity(request.len());
            for waiting in request {
                items.push(waiting.item);
                asked.push(waiting.answer);
            }
            let answers = self.gather.carrier.carry(items).await;
            for (asked, answer) in asked.into_iter().zip(answers) {
                // A caller that has gone away needs no answer.
                drop(asked.send(answer));
            }
            request = self.next();
        }
    }

    /// Takes the next request, or ends the lane, under one lock, so that no caller waits for a lane that will
    /// not come back.
    fn next(&mut self) -> Vec<Waiting<C>> {
        let mut homes = self.gather.lock();
        let Some(home) = homes.get_mut(&self.key) else {
            return Vec::new();
        };
        // A lane that was opened for a full request ends with it, unless there is another full one.
        if home.is_ready(home.lanes - 1, self.gather.at_once) {
            let request = home.take();
            if !request.is_empty() {
                return request;
            }
        }
        home.lanes -= 1;
        if home.lanes == 0 {
            homes.remove(&self.key);
        }
        self.ended = true;
        Vec::new()
    }
}

/// Ends a lane in the middle of a request, by a panic or with the node. It would hold back all callers behind
/// it for ever.
impl<C: Carrier> Drop for Lane<C> {
    fn drop(&mut self) {
        let mut homes = self.gather.lock();
        let Some(home) = homes.get_mut(&self.key).filter(|_| !self.ended) else {
            return;
        };
        home.lanes -= 1;
        if home.lanes == 0 {
            // The waiting callers would wait for ever, so they are told that there is no answer.
            homes.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
