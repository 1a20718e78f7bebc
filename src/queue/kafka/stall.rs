//! The stall detector finds for a consumer the partitions that librdkafka has stopped fetching.
//!
//! After a moment in which a partition has no leader, librdkafka can lose it for good without any error
//! (librdkafka#5430, seen with 2.12.1; #5593 is another way there). The records lie at the broker and no
//! consumer gets them. So every few seconds a consumer is compared with the ends of its partitions. A
//! partition that is behind twice at the same offset is stuck if everything that was fetched has been taken
//! in between. A new client gets it going. One client is tried for an offset: where the log ends in something
//! that is no record, it would never help.

use std::collections::BTreeMap;

use rdkafka::{
    TopicPartitionList,
    consumer::{Consumer, ConsumerContext, StreamConsumer},
    error::KafkaResult,
    topic_partition_list::Offset,
};

use super::{Limit, QUESTION_TOPIC, in_hand::Place};

/// The offset that is expected next and the end, for each partition.
pub(super) type Found = BTreeMap<Place, (i64, i64)>;

/// The memory between two comparisons.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Partitions that were behind at the last comparison, and their offsets.
    behind: BTreeMap<Place, i64>,
    /// The offsets at which a new client was tried.
    tried: BTreeMap<Place, i64>,
}

impl Stalls {
    /// Notes a comparison. Returns a partition that is stuck.
    ///
    /// `drained` tells whether everything fetched was taken since the last comparison; otherwise the consumer is merely
    /// slow.
    pub(super) fn compare(&mut self, found: &Found, drained: bool) -> Option<Place> {
        let behind: BTreeMap<Place, i64> = found
            .iter()
            .filter(|(_, (next, end))| next < end)
            .map(|(place, (next, _))| (place.clone(), *next))
            .collect();
        let before = std::mem::replace(&mut self.behind, behind);
        let stuck = self.behind.iter().find(|(place, next)| {
            drained && before.get(*place) == Some(next) && self.tried.get(*place) != Some(next)
        });
        let (place, next) = stuck.map(|(place, next)| (place.clone(), *next))?;
        self.tried.insert(place.clone(), next);
        self.behind.clear();
        Some(place)
    }
}

/// Asks for the ends of the assigned partitions. Where nothing was received yet, also asks where reading
/// begins. Blocks.
pub(super) fn ask<C: ConsumerContext + 'static>(
    client: &StreamConsumer<C>,
    positions: &BTreeMap<Place, i64>,
    limit: &Limit,
) -> KafkaResult<Found> {
    let assigned = client.assignment()?;
    if assigned.count() == 0 {
        // It is worth knowing, too, whether the brokers answer at all.
        client.fetch_metadata(Some(QUESTION_TOPIC), limit.left())?;
        return Ok(Found::new());
    }
    // In such a question these two offsets stand for the timestamps "latest" and "earliest".
    let ends = client.offsets_for_times(all(&assigned, Offset::End)?, limit.left())?;
    let begins = client.offsets_for_times(all(&assigned, Offset::Beginning)?, limit.left());
    let begins = begins.map(|list| list.to_topic_map()).unwrap_or_default();
    let committed = client
        .committed_offsets(assigned, limit.left())?
        .to_topic_map();
    let mut found = Found::new();
    for (place, end) in ends.to_topic_map() {
        let next = [positions.get(&place).copied()]
            .into_iter()
            .chain([&committed, &begins].map(|known| known.get(&place).copied().and_then(number)))
            .flatten()
            .next();
        if let (Some(next), Some(end)) = (next, number(end)) {
            found.insert(place, (next, end));
        }
    }
    Ok(found)
}

fn all(assigned: &TopicPartitionList, offset: Offset) -> KafkaResult<TopicPartitionList> {
    let mut question = TopicPartitionList::with_capacity(assigned.count());
    for element in assigned.elements() {
        question.add_partition_offset(element.topic(), element.partition(), offset)?;
    }
    Ok(question)
}

const fn number(offset: Offset) -> Option<i64> {
    match offset {
        Offset::Offset(number) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(next: i64, end: i64) -> Found {
        Found::from([(("t".to_owned(), 0), (next, end))])
    }

    #[test]
    fn behind_twice_at_the_same_offset_is_stuck() {
        let mut stalls = Stalls::default();
        assert_eq!(stalls.compare(&found(5, 9), true), None);
        assert_eq!(
            stalls.compare(&found(5, 9), true),
            Some(("t".to_owned(), 0))
        );
    }

    #[test]
    fn one_that_moves_or_is_at_its_end_is_not() {
        let mut stalls = Stalls::default();
        for (next, end) in [(5, 9), (6, 9), (9, 9), (9, 9), (9, 12)] {
            assert_eq!(stalls.compare(&found(next, end), true), None);
        }
    }

    #[test]
    fn a_slow_consumer_is_not_stuck() {
        let mut stalls = Stalls::default();
        for _ in 0..3 {
            assert_eq!(stalls.compare(&found(5, 9), false), None);
        }
    }

    #[test]
    fn a_new_client_is_tried_once_for_an_offset() {
        let mut stalls = Stalls::default();
        let stuck: Vec<bool> = (0..6)
            .map(|_| stalls.compare(&found(5, 9), true).is_some())
            .collect();
        assert_eq!(stuck, [false, true, false, false, false, false]);
        stalls.compare(&found(7, 9), true);
        assert!(stalls.compare(&found(7, 9), true).is_some());
    }
}
