//! The consumer of the embedded queue receives records for one member of a group.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::topic::{Member, Topic};
use crate::{
    queue::{Consumer, Delivery, Error, weighted_round_robin::WeightedRoundRobin},
    time_source::TimeSource,
};

/// A member of a consumer group; it leaves when it is closed or dropped. Topics named first are the more urgent ones.
#[derive(Debug)]
pub struct EmbeddedConsumer {
    time: TimeSource,
    group: String,
    member: Member,
    /// Each topic with the partition that was served last.
    topics: Vec<(Arc<Topic>, usize)>,
    turns: WeightedRoundRobin,
    wakes: Arc<Notify>,
    closed: bool,
}

impl EmbeddedConsumer {
    pub(super) fn join(
        time: TimeSource,
        group: &str,
        member: Member,
        topics: Vec<Arc<Topic>>,
    ) -> Self {
        let wakes = Arc::new(Notify::new());
        for topic in &topics {
            topic.join(group, member, &wakes);
        }
        Self {
            time,
            group: group.to_owned(),
            member,
            turns: WeightedRoundRobin::new(topics.len()),
            topics: topics.into_iter().map(|topic| (topic, 0)).collect(),
            wakes,
            closed: false,
        }
    }

    /// Takes the records that are there, without waiting.
    fn take(&mut self, max: usize) -> Vec<Delivery> {
        let (group, member) = (&self.group, self.member);
        loop {
            let ready: Vec<usize> = self
                .topics
                .iter()
                .map(|(topic, _)| topic.ready(group, member))
                .collect();
            let granted = self.turns.grant(&ready, max);
            let mut taken = Vec::new();
            for ((topic, last), count) in self.topics.iter_mut().zip(&granted) {
                if *count > 0 {
                    taken.extend(topic.take(group, member, *count, last));
                }
            }
            // Others may have handled all that was ready. It is passed over then, and the next records are
            // looked at.
            if !taken.is_empty() || granted.iter().all(|count| *count == 0) {
                return taken;
            }
        }
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            for (topic, _) in &self.topics {
                topic.leave(&self.group, self.member);
            }
        }
    }
}

#[async_trait]
impl Consumer for EmbeddedConsumer {
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, Error> {
        if max == 0 {
            // In one process there is no membership to keep alive.
            self.time.sleep(wait).await;
            return Ok(Vec::new());
        }
        let until = self.time.moment().after(wait);
        loop {
            // Between taking and returning there is no point at which this call could be cancelled.
            let taken = self.take(max);
            if !taken.is_empty() {
                return Ok(taken);
            }
            let left = until.since(self.time.moment());
            let woken = self.time.within(left, self.wakes.notified()).await;
            if woken.is_none() {
                return Ok(Vec::new());
            }
        }
    }

    fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        for (topic, _) in &self.topics {
            let own = deliveries.iter().filter(|(name, ..)| name == topic.name());
            let mut own = own
                .map(|(_, partition, offset)| (*partition, *offset))
                .peekable();
            if own.peek().is_some() {
                topic.handled(&self.group, self.member, own);
            }
        }
    }

    async fn close(&mut self) {
        self.leave();
    }
}

impl Drop for EmbeddedConsumer {
    fn drop(&mut self) {
        self.leave();
    }
}
