//! The runs list for people which tasks a schedule has started, skipped or will start next, the newest first.
//!
//! Each run has a row of the index, which is written before its entry. A row is a hint: the task that it names is read for the
//! answer.

use std::sync::Arc;

use bytes::Bytes;

use super::records::unsuitable;
use crate::{
    flow::base::{api::Fault, context::Context},
    limits::{RUN_LISTED, RUNS_PAGE_MAX},
    model::schedule::run::Listed,
    schema::{decode_run, encode_run},
    store::index::{IndexKind, IndexPut, IndexRange, Partition, Place},
};

/// First byte of the names of these partitions.
const RUNS: u8 = 1;

/// The rows of runs.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    ctx: Arc<Context>,
}

impl Runs {
    pub(super) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Writes the rows of runs.
    pub(super) async fn put(&self, name: &str, runs: &[Listed]) -> Result<(), Fault> {
        if runs.is_empty() {
            return Ok(());
        }
        let stamp = self.ctx.time.stamp();
        let rows = runs.iter().map(|listed| {
            let place = Place::new(partition(name)?, sort(listed))
                .map_err(|refused| unsuitable(&refused))?;
            let row = IndexPut::new(place, encode_run(listed), stamp);
            let row = row.map_err(|refused| unsuitable(&refused))?;
            Ok(row.until(listed.run.time.max(self.ctx.now()).after(RUN_LISTED)))
        });
        let rows = rows.collect::<Result<Vec<_>, Fault>>()?;
        for written in self.ctx.store.put_index(&rows).await {
            written?;
        }
        Ok(())
    }

    /// Reads a page; also the place behind which there may be more.
    pub(super) async fn page(
        &self,
        name: &str,
        after: Option<Bytes>,
        max: usize,
    ) -> Result<(Vec<Listed>, Option<Bytes>), Fault> {
        let range = IndexRange {
            partition: partition(name)?,
            after,
            rows_max: max.min(RUNS_PAGE_MAX),
        };
        let page = self.ctx.store.index_range(&range).await?;
        let rows = page.rows.into_iter();
        let runs = rows.filter_map(|row| decode_run(row.value).ok());
        Ok((runs.collect(), page.next))
    }
}

fn partition(name: &str) -> Result<Partition, Fault> {
    let mut bytes = vec![RUNS];
    bytes.extend_from_slice(name.as_bytes());
    Partition::new(IndexKind::Schedule, bytes).map_err(|refused| unsuitable(&refused))
}

/// The newest time first, and of one time the greatest number.
fn sort(listed: &Listed) -> Vec<u8> {
    let mut sort = (i64::MAX - listed.run.time.0.max(0)).to_be_bytes().to_vec();
    sort.extend_from_slice(&(u64::MAX - listed.run.seq).to_be_bytes());
    sort.extend_from_slice(listed.run.id.uuid().as_bytes());
    sort
}
