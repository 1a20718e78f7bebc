//! The partitioner chooses the partition of a record for the queues that are not Kafka; the Kafka adapter
//! chooses by itself.

use super::{Partition, Record};

/// Chooses partitions of one topic.
#[derive(Debug, Default)]
pub(crate) struct Partitioner {
    /// Number of records without a key so far: they take turns.
    without_key: u32,
}

impl Partitioner {
    /// Returns the record's partition of `count` partitions. A fixed one may not exist.
    pub(crate) fn choose(&mut self, record: &Record, count: i32) -> i32 {
        let of_hash = |hash: u32| {
            i32::try_from(i64::from(hash).rem_euclid(i64::from(count.max(1)))).unwrap_or(0)
        };
        match (record.partition, &record.key) {
            (Partition::OfWheel(wheel), _) => wheel.partition(count),
            (Partition::Fixed(partition), _) => partition,
            (Partition::ByKey, Some(key)) => of_hash(fnv1a(key)),
            (Partition::ByKey, None) => {
                self.without_key = self.without_key.wrapping_add(1);
                of_hash(self.without_key)
            }
        }
    }
}

/// FNV-1a: short, and with the same result in every run.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
