//! The audit keeps, for administrators, which calls changed the configuration or many tasks.
//!
//! The row of a call is written before it has an effect, and again with its outcome. A call whose row cannot be written is not
//! made, so there is no change without a row. A node that dies in between leaves a row without an outcome.

use std::{fmt, sync::Arc};

use crate::{
    flow::base::{api::Fault, documents, tables::audit},
    limits::INDEX_PAGE_ROWS_MAX,
    model::{
        audit::{Entry, KEPT, Spot, day},
        time::Millis,
    },
    schema::decode_audit,
    store::{
        Store,
        index::{IndexRange, IndexRemoval},
    },
    time_source::TimeSource,
};

/// The audit of a store. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Arc<dyn Store>,
    time: TimeSource,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Returns the audit of a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, time: TimeSource) -> Self {
        Self { store, time }
    }

    /// Returns the place of the row of a call that has come now.
    #[must_use]
    pub fn spot(&self) -> Spot {
        // Stamps grow, so calls of one millisecond at a node are listed in their order.
        let stamp = self.time.stamp();
        let within = u64::try_from(stamp.rem_euclid(1000)).unwrap_or_default();
        Spot {
            time: Millis(stamp.div_euclid(1000)),
            random: (within << 54) | (self.time.random() >> 10),
        }
    }

    /// Writes the row of a call that is about to be made, or again with its outcome.
    ///
    /// # Errors
    /// The row is as it was. A call without a row must not be made.
    pub async fn write(&self, spot: Spot, entry: &Entry) -> Result<(), Fault> {
        let row = audit::row(spot, entry, self.time.stamp());
        let row = row.map_err(|refused| unsuitable(&refused))?;
        let written = self.store.put_index(&[row]).await;
        written
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(Into::into)
    }

    /// Removes the row of a call that had no effect, and that another row counts.
    ///
    /// # Errors
    /// The row may be there still.
    pub async fn remove(&self, spot: Spot) -> Result<(), Fault> {
        let removal = IndexRemoval {
            place: audit::place(spot).map_err(|refused| unsuitable(&refused))?,
            written: self.time.stamp(),
        };
        let removed = self.store.remove_index(&[removal]).await;
        removed
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(Into::into)
    }

    /// Lists rows from `from` to before `to` in the order of their times, behind `after`. Also returns behind which there may be
    /// more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(
        &self,
        (from, to): (Millis, Millis),
        after: Option<Spot>,
        max: usize,
    ) -> Result<(Vec<(Spot, Entry)>, Option<Spot>), Fault> {
        let now = self.time.now();
        // Older ones are gone, later ones are not there yet.
        let from = from.max(now.before(KEPT));
        let to = to.min(now.after(std::time::Duration::from_secs(1)));
        let first = audit::before(from);
        let mut behind = after.filter(|after| *after > first).unwrap_or(first);
        let mut found = Vec::new();
        let mut today = day(behind.time);
        while today <= day(to) {
            let partition = audit::partition(today).map_err(|refused| unsuitable(&refused))?;
            let range = IndexRange {
                partition,
                after: (day(behind.time) == today).then(|| audit::behind(behind)),
                rows_max: max.clamp(1, INDEX_PAGE_ROWS_MAX),
            };
            let page = self.store.index_range(&range).await?;
            for row in page.rows {
                let Some(spot) = Spot::read(&row.sort) else {
                    continue;
                };
                if spot.time >= to {
                    return Ok((found, None));
                }
                if found.len() == max {
                    return Ok((found, Some(behind)));
                }
                behind = spot;
                match decode_audit(row.value) {
                    Ok(entry) => found.push((spot, entry)),
                    Err(error) => tracing::warn!(%error, "a row of the audit cannot be read"),
                }
            }
            match page.next.as_deref().and_then(Spot::read) {
                Some(next) => behind = behind.max(next),
                None => today += 1,
            }
        }
        Ok((found, None))
    }
}

/// The texts of an entry are cut, so this does not happen.
fn unsuitable(refused: &crate::store::index::Refused) -> Fault {
    documents::unavailable(refused)
}
