//! `Bench` gives tests a worker, a queue in memory and a scripted service, in virtual time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::script::Script;

use tickwheel::{
    api::worker::SettleItem,
    doubles::queue::memory::{Keep, MemoryQueue},
    model::{
        backoff::Backoff,
        dispatch::Dispatch,
        ids::TaskId,
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::Millis,
        wheel::WheelNumber,
    },
    queue::{
        Consumer as _, Publisher as _, Record,
        message::{TaskMessage, TimeTexts, group, topic},
    },
    time_source::TimeSource,
    worker::{Builder, Error, Source, Worker},
};

pub(super) const EPOCH: Millis = Millis(1_800_000_000_000);

pub(super) struct Bench {
    pub(super) time: TimeSource,
    pub(super) queue: MemoryQueue,
    pub(super) script: Arc<Script>,
    stop: CancellationToken,
}

impl Bench {
    pub(super) fn new() -> Self {
        let time = TimeSource::simulated(EPOCH, 7);
        let queue = MemoryQueue::new(time.clone(), 2, Keep::Everything);
        for topic in topics() {
            queue.create_topic(&topic, None);
        }
        Self {
            script: Script::new(&time),
            queue,
            time,
            stop: CancellationToken::new(),
        }
    }

    pub(super) fn builder(&self) -> Builder {
        let consumer = self.queue.consumer(&group("c"), &topics());
        Worker::builder()
            .source(Source::consumers(vec![(
                "c".to_owned(),
                Box::new(consumer),
            )]))
            .calls(self.script.clone())
            .time(self.time.clone())
    }

    pub(super) fn run(&self, builder: Builder) -> JoinHandle<Result<(), Error>> {
        let worker = builder.build().expect("the worker is complete");
        tokio::spawn(worker.run_until(self.stop.clone().cancelled_owned()))
    }

    pub(super) async fn end(&self, worker: JoinHandle<Result<(), Error>>) {
        self.stop.cancel();
        worker.await.expect("no panic").expect("a graceful end");
    }

    pub(super) async fn publish(&self, number: u64, start: Millis, payload: &str) -> String {
        let message = message(number, start, payload);
        let id = message.dispatch.id.to_string();
        self.publish_record(
            message
                .outgoing()
                .unwrap()
                .to_record("c", &mut TimeTexts::default()),
        )
        .await;
        id
    }

    pub(super) async fn publish_record(&self, record: Record) {
        let results = self.queue.handle().publish(vec![record]).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// Counts the messages that a new member of the group gets, which were not handled.
    pub(super) async fn unhandled(&self) -> usize {
        let mut consumer = self.queue.consumer(&group("c"), &topics());
        let received = consumer.receive(100, Duration::from_secs(1)).await;
        received.expect("the queue answers").len()
    }

    pub(super) fn settled(&self) -> Vec<SettleItem> {
        self.script.state().settled.clone()
    }
}

pub(super) fn topics() -> [String; 3] {
    Priority::ALL.map(|priority| topic("c", priority))
}

pub(super) fn message(number: u64, start: Millis, payload: &str) -> TaskMessage {
    let id = TaskId::new(start, WheelNumber::from_low_bits(number as u16), number);
    TaskMessage {
        dispatch: Dispatch::first(id, start),
        published: start,
        spec: Spec {
            indexed: Vec::new(),
            target: Target::Callback {
                name: "c".to_owned(),
            },
            collection: String::new(),
            priority: Priority::Normal,
            max_attempts: 5,
            backoff: Backoff::QUICK,
            claim_timeout: Duration::from_secs(60),
            heartbeat_timeout: Duration::from_secs(30),
            attempt_timeout: None,
            ordering_key: None,
            dead_retention: None,
            expire_after: None,
            retention: Duration::from_secs(3600),
            create_time: start,
            asked_start: None,
            scheduled: None,
            key: None,
            notify: None,
            actions: None,
            kin: None,
            after: None,
            then: Vec::new(),
            body: Body::Inline(Content {
                payload: Bytes::copy_from_slice(payload.as_bytes()),
                content_type: "application/json".to_owned(),
                ..Content::default()
            }),
        },
    }
}
