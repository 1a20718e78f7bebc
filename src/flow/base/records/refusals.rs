//! The refusals write refused calls to the audit, for administrators: a row a minute for each kind.
//!
//! A kind is a key, an operation and a code. The first refused call of a kind is a row at once. The further ones of its minute
//! are counted in memory, and the row is written again with their number when the minute is over. So a caller that is refused
//! cannot fill the store. A node that dies loses the numbers of its last minute, and no row.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::audit::Audit;
use crate::{
    limits::{AUDIT_REFUSAL_KINDS_MAX, AUDIT_REFUSALS_LOOK, AUDIT_REFUSALS_SPAN},
    model::audit::{Entry, Spot},
    time_source::{Moment, TimeSource},
};

/// A kind of refused calls: the id of the key, the operation, and the code of the problem.
type Kind = (String, String, String);

/// The refused calls of a kind.
#[derive(Debug, Clone)]
struct Seen {
    entry: Entry,
    spot: Spot,
    until: Moment,
}

/// The refused calls of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Refusals {
    audit: Audit,
    time: TimeSource,
    kinds: Arc<Mutex<HashMap<Kind, Seen>>>,
}

impl Refusals {
    /// Writes to this audit.
    #[must_use]
    pub fn new(audit: Audit, time: TimeSource) -> Self {
        let kinds = Arc::default();
        Self { audit, time, kinds }
    }

    /// Takes notice of a refused call, whose row is there already if it has a spot.
    pub async fn refused(&self, entry: Entry, spot: Option<Spot>) {
        let (first, older) = self.count(&entry, spot);
        if let Some(older) = older {
            self.write(&older).await;
        }
        match (first, spot) {
            (Some(first), _) => self.write(&first).await,
            (None, Some(spot)) => {
                if let Err(fault) = self.audit.remove(spot).await {
                    let action = entry.action;
                    tracing::debug!(%fault, action, "a row of the audit stays that another counts");
                }
            }
            (None, None) => {}
        }
    }

    /// Counts a call. Returns the row of the first of its kind, and a row of a minute that is over.
    fn count(&self, entry: &Entry, spot: Option<Spot>) -> (Option<Seen>, Option<Seen>) {
        let now = self.time.moment();
        let kind = (entry.key.clone(), entry.action.clone(), entry.code.clone());
        let mut kinds = self.lock();
        let is_full = kinds.len() >= AUDIT_REFUSAL_KINDS_MAX;
        match kinds.get_mut(&kind) {
            Some(seen) if now < seen.until => {
                seen.entry.more = seen.entry.more.saturating_add(1);
                (None, None)
            }
            None if is_full => (None, None),
            Some(_) | None => {
                let first = Seen {
                    entry: entry.clone(),
                    spot: spot.unwrap_or_else(|| self.audit.spot()),
                    until: now.after(AUDIT_REFUSALS_SPAN),
                };
                let older = kinds.insert(kind, first.clone());
                (Some(first), older.filter(|seen| seen.entry.more > 0))
            }
        }
    }

    /// Writes the numbers of minutes that are over until `stop`, and all of them then.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.time.sleep(AUDIT_REFUSALS_LOOK) => {}
            }
            let now = self.time.moment();
            self.step(|seen| seen.until <= now).await;
        }
        self.step(|_| true).await;
    }

    /// Writes and forgets those that are over.
    async fn step(&self, is_over: impl Fn(&Seen) -> bool) {
        let over: Vec<Seen> = self
            .lock()
            .extract_if(|_, seen| is_over(seen))
            .map(|(_, seen)| seen)
            .collect();
        for seen in over.iter().filter(|seen| seen.entry.more > 0) {
            self.write(seen).await;
        }
    }

    async fn write(&self, seen: &Seen) {
        if let Err(fault) = self.audit.write(seen.spot, &seen.entry).await {
            let action = &seen.entry.action;
            tracing::warn!(%fault, action, "refused calls are not in the audit");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Seen>> {
        self.kinds.lock()
    }
}
