//! The callbacks bring events of librdkafka to a consumer. This file also converts its records and offsets to
//! ours.
//!
//! The callbacks run inside a poll, on the thread that polls. So they only change the records in hand and
//! begin commits.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rdkafka::{
    TopicPartitionList,
    client::ClientContext,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _, Message as _},
    topic_partition_list::Offset,
};

use super::{
    in_hand::{InHand, Place},
    link::Link,
};
use crate::queue::Delivery;

/// The callbacks of librdkafka during a poll.
pub(super) struct Events {
    pub(super) link: Link,
    pub(super) in_hand: Arc<Mutex<InHand>>,
    /// The group has told which partitions are ours, even if there are none.
    joined: AtomicBool,
}

impl Events {
    /// Returns those of a client that has not joined its group yet.
    pub(super) fn new(group: &str, in_hand: Arc<Mutex<InHand>>) -> Self {
        Self {
            link: Link::new(group),
            in_hand,
            joined: false.into(),
        }
    }

    /// Tells whether the group has told which partitions are ours, even if there are none.
    pub(super) fn is_joined(&self) -> bool {
        self.joined.load(Ordering::Relaxed)
    }
}

impl ClientContext for Events {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.link.write_log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.link.note(&error, reason);
    }
}

impl ConsumerContext for Events {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(list) = rebalance else {
            return;
        };
        let places = places(list);
        let marks = lock(&self.in_hand).take_marks(Some(&places));
        lock(&self.in_hand).revoke(&places);
        // librdkafka waits for this commit before it gives the partitions up. After a lost membership it could only fail,
        // and waiting for it can keep a client from joining again.
        if !marks.is_empty()
            && !consumer.assignment_lost()
            && let Err(error) = consumer.commit(&to_list(&marks), CommitMode::Async)
        {
            tracing::debug!(%error, "cannot commit while giving partitions up");
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                tracing::info!(partitions = list.count(), "partitions assigned");
                self.joined.store(true, Ordering::Relaxed);
                if lock(&self.in_hand).paused
                    && let Err(error) = consumer.pause(list)
                {
                    tracing::debug!(%error, "cannot pause new partitions");
                }
            }
            Rebalance::Revoke(list) => {
                tracing::info!(partitions = list.count(), "partitions given up");
                self.joined.store(false, Ordering::Relaxed);
            }
            Rebalance::Error(error) => tracing::warn!(%error, "rebalance failed"),
        }
    }
}

pub(super) fn lock(in_hand: &Mutex<InHand>) -> MutexGuard<'_, InHand> {
    in_hand.lock()
}

fn places(list: &TopicPartitionList) -> Vec<Place> {
    list.elements()
        .iter()
        .map(|element| (element.topic().to_owned(), element.partition()))
        .collect()
}

pub(super) fn to_list(marks: &BTreeMap<Place, i64>) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(marks.len());
    for ((topic, partition), mark) in marks {
        if let Err(error) = list.add_partition_offset(topic, *partition, Offset::Offset(*mark)) {
            tracing::error!(topic, partition, mark, %error, "an offset cannot be committed");
        }
    }
    list
}

pub(super) fn to_delivery(message: &BorrowedMessage<'_>) -> Delivery {
    let copy = Bytes::copy_from_slice;
    let headers = || {
        let headers = message
            .headers()
            .into_iter()
            .flat_map(|headers| headers.iter());
        headers
            .map(|header| {
                (
                    header.key.to_owned().into(),
                    header.value.map_or_else(Bytes::new, copy),
                )
            })
            .collect()
    };
    Delivery {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(copy),
        value: message.payload().map_or_else(Bytes::new, copy),
        // The binding panics at a header name that is not UTF-8. A foreign record must not stop the
        // partition.
        headers: catch_unwind(AssertUnwindSafe(headers)).unwrap_or_default(),
    }
}
