//! The merge watch gives tests a named place within the database's merges, in debug builds only: it sees
//! every merged row and keeps it.

use std::sync::Arc;

use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};

use crate::failpoint;

/// See `failpoint`.
const PLACE: &str = "merging";

/// Sees the rows that a merge writes.
struct Watch;

impl Factory for Watch {
    fn name(&self) -> &str {
        PLACE
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Self)
    }
}

impl CompactionFilter for Watch {
    fn filter_item(&mut self, _: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        failpoint::pass(PLACE);
        Ok(Verdict::Keep)
    }
}

/// Makes merges pass the place if the process is to die there. Otherwise the database is the same as in a
/// release build.
pub(super) fn watched(
    builder: fjall::DatabaseBuilder<fjall::Database>,
) -> fjall::DatabaseBuilder<fjall::Database> {
    if failpoint::is_armed_at(PLACE) {
        builder.with_compaction_filter_factories(Arc::new(|_| Some(Arc::new(Watch))))
    } else {
        builder
    }
}
