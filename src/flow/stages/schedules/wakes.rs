//! The wakes are rows of the index that say for all nodes when to look at which schedule.
//!
//! The rows of one second are one partition. A node reads the partition of each second once, some seconds ahead, so a schedule
//! that is due in a year costs nothing until then, and a second without schedules costs one read of nothing. A row is written so
//! far ahead that every node reads it: a write that took longer is made again, further on. Rows end by themselves.

use std::sync::Arc;

use super::records::unsuitable;
use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        tables::schedules::{self, Wake, Why, read_wake},
    },
    limits::{INDEX_PAGE_ROWS_MAX, WAKE_AHEAD_MIN, WAKE_WRITES_MAX, WAKE_WRITTEN_BEFORE},
    model::time::Millis,
    store::index::IndexRange,
};

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
            let row = schedules::wake(name, at, why, self.ctx.time.stamp());
            let row = row.map_err(|refused| unsuitable(&refused))?;
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
                partition: schedules::wakes(second).map_err(|refused| unsuitable(&refused))?,
                after,
                rows_max: INDEX_PAGE_ROWS_MAX,
            };
            let page = self.ctx.store.index_range(&range).await?;
            wakes.extend(
                page.rows
                    .iter()
                    .filter_map(|row| read_wake(&row.sort, &row.value)),
            );
            after = page.next;
            if after.is_none() {
                return Ok(wakes);
            }
        }
    }
}
