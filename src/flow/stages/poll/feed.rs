//! A feed brings the messages of one callback to the hub: it is the task that owns the consumer of the
//! callback.
//!
//! It receives as many messages as the waiting polls would take, and no more. All others stay in the queue,
//! where another node can have them. It ends when no poll has come for [`limits::POLL_IDLE`], so that no
//! partition strands on a node without pollers, or when the node stops. A message is handled when its claim
//! is answered; a message without an answer comes again to others.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use super::{
    buffer::Item,
    hub::{Hub, Needs},
};
use crate::{
    limits,
    model::{task::Priority, time::Millis},
    queue::{
        Consumer, Delivery, Error, Subscriptions,
        message::{self, TaskMessage},
    },
    time_source::TimeSource,
};

/// How long one receive waits; what is to be done sooner wakes the feed.
const RECEIVE_WAIT: Duration = Duration::from_secs(5);

/// Time between two receives that only keep the membership alive.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Bytes of a task in an answer beside its payload.
const ENVELOPE_BYTES: usize = 512;

/// The feed of one callback.
pub(super) struct Feed {
    pub(super) callback: String,
    pub(super) hub: Arc<Hub>,
    pub(super) signal: Arc<Notify>,
    pub(super) subscriptions: Arc<dyn Subscriptions>,
    pub(super) time: TimeSource,
}

enum Event {
    /// Something has changed, or the time has come: look again.
    Look,
    Received(Result<Vec<Delivery>, Error>),
}

impl Feed {
    /// Feeds until nobody polls, or the node stops.
    pub(super) async fn run(self) {
        let Some(mut consumer) = self.subscribe().await else {
            return;
        };
        loop {
            let needs = self.hub.needs(&self.callback);
            if !needs.handled.is_empty() {
                consumer.handled(&needs.handled);
            }
            if needs.close {
                break;
            }
            if needs.stopping {
                // Claims are under way: each gives notice when it is answered.
                self.signal.notified().await;
                continue;
            }
            match self.next(&mut *consumer, &needs).await {
                Event::Look => {}
                Event::Received(Ok(deliveries)) => self.received(deliveries, &mut *consumer),
                Event::Received(Err(error)) => self.failed(&error).await,
            }
        }
        consumer.close().await;
        tracing::debug!(callback = self.callback, "feed closed");
    }

    /// Makes the consumer, and retries until it has one; none when the consumer is not needed any more.
    async fn subscribe(&self) -> Option<Box<dyn Consumer>> {
        let topics = Priority::ALL.map(|priority| message::topic(&self.callback, priority));
        let group = message::group(&self.callback);
        let missing = if self.time.is_by_hand() {
            limits::WALK_TOPIC_MISSING
        } else {
            limits::TOPIC_MISSING
        };
        loop {
            let needs = self.hub.needs(&self.callback);
            if needs.close {
                return None;
            }
            // A callback without topics has had no task yet. Its first one is seen this much later.
            match self.subscriptions.has_any(&topics).await {
                Ok(true) => {}
                Ok(false) => {
                    self.time.sleep(missing).await;
                    continue;
                }
                // A queue that is away is waited for, as a member of its group waits: a poll hears of nothing meanwhile.
                Err(error) => {
                    tracing::debug!(callback = self.callback, %error, "cannot look topics up yet");
                    self.time.sleep(missing).await;
                    continue;
                }
            }
            match self.subscriptions.subscribe(&group, &topics).await {
                Ok(consumer) => return Some(consumer),
                Err(error) => self.failed(&error).await,
            }
        }
    }

    async fn next(&self, consumer: &mut dyn Consumer, needs: &Needs) -> Event {
        let due = async {
            match needs.next_due {
                Some(due) => self.time.sleep_until_wall(due).await,
                None => std::future::pending().await,
            }
        };
        let gathered = async {
            match needs.gathered {
                Some(moment) => self.time.sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        let wait = if needs.room > 0 {
            RECEIVE_WAIT
        } else {
            KEEP_ALIVE
        };
        tokio::select! {
            biased;
            () = self.signal.notified() => Event::Look,
            () = due => Event::Look,
            () = gathered => Event::Look,
            // Cancel-safe: what it had is returned by the next call.
            received = consumer.receive(needs.room, wait) => Event::Received(received),
        }
    }

    fn received(&self, deliveries: Vec<Delivery>, consumer: &mut dyn Consumer) {
        let mut items = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let read = TaskMessage::read(&delivery);
            let origin = (delivery.topic, delivery.partition, delivery.offset);
            match read {
                Ok(message) if message.spec.queue() == Some(&self.callback) => {
                    items.push(item(origin, message));
                }
                other => {
                    let reason = match other {
                        Ok(message) => format!("it is of queue {:?}", message.spec.queue()),
                        Err(error) => error.to_string(),
                    };
                    let (topic, partition, offset) = &origin;
                    let callback = self.callback.clone();
                    tracing::error!(
                        topic,
                        partition,
                        offset,
                        reason,
                        "skipped a message that is not a task"
                    );
                    metrics::counter!("tickwheel_worker_undecodable_total", "callback" => callback)
                        .increment(1);
                    consumer.handled(&[origin]);
                }
            }
        }
        self.hub.arrived(&self.callback, items);
    }

    async fn failed(&self, error: &Error) {
        tracing::warn!(callback = self.callback, %error, "cannot receive: trying again");
        self.hub.failed(&self.callback, error.to_string());
        self.time.sleep(limits::POLL_PAUSE).await;
    }
}

fn item(origin: (String, i32, i64), message: TaskMessage) -> Item {
    let left = message.spec.bytes_apart().unwrap_or(0);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let payload = message
        .spec
        .content()
        .map_or(left, |content| content.payload.len());
    // As JSON or base64, at worst a third more.
    let payload = payload / 3 * 4;
    Item {
        origin: Some(origin),
        dispatch: message.dispatch,
        published: message.published,
        not_before: message.dispatch.start.max(Millis(0)),
        bytes: ENVELOPE_BYTES + payload,
        spec: Arc::new(message.spec),
        permit: None,
    }
}
