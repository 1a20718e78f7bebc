//! The in-hand state keeps for a consumer the records received ahead, how far each partition is handled, and
//! the marks to commit.
//!
//! It never talks to Kafka, so the rules can be tested alone. It promises that no mark passes a delivery that
//! was not handled, and that no record is kept of a partition that was taken away.

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
    /// The partitions are paused.
    pub(super) paused: bool,
    /// Since when the pool asks for no records while as many are here as the bounds allow.
    full_since: Option<Moment>,
}

impl InHand {
    /// Takes a record in.
    pub(super) fn push(&mut self, delivery: Delivery) {
        let place = (delivery.topic.clone(), delivery.partition);
        self.partitions
            .entry(place)
            .or_insert_with(|| Assigned {
                low_water: LowWater::new(delivery.offset),
                committed: delivery.offset,
            })
            .low_water
            .delivered(delivery.offset);
        self.bytes += bytes(&delivery);
        self.records.push_back(delivery);
    }

    /// Passes over a record: it counts as handled and is not handed out.
    pub(super) fn pass_over(&mut self, delivery: &Delivery) {
        let place = (delivery.topic.clone(), delivery.partition);
        let (offset, low_water) = (delivery.offset, LowWater::new(delivery.offset));
        let assigned = self.partitions.entry(place).or_insert(Assigned {
            low_water,
            committed: offset,
        });
        assigned.low_water.delivered(offset);
        assigned.low_water.handled(offset);
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

    /// Tells, for a call that asked for `asked` records and got `taken`, whether the partitions are to be
    /// paused or resumed now.
    ///
    /// They are paused when nobody has asked for the records here for a while. A pool that is full only for
    /// the moment of a claim asks again at once, and after a pause the next record comes up to a second
    /// later.
    pub(super) fn turn(&mut self, asked: usize, taken: usize, now: Moment) -> Option<bool> {
        let full = asked == 0 && self.is_full();
        self.full_since = full.then(|| self.full_since.unwrap_or(now));
        if self.paused {
            return (asked > 0 && taken == 0).then_some(false);
        }
        let since = self.full_since?;
        (now.since(since) >= limits::FULL_BEFORE_PAUSE).then_some(true)
    }

    /// Returns until when no records are to be taken in: the pool is full, but may ask again at once.
    pub(super) fn shut_until(&self) -> Option<Moment> {
        let since = self.full_since.filter(|_| !self.paused)?;
        Some(since.after(limits::FULL_BEFORE_PAUSE))
    }

    fn is_full(&self) -> bool {
        self.records.len() >= limits::IN_HAND_RECORDS_MAX || self.bytes >= limits::IN_HAND_BYTES_MAX
    }

    /// Returns the offset that is expected next, for the partitions that have received a record.
    pub(super) fn positions(&self) -> BTreeMap<Place, i64> {
        let next =
            |(place, assigned): (&Place, &Assigned)| (place.clone(), assigned.low_water.end());
        self.partitions.iter().map(next).collect()
    }

    /// Notes deliveries that were handled. Deliveries of a partition that was taken away are passed over.
    pub(super) fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        for (topic, partition, offset) in deliveries {
            if let Some(assigned) = self.partitions.get_mut(&(topic.clone(), *partition)) {
                assigned.low_water.handled(*offset);
            }
        }
    }

    /// Tells whether there are marks to commit.
    pub(super) fn has_marks(&self) -> bool {
        let moved = |assigned: &Assigned| assigned.low_water.mark() > assigned.committed;
        self.partitions.values().any(moved)
    }

    /// Returns the marks to commit, of these partitions or of all.
    pub(super) fn take_marks(&mut self, places: Option<&[Place]>) -> BTreeMap<Place, i64> {
        let mut marks = BTreeMap::new();
        for (place, assigned) in &mut self.partitions {
            let mark = assigned.low_water.mark();
            if mark > assigned.committed && places.is_none_or(|places| places.contains(place)) {
                assigned.committed = mark;
                marks.insert(place.clone(), mark);
            }
        }
        marks
    }

    /// Notes that a commit of these marks failed: they are to be committed again.
    pub(super) fn not_committed(&mut self, marks: &BTreeMap<Place, i64>) {
        for place in marks.keys() {
            if let Some(assigned) = self.partitions.get_mut(place) {
                assigned.committed = i64::MIN;
            }
        }
    }

    /// Gives partitions up.
    pub(super) fn revoke(&mut self, places: &[Place]) {
        self.partitions.retain(|place, _| !places.contains(place));
        let kept =
            |delivery: &Delivery| !places.contains(&(delivery.topic.clone(), delivery.partition));
        self.records.retain(kept);
        self.bytes = self.records.iter().map(bytes).sum();
    }
}

fn bytes(delivery: &Delivery) -> usize {
    delivery.value.len() + delivery.key.as_ref().map_or(0, bytes::Bytes::len)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

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
            headers: Vec::new(),
        }
    }

    fn handle(in_hand: &mut InHand, partition: i32, offset: i64) -> Option<i64> {
        in_hand.handled(&[("t".to_owned(), partition, offset)]);
        in_hand.take_marks(None).get(&place(partition)).copied()
    }

    fn place(partition: i32) -> Place {
        ("t".to_owned(), partition)
    }

    #[test]
    fn only_marks_that_moved_are_returned() {
        let mut in_hand = InHand::default();
        in_hand.push(delivery(0, 7));
        in_hand.push(delivery(0, 8));
        assert_eq!(handle(&mut in_hand, 0, 8), None);
        assert_eq!(handle(&mut in_hand, 0, 7), Some(9));
        assert_eq!(handle(&mut in_hand, 0, 7), None);
        assert_eq!(in_hand.positions(), BTreeMap::from([(place(0), 9)]));
    }

    #[test]
    fn a_failed_commit_is_made_again() {
        let mut in_hand = InHand::default();
        in_hand.push(delivery(0, 7));
        in_hand.push(delivery(1, 7));
        handle(&mut in_hand, 0, 7);
        assert!(!in_hand.has_marks());
        in_hand.not_committed(&BTreeMap::from([(place(0), 8)]));
        assert!(in_hand.has_marks());
        assert_eq!(in_hand.take_marks(Some(&[place(1)])), BTreeMap::new());
        assert_eq!(
            in_hand.take_marks(Some(&[place(0)])),
            BTreeMap::from([(place(0), 8)])
        );
    }

    #[test]
    fn records_come_out_as_they_came_in() {
        let mut in_hand = InHand::default();
        for offset in 0..5 {
            in_hand.push(delivery(0, offset));
        }
        let mut offsets = Vec::new();
        for max in [2, 0, 9] {
            offsets.extend(in_hand.take(max).iter().map(|one| one.offset));
        }
        assert_eq!((offsets, in_hand.bytes), (vec![0, 1, 2, 3, 4], 0));
    }

    #[test]
    fn it_is_full_by_number_or_by_bytes() {
        let mut in_hand = InHand::default();
        for offset in 0..3 {
            assert!(!in_hand.is_full());
            in_hand.push(Delivery {
                value: vec![0; limits::IN_HAND_BYTES_MAX / 3 + 1].into(),
                ..delivery(0, offset)
            });
        }
        assert!(in_hand.is_full());
        in_hand.take(3);
        for offset in 3..3 + limits::IN_HAND_RECORDS_MAX as i64 {
            assert!(!in_hand.is_full());
            in_hand.push(delivery(0, offset));
        }
        assert!(in_hand.is_full());
    }

    #[test]
    fn a_pool_that_is_full_for_a_moment_pauses_nothing() {
        let now = TimeSource::real().moment();
        let after = |millis: u64| now.after(Duration::from_millis(millis));
        let long = limits::FULL_BEFORE_PAUSE.as_millis() as u64;
        let mut in_hand = InHand::default();
        assert_eq!(
            (in_hand.turn(0, 0, now), in_hand.shut_until()),
            (None, None)
        );
        for offset in 0..limits::IN_HAND_RECORDS_MAX as i64 {
            in_hand.push(delivery(0, offset));
        }
        assert_eq!(in_hand.turn(0, 0, now), None);
        assert_eq!(in_hand.turn(0, 0, after(long - 1)), None);
        assert_eq!(in_hand.shut_until(), Some(after(long)));
        // It asks again in time and is full again, which counts as another moment.
        assert_eq!(in_hand.turn(1, 1, after(long - 1)), None);
        assert_eq!(in_hand.shut_until(), None);
        assert_eq!(in_hand.turn(0, 0, after(long)), None);
        assert_eq!(in_hand.turn(0, 0, after(2 * long - 1)), None);
        assert_eq!(in_hand.turn(0, 0, after(2 * long)), Some(true));
        in_hand.paused = true;
        assert_eq!(in_hand.shut_until(), None);
        // The records that are here go first.
        assert_eq!(in_hand.turn(0, 0, after(3 * long)), None);
        assert_eq!(in_hand.turn(9, 9, after(3 * long)), None);
        assert_eq!(in_hand.turn(9, 0, after(3 * long)), Some(false));
    }

    #[test]
    fn a_revoked_partition_leaves_nothing_behind() {
        let mut in_hand = InHand::default();
        for partition in [0, 1] {
            in_hand.push(delivery(partition, 1));
            in_hand.push(delivery(partition, 2));
        }
        in_hand.revoke(&[place(0)]);
        assert_eq!(handle(&mut in_hand, 0, 1), None);
        let left: Vec<i32> = in_hand.take(10).iter().map(|one| one.partition).collect();
        assert_eq!((left, in_hand.bytes), (vec![1, 1], 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(i32),
        Handle(usize),
        Revoke(i32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..2).prop_map(Step::Push),
            4 => (0..64_usize).prop_map(Step::Handle),
            1 => (0..2).prop_map(Step::Revoke),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn no_mark_passes_an_unhandled_delivery(steps in steps()) {
            let mut in_hand = InHand::default();
            let mut next = [0_i64; 2];
            let mut open: BTreeSet<(i32, i64)> = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Push(partition) => {
                        let offset = &mut next[partition as usize];
                        in_hand.push(delivery(partition, *offset));
                        open.insert((partition, *offset));
                        *offset += 1;
                    }
                    Step::Handle(at) => {
                        let Some(one) = open.iter().nth(at % open.len().max(1)).copied() else {
                            continue;
                        };
                        open.remove(&one);
                        let mark = handle(&mut in_hand, one.0, one.1);
                        let oldest = open.iter().find(|(of, _)| *of == one.0);
                        let oldest = oldest.map_or(next[one.0 as usize], |(_, offset)| *offset);
                        prop_assert!(mark.is_none_or(|mark| mark == oldest));
                    }
                    Step::Revoke(partition) => {
                        in_hand.revoke(&[place(partition)]);
                        open.retain(|(of, _)| *of != partition);
                    }
                }
            }
        }
    }
}
