//! The API keys tell the HTTP layer of a node which key a caller has.
//!
//! They are configuration: every node has a copy, and a change is in force everywhere two seconds after its acknowledgement. A
//! copy that is not current says nothing; then the record itself is read, so a revoked key never works longer, and a store that
//! is away refuses callers rather than lets them in.
//!
//! A key that has expired stays until it is revoked: its end must not be what opens a node.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};

use crate::{
    flow::base::{api::Fault, configuration::cache::Cache, documents},
    limits::RECORDS_PAGE_MAX,
    model::{
        access::{ApiKey, KeyId, KeyText, SECRET_BYTES},
        record::{Change, Kind, Name, Record},
    },
    schema::decode_api_key,
    store::{Freshness, Store, Swapped, records::RecordRange},
    time_source::TimeSource,
};

/// The keys as the copy of a node has them.
#[derive(Debug, Default)]
struct Snapshot {
    /// The number of the copy's last change that it has.
    changes: Option<u64>,
    /// None stands for a record that this version cannot read.
    by_id: HashMap<String, Option<Arc<ApiKey>>>,
}

/// The keys of the API as a node knows them. Cheap to clone.
#[derive(Clone)]
pub struct ApiKeys {
    pub(super) store: Arc<dyn Store>,
    pub(super) time: TimeSource,
    cache: Cache,
    copy: Arc<RwLock<Arc<Snapshot>>>,
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys").finish_non_exhaustive()
    }
}

impl ApiKeys {
    /// Reads keys from the copy of a node while that is current.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, time: TimeSource, cache: Cache) -> Self {
        Self {
            store,
            time,
            cache,
            copy: Arc::default(),
        }
    }

    /// Reads keys from a store without a node.
    #[must_use]
    pub fn of_store(store: Arc<dyn Store>, time: TimeSource) -> Self {
        let cache = Cache::new(Arc::clone(&store), time.clone());
        Self::new(store, time, cache)
    }

    /// Returns what the copy says, which may be old.
    fn snapshot(&self) -> Arc<Snapshot> {
        // Before the records are read: a change in between is seen the next time.
        let changes = Some(self.cache.changes());
        {
            let copy = self.copy.read();
            if copy.changes == changes {
                return Arc::clone(&copy);
            }
        }
        let records = self.cache.all(Kind::ApiKey).into_iter();
        let by_id = records.map(|record| (record.name.key().to_owned(), read(&record)));
        let snapshot = Arc::new(Snapshot {
            changes,
            by_id: by_id.collect(),
        });
        let mut copy = self.copy.write();
        if copy.changes < snapshot.changes {
            *copy = Arc::clone(&snapshot);
        }
        snapshot
    }

    /// Returns a key; none when there is no such key, or it was revoked.
    ///
    /// # Errors
    /// When the copy is not current and the store is away.
    pub async fn find(&self, id: KeyId) -> Result<Option<Arc<ApiKey>>, Fault> {
        if self.cache.is_current() {
            return Ok(self.find_in_copy(id));
        }
        let record = self.store.record(&named(id)?, Freshness::Quorum).await?;
        let there = record.filter(|record| !record.is_removed());
        Ok(there.and_then(|record| read(&record)))
    }

    /// Returns a key as the copy has it, which may be old.
    #[must_use]
    pub fn find_in_copy(&self, id: KeyId) -> Option<Arc<ApiKey>> {
        self.snapshot().by_id.get(&id.to_string()).cloned()?
    }

    /// Tells whether there is any key.
    ///
    /// # Errors
    /// When the copy is not current and the store is away.
    pub async fn exist(&self) -> Result<bool, Fault> {
        if self.cache.is_current() {
            return Ok(!self.snapshot().by_id.is_empty());
        }
        let mut after = None;
        loop {
            let page = self.page(after, RECORDS_PAGE_MAX).await?;
            if !page.0.is_empty() {
                return Ok(true);
            }
            after = page.1;
            if after.is_none() {
                return Ok(false);
            }
        }
    }

    /// Tells whether the copy has any key; none when nothing was read yet. The copy may be old.
    #[must_use]
    pub fn exist_in_copy(&self) -> Option<bool> {
        let is_loaded = self.cache.is_loaded();
        is_loaded.then(|| !self.snapshot().by_id.is_empty())
    }

    /// Lists keys by their ids, behind `after`. Also returns behind which there may be more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(
        &self,
        after: Option<KeyId>,
        max: usize,
    ) -> Result<(Vec<(KeyId, ApiKey)>, Option<KeyId>), Fault> {
        let (records, next) = self.page(after.map(named).transpose()?, max).await?;
        let keys = records.iter().filter_map(|record| {
            let id = KeyId::read(record.name.key())?;
            Some((id, ApiKey::clone(&*read(record)?)))
        });
        let next = next.and_then(|name| KeyId::read(name.key()));
        Ok((keys.collect(), next))
    }

    /// Lists keys as [`ApiKeys::list`] does, and leaves none out.
    ///
    /// # Errors
    /// When the store is away, or a key cannot be read.
    pub async fn list_whole(
        &self,
        after: Option<KeyId>,
        max: usize,
    ) -> Result<(Vec<(KeyId, ApiKey)>, Option<KeyId>), Fault> {
        let (records, next) = self.page(after.map(named).transpose()?, max).await?;
        let whole = |record: &Record| {
            let name = record.name.key();
            let key = KeyId::read(name).zip(read(record));
            let (id, key) = key.ok_or_else(|| {
                documents::unavailable(format_args!(
                    "the key {name} cannot be read: a later version may have written it"
                ))
            })?;
            Ok((id, ApiKey::clone(&key)))
        };
        let keys: Result<_, Fault> = records.iter().map(whole).collect();
        Ok((keys?, next.and_then(|name| KeyId::read(name.key()))))
    }

    async fn page(
        &self,
        after: Option<Name>,
        max: usize,
    ) -> Result<(Vec<Record>, Option<Name>), Fault> {
        let range = RecordRange {
            kind: Kind::ApiKey,
            after,
            rows_max: max.min(RECORDS_PAGE_MAX),
            now: self.time.now(),
        };
        let page = self.store.list_records(&range).await?;
        Ok((page.records, page.next))
    }

    /// Reads every key.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn all(&self) -> Result<Vec<(KeyId, ApiKey)>, Fault> {
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let (more, next) = self.list(after, RECORDS_PAGE_MAX).await?;
            keys.extend(more);
            after = next;
            if after.is_none() {
                return Ok(keys);
            }
        }
    }

    /// Writes a change, announces it, and takes it into the copy of this node.
    pub(super) async fn put(&self, change: &Change) -> Result<Swapped<Option<Record>>, Fault> {
        Ok(self.cache.put(change).await?)
    }
}

/// Returns the hash of a key's secret, which is all that is kept of it.
#[must_use]
pub fn hash(text: &KeyText) -> [u8; SECRET_BYTES] {
    Sha256::digest(text.secret()).into()
}

pub(super) fn named(id: KeyId) -> Result<Name, Fault> {
    Name::new(Kind::ApiKey, &id.to_string()).map_err(|refused| unsuitable(&refused))
}

pub(super) fn read(record: &Record) -> Option<Arc<ApiKey>> {
    let key = decode_api_key(record.value.clone().unwrap_or_default());
    let key = key.inspect_err(|error| {
        tracing::error!(record = %record.name, %error, "a key of the API cannot be read: it is refused");
    });
    key.ok().map(Arc::new)
}

/// The bounds of requests are narrower than those of records, so this does not happen.
pub(super) fn unsuitable(refused: &crate::model::record::Refused) -> Fault {
    documents::unavailable(refused)
}
