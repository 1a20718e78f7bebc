//! The API keys tell the HTTP layer of a node which key a caller has, and make and revoke keys for administrators.
//!
//! They are configuration: every node has a copy, and a change is in force everywhere two seconds after its acknowledgement. A
//! copy that is not current says nothing; then the record itself is read, so a revoked key never works longer, and a store that
//! is away refuses callers rather than lets them in.
//!
//! A key that has expired stays until it is revoked: its end must not be what opens a node.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use super::{announce, cache::Cache};
use crate::{
    flow::api::Fault,
    limits::{API_KEYS_MAX, CALLBACK_RACES_MAX, RACED_RETRY_AFTER, RECORDS_PAGE_MAX},
    model::{
        access::{ApiKey, KeyId, KeyText, Role, SECRET_BYTES},
        limit::Rate,
        record::{Change, Kind, Mark, Name, Record},
        time::Millis,
    },
    schema::{decode_api_key, encode_api_key},
    store::{Freshness, Store, Swapped, records::RecordRange},
    time_source::TimeSource,
};

/// How long a change waits until it is in the copy of this node, too.
const OWN_COPY_WAIT: Duration = Duration::from_secs(1);

/// A key to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Its name, for people.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The callbacks that it is limited to; empty is all.
    pub callbacks: BTreeSet<String>,
    /// Whether a viewer sees payloads.
    pub payloads: bool,
    /// How many calls it may make at each node.
    pub rate: Option<Rate>,
    /// From when on it is refused.
    pub expires: Option<Millis>,
}

/// The result of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// It was made. The text is not kept anywhere.
    Made(KeyText, ApiKey),
    /// It would be the first key, and could not make others.
    NotAdmin,
    /// There are as many as may be.
    TooMany,
}

/// The result of a restoration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// There was no such key; now there is.
    Created,
    /// There was another one, which is replaced.
    Replaced,
    /// It was so already.
    Same,
    /// No key of an admin that has not expired would be left.
    NoAdmin,
    /// There are as many as may be.
    TooMany,
}

/// The result of a revocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// It is gone.
    Done(ApiKey),
    /// There is no such key.
    Absent,
    /// The keys that are left could not be managed any more.
    LastAdmin,
}

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
    store: Arc<dyn Store>,
    time: TimeSource,
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
            let copy = self.copy.read().unwrap_or_else(PoisonError::into_inner);
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
        let mut copy = self.copy.write().unwrap_or_else(PoisonError::into_inner);
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
            let (id, key) = key.ok_or_else(|| Fault::Unavailable {
                reason: format!(
                    "the key {name} cannot be read: a later version may have written it"
                ),
                retry_after: RACED_RETRY_AFTER,
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

    /// Makes a key. A crash before its answer leaves a key whose secret nobody knows.
    ///
    /// # Errors
    /// When it was not made, or it is not known whether it was: then make another one.
    pub async fn create(&self, wish: Wish) -> Result<Created, Fault> {
        let there = self.all().await?.len();
        if there == 0 && wish.role != Role::Admin {
            return Ok(Created::NotAdmin);
        }
        if there >= API_KEYS_MAX {
            return Ok(Created::TooMany);
        }
        let mut secret = [0; SECRET_BYTES];
        for chunk in secret.chunks_exact_mut(size_of::<u64>()) {
            chunk.copy_from_slice(&self.time.random().to_be_bytes());
        }
        let text = KeyText::new(KeyId(self.time.random()), secret);
        let key = ApiKey {
            name: wish.name,
            role: wish.role,
            callbacks: wish.callbacks,
            payloads: wish.payloads,
            rate: wish.rate,
            created: self.time.now(),
            expires: wish.expires,
            hash: hash(&text),
        };
        let value = encode_api_key(&key);
        let change = Change::put(named(text.id)?, None, value, None, self.mark());
        let change = change.map_err(|refused| unsuitable(&refused))?;
        match self.put(&change).await? {
            Swapped::Applied => Ok(Created::Made(text, key)),
            Swapped::Conflict(_) => Err(raced()),
            Swapped::Unknown => Err(unknown("made")),
        }
    }

    /// Sets a key as it was made elsewhere. A key that was revoked works again. The caller has `all` keys, read lately, which are
    /// brought up to date.
    ///
    /// # Errors
    /// When it was not set, or it is not known whether it was; repeating it is safe.
    pub async fn restore(
        &self,
        all: &mut Vec<(KeyId, ApiKey)>,
        id: KeyId,
        key: &ApiKey,
    ) -> Result<Restored, Fault> {
        let name = named(id)?;
        let mut there = self.store.record(&name, Freshness::Quorum).await?;
        for _ in 0..CALLBACK_RACES_MAX {
            let old = there.as_ref().filter(|record| !record.is_removed());
            let (is_new, old) = (old.is_none(), old.and_then(read));
            if old.as_deref() == Some(key) {
                // Its writer may have died before it told the other nodes.
                announce::announce(&*self.store, &self.time, &name).await?;
                return Ok(Restored::Same);
            }
            if let Some(refused) = has_no_place(all, id, key, self.time.now()) {
                return Ok(refused);
            }
            let (replaced, value) = (there.as_ref(), encode_api_key(key));
            let change = Change::put(name.clone(), replaced, value, None, self.mark());
            let change = change.map_err(|refused| unsuitable(&refused))?;
            there = match self.put(&change).await? {
                Swapped::Applied => {
                    all.retain(|(other, _)| *other != id);
                    all.push((id, key.clone()));
                    return Ok(if is_new {
                        Restored::Created
                    } else {
                        Restored::Replaced
                    });
                }
                Swapped::Unknown => return Err(unknown("set")),
                Swapped::Conflict(there) => there,
            };
        }
        Err(raced())
    }

    /// Revokes a key.
    ///
    /// # Errors
    /// When it was not revoked, or it is not known whether it was; repeating it is safe.
    pub async fn revoke(&self, id: KeyId) -> Result<Revoked, Fault> {
        let name = named(id)?;
        let mut there = self.store.record(&name, Freshness::Quorum).await?;
        for _ in 0..CALLBACK_RACES_MAX {
            let Some(record) = there else {
                return Ok(Revoked::Absent);
            };
            if record.is_removed() {
                // Its writer may have died before it told the other nodes.
                announce::announce(&*self.store, &self.time, &name).await?;
                return Ok(Revoked::Absent);
            }
            let value = record.value.clone().unwrap_or_default();
            let key = decode_api_key(value).map_err(|error| Fault::Unavailable {
                reason: format!("the key {id} cannot be read: {error}"),
                retry_after: RACED_RETRY_AFTER,
            })?;
            if key.role == Role::Admin && self.is_last_admin(id).await? {
                return Ok(Revoked::LastAdmin);
            }
            let change = Change::remove(&record, self.time.now(), self.mark());
            there = match self.put(&change).await? {
                Swapped::Applied => return Ok(Revoked::Done(key)),
                Swapped::Unknown => return Err(unknown("revoked")),
                Swapped::Conflict(there) => there,
            };
        }
        Err(raced())
    }

    /// Tells whether there are other keys, of which none is an administrator's for good. The very last key may go.
    async fn is_last_admin(&self, id: KeyId) -> Result<bool, Fault> {
        let now = self.time.now();
        let all = self.all().await?;
        let mut others = all.iter().filter(|(other, _)| *other != id).peekable();
        let is_alone = others.peek().is_none();
        let is_admin = |key: &ApiKey| key.role == Role::Admin && !key.has_expired(now);
        Ok(!is_alone && !others.any(|(_, key)| is_admin(key)))
    }

    /// Writes a change, announces it, and takes it into the copy of this node.
    async fn put(&self, change: &Change) -> Result<Swapped<Option<Record>>, Fault> {
        let put = announce::put(&*self.store, &self.time, change).await?;
        if put == Swapped::Applied {
            let step = self.cache.step();
            if let Some(Err(error)) = self.time.within(OWN_COPY_WAIT, step).await {
                tracing::debug!(%error, "a change is not in this node's copy yet");
            }
        }
        Ok(put)
    }

    fn mark(&self) -> Mark {
        Mark {
            nonce: self.time.random_uuid(),
            stamp: self.time.stamp(),
        }
    }
}

/// Returns why a key cannot be set among these, if it cannot.
fn has_no_place(all: &[(KeyId, ApiKey)], id: KeyId, key: &ApiKey, now: Millis) -> Option<Restored> {
    let is_admin = |key: &ApiKey| key.role == Role::Admin && !key.has_expired(now);
    let mut others = all.iter().filter(|(other, _)| *other != id);
    if !is_admin(key) && !others.any(|(_, key)| is_admin(key)) {
        return Some(Restored::NoAdmin);
    }
    let is_there = all.iter().any(|(other, _)| *other == id);
    (!is_there && all.len() >= API_KEYS_MAX).then_some(Restored::TooMany)
}

/// Returns the hash of a key's secret, which is all that is kept of it.
#[must_use]
pub fn hash(text: &KeyText) -> [u8; SECRET_BYTES] {
    Sha256::digest(text.secret()).into()
}

fn named(id: KeyId) -> Result<Name, Fault> {
    Name::new(Kind::ApiKey, &id.to_string()).map_err(|refused| unsuitable(&refused))
}

fn read(record: &Record) -> Option<Arc<ApiKey>> {
    let key = decode_api_key(record.value.clone().unwrap_or_default());
    let key = key.inspect_err(|error| {
        tracing::error!(record = %record.name, %error, "a key of the API cannot be read: it is refused");
    });
    key.ok().map(Arc::new)
}

/// The bounds of requests are narrower than those of records, so this does not happen.
fn unsuitable(refused: &crate::model::record::Refused) -> Fault {
    Fault::Unavailable {
        reason: refused.to_string(),
        retry_after: RACED_RETRY_AFTER,
    }
}

fn raced() -> Fault {
    Fault::Unavailable {
        reason: "too many changes of a key are made at once".to_owned(),
        retry_after: RACED_RETRY_AFTER,
    }
}

fn unknown(done: &str) -> Fault {
    Fault::Unknown {
        reason: format!("the store did not say whether the key was {done}"),
    }
}
