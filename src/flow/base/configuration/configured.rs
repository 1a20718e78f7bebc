//! The configured callbacks tell stages that have the context of a node only what is set for a callback, when it applies.
//!
//! They read the node's copy where that is current, and the store otherwise: so a change holds from two seconds after its
//! acknowledgement on, also for a node that has just started.

use std::sync::OnceLock;

use super::cache::Cache;
use crate::{
    flow::base::api::Fault,
    limits,
    model::{
        callback::Policy,
        record::{Kind, Name},
    },
    schema::decode_callback,
    store::{Freshness, Store},
};

/// The configured callbacks of a node.
#[derive(Debug, Default)]
pub struct Configured {
    cache: OnceLock<Cache>,
}

impl Configured {
    /// Takes the copy of the node. Without one, each question is a read of the store.
    pub(in crate::flow) fn read_from(&self, cache: &Cache) {
        // A second copy would say the same.
        drop(self.cache.set(cache.clone()));
    }

    /// Returns the configuration of a callback; none when it has none.
    ///
    /// # Errors
    /// When it cannot be read, or not be understood by this version.
    pub(in crate::flow) async fn policy(
        &self,
        store: &dyn Store,
        callback: &str,
    ) -> Result<Option<Policy>, Fault> {
        let Ok(name) = Name::new(Kind::Callback, callback) else {
            return Ok(None);
        };
        let current = self.cache.get().filter(|cache| cache.is_current());
        let record = match current {
            Some(cache) => cache.get(&name),
            None => store.record(&name, Freshness::Quorum).await?,
        };
        let Some(value) = record.and_then(|record| record.value) else {
            return Ok(None);
        };
        let callback = decode_callback(value).map_err(|error| Fault::Unavailable {
            reason: format!("the callback {callback} cannot be read by this version: {error}"),
            retry_after: limits::STEP_PAUSE,
        })?;
        Ok(callback.policy)
    }
}
