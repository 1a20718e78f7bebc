//! What a consumer holds: records received ahead, how far each partition is handled, and what to commit.
//!
//! Nothing here talks to Kafka, so that the rules can be tested alone. It promises that a commit never passes a delivery
//! that was not handled, and that nothing of a partition that was taken away is kept.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    limits,
    queue::{Delivery, low_water::LowWater},
    time_source::Moment,
};

/// A topic and one of its partitions.
pub(super) type Place = (String, i32);

#[derive(Debug)]
struct Assigned {
    low_water: LowWater,
    /// The mark that was committed last, or is being committed.
    committed: i64,
}

/// The state of one consumer.
#[derive(Debug, Default)]
pub(super) struct InHand {
    partitions: BTreeMap<Place, Assigned>,
    records: VecDeque<Delivery>,
    bytes: usize,
    /// A commit is on its way since then, of these: what is handled meanwhile goes with the next one.
    committing: Option<(Moment, Vec<Place>)>,
    /// The partitions are paused.
    pub(super) paused: bool,
}

impl InHand {
    /// Takes a record in.
    pub(super) fn push(&mut self, delivery: Delivery) {
        let place = (delivery.topic.clone(), delivery.partition);
        let assigned = self.partitions.entry(place).or_insert_with(|| Assigned {
            low_water: LowWater::new(delivery.offset),
            committed: delivery.offset,
        });
        assigned.low_water.delivered(delivery.offset);
        self.bytes += bytes(&delivery);
        self.records.push_back(delivery);
    }

    /// Hands records out, oldest first.
    pub(super) fn take(&mut self, max: usize) -> Vec<Delivery> {
        let taken: Vec<Delivery> = self.records.drain(..max.min(self.records.len())).collect();
        self.bytes -= taken.iter().map(bytes).sum::<usize>();
        taken
    }

    pub(super) fn count(&self) -> usize {
        self.records.len()
    }

    /// Tells whether the partitions should be paused while the consumer's pool is full.
    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= limits::IN_HAND_RECORDS_MAX || self.bytes >= limits::IN_HAND_BYTES_MAX
    }

    /// Returns the offset that is expected next, for the partitions of which something was received.
    pub(super) fn positions(&self) -> BTreeMap<Place, i64> {
        let next = |assigned: &Assigned| assigned.low_water.end();
        self.partitions
            .iter()
            .map(|(place, assigned)| (place.clone(), next(assigned)))
            .collect()
    }

    /// Notes deliveries that were handled; those of a partition that was taken away are passed over.
    pub(super) fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        for (topic, partition, offset) in deliveries {
            if let Some(assigned) = self.partitions.get_mut(&(topic.clone(), *partition)) {
                assigned.low_water.handled(*offset);
            }
        }
    }

    /// Tells whether something is handled and not committed for certain.
    pub(super) fn has_commits(&self) -> bool {
        let moved = |assigned: &Assigned| assigned.low_water.mark() > assigned.committed;
        self.committing.is_some() || self.partitions.values().any(moved)
    }

    /// Returns what to commit now; nothing while a commit is on its way, unless that takes too long.
    pub(super) fn begin_commit(&mut self, now: Moment) -> Vec<(Place, i64)> {
        if let Some((since, places)) = self.committing.take() {
            if now.since(since) < limits::COMMIT_TIMEOUT {
                self.committing = Some((since, places));
                return Vec::new();
            }
            self.end_commit(&places);
        }
        let marks = self.take_marks(|_| true);
        if !marks.is_empty() {
            let places = marks.iter().map(|(place, _)| place.clone()).collect();
            self.committing = Some((now, places));
        }
        marks
    }

    /// Notes the end of a commit; one that failed is made again with what was handled since.
    pub(super) fn end_commit(&mut self, failed: &[Place]) {
        self.committing = None;
        for place in failed {
            if let Some(assigned) = self.partitions.get_mut(place) {
                assigned.committed = i64::MIN;
            }
        }
    }

    /// Gives partitions up: returns what is to be committed of them, and forgets the rest.
    pub(super) fn revoke(&mut self, places: &[Place]) -> Vec<(Place, i64)> {
        let marks = self.take_marks(|place| places.contains(place));
        self.partitions.retain(|place, _| !places.contains(place));
        let kept =
            |delivery: &Delivery| !places.contains(&(delivery.topic.clone(), delivery.partition));
        self.records.retain(kept);
        self.bytes = self.records.iter().map(bytes).sum();
        marks
    }

    fn take_marks(&mut self, wanted: impl Fn(&Place) -> bool) -> Vec<(Place, i64)> {
        let mut marks = Vec::new();
        for (place, assigned) in &mut self.partitions {
            let mark = assigned.low_water.mark();
            if wanted(place) && mark > assigned.committed {
                assigned.committed = mark;
                marks.push((place.clone(), mark));
            }
        }
        marks
    }
}

fn bytes(delivery: &Delivery) -> usize {
    delivery.value.len() + delivery.key.as_ref().map_or(0, bytes::Bytes::len)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::time_source::TimeSource;

    fn delivery(partition: i32, offset: i64) -> Delivery {
        Delivery {
            topic: "t".to_owned(),
            partition,
            offset,
            key: None,
            value: Bytes::from_static(b"value"),
            headers: HashMap::new(),
        }
    }

    fn handle(in_hand: &mut InHand, partition: i32, offset: i64) {
        in_hand.handled(&[("t".to_owned(), partition, offset)]);
    }

    fn now() -> Moment {
        TimeSource::real().moment()
    }

    fn place(partition: i32) -> Place {
        ("t".to_owned(), partition)
    }

    #[test]
    fn what_is_handled_during_a_commit_goes_with_the_next() {
        let mut in_hand = InHand::default();
        in_hand.push(delivery(0, 7));
        in_hand.push(delivery(0, 8));
        handle(&mut in_hand, 0, 7);
        assert_eq!(in_hand.begin_commit(now()), vec![(place(0), 8)]);
        handle(&mut in_hand, 0, 8);
        assert_eq!(in_hand.begin_commit(now()), vec![]);
        in_hand.end_commit(&[]);
        assert_eq!(in_hand.begin_commit(now()), vec![(place(0), 9)]);
    }

    #[test]
    fn a_failed_commit_is_made_again() {
        let mut in_hand = InHand::default();
        in_hand.push(delivery(0, 7));
        handle(&mut in_hand, 0, 7);
        in_hand.begin_commit(now());
        in_hand.end_commit(&[place(0)]);
        assert!(in_hand.has_commits());
        assert_eq!(in_hand.begin_commit(now()), vec![(place(0), 8)]);
    }

    #[test]
    fn a_commit_without_an_answer_is_made_again() {
        let mut in_hand = InHand::default();
        in_hand.push(delivery(0, 7));
        handle(&mut in_hand, 0, 7);
        let begun = now();
        assert_eq!(in_hand.begin_commit(begun), vec![(place(0), 8)]);
        assert_eq!(in_hand.begin_commit(begun), vec![]);
        let later = begun.after(limits::COMMIT_TIMEOUT);
        assert_eq!(in_hand.begin_commit(later), vec![(place(0), 8)]);
    }

    #[test]
    fn a_revoked_partition_leaves_nothing_behind() {
        let mut in_hand = InHand::default();
        for partition in [0, 1] {
            in_hand.push(delivery(partition, 1));
            in_hand.push(delivery(partition, 2));
        }
        handle(&mut in_hand, 0, 1);
        assert_eq!(in_hand.revoke(&[place(0)]), vec![(place(0), 2)]);
        handle(&mut in_hand, 0, 2);
        assert!(!in_hand.has_commits());
        let left: Vec<i32> = in_hand.take(10).iter().map(|one| one.partition).collect();
        assert_eq!((left, in_hand.bytes), (vec![1, 1], 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(i32),
        Handle(usize),
        Begin,
        End(bool),
        Revoke(i32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..2).prop_map(Step::Push),
            4 => (0..64_usize).prop_map(Step::Handle),
            2 => Just(Step::Begin),
            2 => any::<bool>().prop_map(Step::End),
            1 => (0..2).prop_map(Step::Revoke),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn no_commit_passes_an_unhandled_delivery(steps in steps()) {
            let mut in_hand = InHand::default();
            let mut next = [0_i64; 2];
            let mut open: BTreeSet<(i32, i64)> = BTreeSet::new();
            let mut commits = Vec::new();
            for step in steps {
                match step {
                    Step::Push(partition) => {
                        let offset = &mut next[partition as usize];
                        in_hand.push(delivery(partition, *offset));
                        open.insert((partition, *offset));
                        *offset += 1;
                    }
                    Step::Handle(at) => {
                        if let Some(one) = open.iter().nth(at % open.len().max(1)).copied() {
                            open.remove(&one);
                            handle(&mut in_hand, one.0, one.1);
                        }
                    }
                    Step::Begin => commits = in_hand.begin_commit(now()),
                    Step::End(ok) => {
                        let failed: Vec<Place> = commits.drain(..).map(|(place, _)| place).collect();
                        in_hand.end_commit(if ok { &[] } else { &failed });
                    }
                    Step::Revoke(partition) => {
                        commits = in_hand.revoke(&[place(partition)]);
                    }
                }
                for ((_, partition), mark) in &commits {
                    let oldest = open.iter().find(|(of, _)| of == partition);
                    prop_assert!(oldest.is_none_or(|(_, offset)| mark <= offset));
                }
                if let Step::Revoke(partition) = step {
                    open.retain(|(of, _)| *of != partition);
                }
            }
        }
    }
}
