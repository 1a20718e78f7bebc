//! The wakes are rows of the index that say for all nodes when to look at which schedule.
//!
//! The rows of one second are one partition. A node reads the partition of each second once, some seconds ahead, so a schedule
//! that is due in a year costs nothing until then, and a second without schedules costs one read of nothing. A row is written so
//! far ahead that every node reads it: a write that took longer is made again, further on. Rows end by themselves.

use std::sync::Arc;

use bytes::Bytes;

use super::records::unsuitable;
use crate::{
    flow::base::{api::Fault, context::Context},
    limits::{
        INDEX_PAGE_ROWS_MAX, WAKE_AHEAD_MIN, WAKE_KEPT, WAKE_WRITES_MAX, WAKE_WRITTEN_BEFORE,
    },
    model::time::Millis,
    store::index::{IndexKind, IndexPut, IndexRange, Partition, Place},
};

/// First byte of the names of these partitions.
const WAKES: u8 = 0;

/// The reason of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Its record says so.
    Due,
    /// To make sure that runs were entered: those of this incarnation, up to this number.
    Repair { incarnation: u128, seq: u64 },
}

/// A look at a schedule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wake {
    pub(super) at: Millis,
    pub(super) name: String,
    pub(super) why: Why,
}

/// The rows.
#[derive(Debug, Clone)]
pub(super) struct Wakes {
    ctx: Arc<Context>,
}

impl Wakes {
    pub(super) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Writes a row for a look at `at`, or as soon as every node can know of it. Every node reads it from its acknowledgement
    /// on.
    pub(super) async fn put(&self, name: &str, at: Millis, why: Why) -> Result<(), Fault> {
        for _ in 0..WAKE_WRITES_MAX {
            let at = at.max(self.ctx.now().after(WAKE_AHEAD_MIN));
            let row = row(name, at, why, self.ctx.time.stamp())?;
            for written in self.ctx.store.put_index(&[row]).await {
                written?;
            }
            if self.ctx.now().after(WAKE_WRITTEN_BEFORE) <= at {
                return Ok(());
            }
        }
        Err(Fault::Unavailable {
            reason: "the store takes seconds for a small write".to_owned(),
            retry_after: WAKE_AHEAD_MIN,
        })
    }

    /// Reads the rows of a second.
    pub(super) async fn of_second(&self, second: i64) -> Result<Vec<Wake>, Fault> {
        let (mut wakes, mut after) = (Vec::new(), None);
        loop {
            let range = IndexRange {
                partition: partition(second)?,
                after,
                rows_max: INDEX_PAGE_ROWS_MAX,
            };
            let page = self.ctx.store.index_range(&range).await?;
            wakes.extend(
                page.rows
                    .iter()
                    .filter_map(|row| read(&row.sort, &row.value)),
            );
            after = page.next;
            if after.is_none() {
                return Ok(wakes);
            }
        }
    }
}

/// Returns the second that a time lies in.
pub(super) const fn second_of(at: Millis) -> i64 {
    at.0.div_euclid(1000)
}

fn partition(second: i64) -> Result<Partition, Fault> {
    let mut name = vec![WAKES];
    name.extend_from_slice(&second.to_be_bytes());
    Partition::new(IndexKind::Schedule, name).map_err(|refused| unsuitable(&refused))
}

/// Two looks of one second at one schedule are one row if they have the same reason: the later is as good as both.
fn row(name: &str, at: Millis, why: Why, stamp: i64) -> Result<IndexPut, Fault> {
    let (kind, value) = match why {
        Why::Due => (0, at.0.to_be_bytes().to_vec()),
        Why::Repair { incarnation, seq } => {
            let mut value = at.0.to_be_bytes().to_vec();
            value.extend_from_slice(&incarnation.to_be_bytes());
            value.extend_from_slice(&seq.to_be_bytes());
            (1, value)
        }
    };
    let mut sort = vec![kind];
    sort.extend_from_slice(name.as_bytes());
    let place =
        Place::new(partition(second_of(at))?, sort).map_err(|refused| unsuitable(&refused))?;
    let put = IndexPut::new(place, value, stamp).map_err(|refused| unsuitable(&refused))?;
    Ok(put.until(at.after(WAKE_KEPT)))
}

/// Reads a row; a later version may write others.
fn read(sort: &Bytes, value: &Bytes) -> Option<Wake> {
    let (kind, name) = sort.split_first()?;
    let (at, rest) = value.split_first_chunk::<8>()?;
    let why = match kind {
        0 => Why::Due,
        1 => {
            let (incarnation, rest) = rest.split_first_chunk::<16>()?;
            let (seq, _) = rest.split_first_chunk::<8>()?;
            Why::Repair {
                incarnation: u128::from_be_bytes(*incarnation),
                seq: u64::from_be_bytes(*seq),
            }
        }
        _ => return None,
    };
    Some(Wake {
        at: Millis(i64::from_be_bytes(*at)),
        name: String::from_utf8(name.to_vec()).ok()?,
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_its_look_and_lies_in_its_second() {
        let at = Millis(1_800_000_000_437);
        let repair = Why::Repair {
            incarnation: 1 << 99,
            seq: 5,
        };
        for why in [Why::Due, repair] {
            let put = row("nightly/ä", at, why, 1).unwrap();
            let wake = read(put.place().sort(), put.value());
            let expected = Wake {
                at,
                name: "nightly/ä".to_owned(),
                why,
            };
            assert_eq!(wake, Some(expected));
            assert_eq!(put.place().partition(), &partition(1_800_000_000).unwrap());
            assert_eq!(put.expires, Some(at.after(WAKE_KEPT)));
        }
        assert_eq!(
            read(&Bytes::from_static(b"\x07a"), &Bytes::from_static(&[0; 8])),
            None
        );
        assert_eq!(read(&Bytes::new(), &Bytes::new()), None);
    }
}
