//! The runs list for people which tasks a schedule has started, skipped or will start next, the newest first.
//!
//! Each run has a row of the index, which is written before its entry. A row is a hint: the task that it names is read for the
//! answer.

use std::sync::Arc;

use bytes::Bytes;

use super::records::unsuitable;
use crate::{
    flow::base::{api::Fault, context::Context, tables::schedules},
    limits::RUNS_PAGE_MAX,
    model::schedule::run::Listed,
    schema::decode_run,
    store::index::IndexRange,
};

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
        let rows = runs
            .iter()
            .map(|listed| schedules::run(name, listed, stamp, self.ctx.now()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|refused| unsuitable(&refused))?;
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
            partition: schedules::runs(name).map_err(|refused| unsuitable(&refused))?,
            after,
            rows_max: max.min(RUNS_PAGE_MAX),
        };
        let page = self.ctx.store.index_range(&range).await?;
        let rows = page.rows.into_iter();
        let runs = rows.filter_map(|row| decode_run(row.value).ok());
        Ok((runs.collect(), page.next))
    }
}
