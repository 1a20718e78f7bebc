//! The changes of API keys make, set and revoke keys for administrators, one change after the other.
//!
//! A record holds the last change that was decided. The next one is decided on all keys as that one has left them, and on the
//! condition that no other was decided meanwhile. So two admins who revoke each other at once leave one of them. A change that
//! was decided and is not written, because its writer died, is written by the next one.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::api_keys::{ApiKeys, hash, named, read, unsuitable};
use crate::{
    flow::base::{api::Fault, configuration::announce, documents},
    limits::{API_KEYS_MAX, CALLBACK_RACES_MAX},
    model::{
        access::{ApiKey, KeyId, KeyText, Role, SECRET_BYTES},
        limit::Rate,
        record::{Change, Kind, Name, Record},
        time::Millis,
    },
    schema::{
        ApiKeyChange, decode_api_key, decode_api_key_change, encode_api_key, encode_api_key_change,
    },
    store::{Freshness, Swapped},
};

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

/// All keys as they are after the last change that was decided.
#[derive(Debug, Default)]
pub struct Known {
    keys: Vec<(KeyId, ApiKey)>,
    last: Option<Record>,
    is_read: bool,
}

impl ApiKeys {
    /// Makes a key. A crash before its answer may leave a key whose secret nobody knows.
    ///
    /// # Errors
    /// When it was not made, or it is not known whether it was: then make another one.
    pub async fn create(&self, wish: Wish) -> Result<Created, Fault> {
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
        let (name, mut known) = (named(text.id)?, Known::default());
        for _ in 0..CALLBACK_RACES_MAX {
            self.look_up(&mut known).await?;
            if known.keys.is_empty() && key.role != Role::Admin {
                return Ok(Created::NotAdmin);
            }
            if known.keys.len() >= API_KEYS_MAX {
                return Ok(Created::TooMany);
            }
            let value = Some(encode_api_key(&key));
            if self.change(&mut known, &name, None, value).await? {
                return Ok(Created::Made(text, key));
            }
        }
        Err(documents::unavailable(
            "too many changes of a key are made at once",
        ))
    }

    /// Sets a key as it was made elsewhere. A key that was revoked works again. The keys that the caller has `known` save
    /// reads of them.
    ///
    /// # Errors
    /// When it was not set, or it is not known whether it was; repeating it is safe.
    pub async fn restore(
        &self,
        known: &mut Known,
        id: KeyId,
        key: &ApiKey,
    ) -> Result<Restored, Fault> {
        let name = named(id)?;
        for _ in 0..CALLBACK_RACES_MAX {
            self.look_up(known).await?;
            let there = self.store.record(&name, Freshness::Quorum).await?;
            let old = there.as_ref().filter(|record| !record.is_removed());
            let (is_new, old) = (old.is_none(), old.and_then(read));
            if old.as_deref() == Some(key) {
                // Its writer may have died before it told the other nodes.
                announce::announce(&*self.store, &self.time, &name).await?;
                return Ok(Restored::Same);
            }
            if let Some(refused) = has_no_place(&known.keys, id, key, self.time.now()) {
                return Ok(refused);
            }
            let value = Some(encode_api_key(key));
            if self.change(known, &name, there.as_ref(), value).await? {
                known.keys.retain(|(other, _)| *other != id);
                known.keys.push((id, key.clone()));
                return Ok(if is_new {
                    Restored::Created
                } else {
                    Restored::Replaced
                });
            }
        }
        Err(documents::unavailable(
            "too many changes of a key are made at once",
        ))
    }

    /// Revokes a key.
    ///
    /// # Errors
    /// When it was not revoked, or it is not known whether it was; repeating it is safe.
    pub async fn revoke(&self, id: KeyId) -> Result<Revoked, Fault> {
        let (name, mut known) = (named(id)?, Known::default());
        for _ in 0..CALLBACK_RACES_MAX {
            self.look_up(&mut known).await?;
            let there = self.store.record(&name, Freshness::Quorum).await?;
            let Some(record) = there else {
                return Ok(Revoked::Absent);
            };
            if record.is_removed() {
                // Its writer may have died before it told the other nodes.
                announce::announce(&*self.store, &self.time, &name).await?;
                return Ok(Revoked::Absent);
            }
            let value = record.value.clone().unwrap_or_default();
            let key = decode_api_key(value).map_err(|error| {
                documents::unavailable(format_args!("the key {id} cannot be read: {error}"))
            })?;
            if key.role == Role::Admin && is_last_admin(&known.keys, id, self.time.now()) {
                return Ok(Revoked::LastAdmin);
            }
            if self.change(&mut known, &name, Some(&record), None).await? {
                return Ok(Revoked::Done(key));
            }
        }
        Err(documents::unavailable(
            "too many changes of a key are made at once",
        ))
    }

    /// Brings up to date what is known of all keys. A change that was decided, and whose writer is gone, is written first.
    async fn look_up(&self, known: &mut Known) -> Result<(), Fault> {
        let name = Name::api_key_change();
        let last = self.store.record(&name, Freshness::Serial).await?;
        let seen = |record: &Option<Record>| record.as_ref().map(Record::seen);
        if known.is_read && seen(&known.last) == seen(&last) {
            return Ok(());
        }
        if let Some(record) = &last {
            let change = decode_api_key_change(record.value.clone().unwrap_or_default());
            let change = change.map_err(|error| {
                documents::unavailable(format_args!(
                    "the last change of the keys cannot be read: {error}"
                ))
            })?;
            self.write(&change).await?;
        }
        *known = Known {
            keys: self.all().await?,
            last,
            is_read: true,
        };
        Ok(())
    }

    /// Decides a change on the condition that no other was decided since the keys were read, and writes it. Returns false where
    /// another was.
    async fn change(
        &self,
        known: &mut Known,
        name: &Name,
        replaced: Option<&Record>,
        key: Option<Bytes>,
    ) -> Result<bool, Fault> {
        let change = ApiKeyChange {
            id: name.key().to_owned(),
            replaces: replaced.map(|record| record.nonce),
            key,
        };
        let (last, value) = (known.last.as_ref(), encode_api_key_change(&change));
        let decision = Change::put(Name::api_key_change(), last, value, None, self.time.mark());
        let decision = decision.map_err(|refused| unsuitable(&refused))?;
        match self.store.put_if(&decision).await? {
            Swapped::Applied => {}
            Swapped::Conflict(_) => return Ok(false),
            Swapped::Unknown => return Err(unknown()),
        }
        known.last = Some(decision.record().clone());
        self.write(&change).await?;
        Ok(true)
    }

    /// Writes a change that is decided, unless it was written.
    async fn write(&self, change: &ApiKeyChange) -> Result<(), Fault> {
        let name = Name::new(Kind::ApiKey, &change.id).map_err(|refused| unsuitable(&refused))?;
        let there = self.store.record(&name, Freshness::Serial).await?;
        // Each write has a nonce of its own, so what is there is either what is replaced or the outcome.
        if there.as_ref().map(|record| record.nonce) != change.replaces {
            return Ok(());
        }
        let put = match (&there, &change.key) {
            (_, Some(key)) => {
                let put = Change::put(name, there.as_ref(), key.clone(), None, self.time.mark());
                put.map_err(|refused| unsuitable(&refused))?
            }
            (Some(record), None) => Change::remove(record, self.time.now(), self.time.mark()),
            (None, None) => return Ok(()),
        };
        match self.put(&put).await? {
            // Another has written it.
            Swapped::Applied | Swapped::Conflict(_) => Ok(()),
            Swapped::Unknown => Err(unknown()),
        }
    }
}

/// Tells whether there are other keys, of which none is an administrator's for good. The very last key may go.
fn is_last_admin(all: &[(KeyId, ApiKey)], id: KeyId, now: Millis) -> bool {
    let mut others = all.iter().filter(|(other, _)| *other != id).peekable();
    let is_alone = others.peek().is_none();
    let is_admin = |key: &ApiKey| key.role == Role::Admin && !key.has_expired(now);
    !is_alone && !others.any(|(_, key)| is_admin(key))
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

fn unknown() -> Fault {
    Fault::Unknown {
        reason: "the store did not say whether the key was changed".to_owned(),
    }
}
