//! The line lets concurrent calls of one client travel together, so that many callers see the rate of batches.
//!
//! A caller that finds no request under way sends its own, and waits for nothing. Calls that come while a request is under way
//! are the next request, in the order in which they came. Each caller has its own answer, and its own time limit for a server.
//! A caller that goes away takes its item out of the line, unless that is under way.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::oneshot};

use super::{Client, Error};

/// Items of one request.
const ITEMS_MAX: usize = 256;

/// Bytes of the items of one request; a larger item travels alone.
const BYTES_MAX: usize = 1024 * 1024;

/// A kind of call that travels together with others.
pub(super) trait Travels: Send + Sized + 'static {
    /// Returns the line of a client.
    fn line(client: &Client) -> &Arc<Batcher<Self>>;

    /// Sends one item, and returns its answer.
    fn send(client: &Client, item: Bytes) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Sends items together, and returns an answer for each.
    fn send_all(
        client: &Client,
        items: &[Bytes],
    ) -> impl Future<Output = Result<Vec<Result<Self, Error>>, Error>> + Send;
}

/// An item that waits for its request.
#[derive(Debug)]
struct Waiting<T> {
    item: Bytes,
    /// How long a server may take.
    limit: Duration,
    answer: oneshot::Sender<Result<T, Error>>,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<Waiting<T>>,
    /// A request is under way.
    is_sending: bool,
}

/// The items of one kind that wait at a client.
#[derive(Debug)]
pub(super) struct Batcher<T>(Mutex<State<T>>);

impl<T> Default for Batcher<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            waiting: VecDeque::new(),
            is_sending: false,
        }))
    }
}

/// The right to send. Dropped, it goes to those who wait.
struct Carrier<T: Travels> {
    client: Client,
    line: Arc<Batcher<T>>,
}

/// Sends an item, alone or together with others.
pub(super) async fn send<T: Travels>(client: &Client, item: Bytes) -> Result<T, Error> {
    let line = T::line(client);
    let answer = {
        let mut state = line.0.lock();
        if state.is_sending {
            let (answer, answered) = oneshot::channel();
            let limit = client.limit;
            state.waiting.push_back(Waiting {
                item: item.clone(),
                limit,
                answer,
            });
            Some(answered)
        } else {
            state.is_sending = true;
            None
        }
    };
    let Some(answered) = answer else {
        let _turn = Carrier {
            client: client.clone(),
            line: Arc::clone(line),
        };
        return T::send(client, item).await;
    };
    answered.await.unwrap_or_else(|_| Err(cut_off()))
}

impl<T: Travels> Carrier<T> {
    /// Sends what waits, request by request, until nothing does.
    async fn go_on(self) {
        while let Some(batch) = self.take() {
            let limit = batch.first().map_or(self.client.limit, |first| first.limit);
            let client = self.client.clone().call_limit(limit);
            let (items, answers): (Vec<Bytes>, Vec<_>) =
                batch.into_iter().map(|one| (one.item, one.answer)).unzip();
            for (answer, result) in answers.into_iter().zip(answers_of(&client, items).await) {
                // Its caller may be gone.
                drop(answer.send(result));
            }
        }
    }

    /// Takes the next request, of items with the same time limit. Returns none when nothing waits.
    fn take(&self) -> Option<Vec<Waiting<T>>> {
        let mut state = self.line.0.lock();
        state.waiting.retain(|one| !one.answer.is_closed());
        let limit = state.waiting.front()?.limit;
        let mut bytes = 0;
        let fits = |one: &&Waiting<T>| {
            bytes += one.item.len();
            one.limit == limit && bytes <= BYTES_MAX
        };
        let fitting = state.waiting.iter().take(ITEMS_MAX).take_while(fits);
        let count = fitting.count().max(1);
        Some(state.waiting.drain(..count).collect())
    }
}

impl<T: Travels> Drop for Carrier<T> {
    fn drop(&mut self) {
        let mut state = self.line.0.lock();
        state.waiting.retain(|one| !one.answer.is_closed());
        let runtime = Handle::try_current();
        match runtime {
            Ok(runtime) if !state.waiting.is_empty() => {
                let turn = Self {
                    client: self.client.clone(),
                    line: Arc::clone(&self.line),
                };
                runtime.spawn(turn.go_on());
            }
            // Without a runtime nobody can send: those who wait are told so.
            Ok(_) | Err(_) => {
                state.waiting.clear();
                state.is_sending = false;
            }
        }
    }
}

/// Sends a request, and returns an answer for each item. A request that is refused as a whole is sent item by item, so that only
/// the wrong ones are.
async fn answers_of<T: Travels>(client: &Client, items: Vec<Bytes>) -> Vec<Result<T, Error>> {
    if items.len() > 1 {
        match T::send_all(client, &items).await {
            Ok(answers) => return answers,
            Err(Error::Refused { problem }) if problem.status != 401 => {}
            Err(error) => return items.iter().map(|_| Err(error.clone())).collect(),
        }
    }
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        answers.push(T::send(client, item).await);
    }
    answers
}

/// Joins items as the one list of a request.
pub(super) fn list_of(name: &str, items: &[Bytes]) -> Bytes {
    let bytes: usize = items.iter().map(Bytes::len).sum();
    let mut body = Vec::with_capacity(bytes + items.len() + name.len() + 8);
    body.extend_from_slice(format!("{{\"{name}\":[").as_bytes());
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(item);
    }
    body.extend_from_slice(b"]}");
    body.into()
}

fn cut_off() -> Error {
    Error::Transport {
        server: "the server".to_owned(),
        reason: "the runtime that was sending the call has ended".to_owned(),
        sent: true,
    }
}
