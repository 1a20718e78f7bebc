//! The callbacks tell every stage of a node what is set for a callback, and change it for users.
//!
//! Stages that must not wait read the node's copy ([`crate::flow::base::configuration::cache`]). A copy that is not current
//! says nothing: such a node neither claims nor publishes tasks of any callback, because any of them may have been paused
//! meanwhile. A registration then reads the record itself. It needs the store in any case, so it depends on nothing more, and
//! it keeps the promise that a change is in force two seconds after its acknowledgement.

use std::{collections::HashMap, fmt, future::ready, sync::Arc, time::Duration};

use parking_lot::RwLock;

use super::api_keys::ApiKeys;
pub(in crate::flow) use super::snapshot::{Passage, Snapshot};
use crate::{
    flow::base::{
        api::Fault,
        configuration::{announce, cache::Cache},
        context::Context,
        documents::{Found, Reads, Step, Unsure, Update, Updated},
    },
    limits::{CALLBACK_RACES_MAX, CALLBACKS_MAX, GATES_MAX, RECORDS_PAGE_MAX},
    model::{
        callback::{Callback, Policy},
        gate::{Gate, GateState},
        record::{Change, Kind, Name, Record},
        time::Millis,
    },
    schema::{decode_callback, encode_callback},
    store::{Freshness, records::RecordRange},
};

/// A change of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateChange {
    /// The collection that it concerns; empty is all tasks of the callback.
    pub collection: String,
    /// The new state.
    pub state: GateState,
    /// The reason, for people.
    pub reason: String,
    /// When it opens by itself.
    pub until: Option<Millis>,
    /// The name of the key with which it is made; empty where none was needed.
    pub who: String,
}

impl GateChange {
    /// Returns the gate as it is from `now` on.
    fn gate(&self, now: Millis) -> Gate {
        Gate {
            collection: self.collection.clone(),
            state: self.state,
            reason: self.reason.clone(),
            since: now,
            until: self.until,
            who: self.who.clone(),
        }
    }
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// There was no such configuration; now there is.
    Created(Callback),
    /// It was replaced.
    Replaced(Callback),
    /// It was so already.
    Same(Callback),
    /// It was removed.
    Removed,
    /// There is no such configuration.
    Absent,
    /// The precondition does not hold.
    Mismatch(Callback),
    /// A gate is not open.
    NotOpen(Callback),
    /// There is no room for another gate.
    TooManyGates,
    /// There is no room for another callback.
    TooMany,
}

/// The decision about a record that was read.
enum Decided {
    /// It is written so, and this is the answer then.
    Write(Changed),
    /// It stays, and this is the answer.
    Answer(Changed),
}

/// Decides whether a callback is still as the requester believes; none is one that was not configured.
pub type Precondition<'a> = &'a (dyn Fn(Option<&Policy>) -> bool + Send + Sync);

/// The callbacks of a batch of registrations.
#[derive(Debug)]
pub(in crate::flow) enum Known {
    /// The copy, which is current.
    Copied(Arc<Snapshot>),
    /// Each as it was read.
    Read(HashMap<String, Result<Option<Arc<Callback>>, Fault>>),
}

impl Known {
    /// Returns a callback; none when nothing is set for it.
    pub(in crate::flow) fn get(&self, name: &str) -> Result<Option<&Callback>, Fault> {
        match self {
            Self::Copied(copy) => match copy.by_name.get(name) {
                None => Ok(None),
                Some(Some(callback)) => Ok(Some(callback)),
                Some(None) => Err(unreadable(name)),
            },
            Self::Read(read) => match read.get(name) {
                None => Ok(None),
                Some(Ok(callback)) => Ok(callback.as_deref()),
                Some(Err(fault)) => Err(fault.clone()),
            },
        }
    }
}

/// The callbacks as a node knows them. Cheap to clone.
#[derive(Clone)]
pub struct Callbacks {
    ctx: Arc<Context>,
    cache: Cache,
    copy: Arc<RwLock<Arc<Snapshot>>>,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

impl Callbacks {
    /// Knows nothing until the cache runs.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        let cache = Cache::new(Arc::clone(&ctx.store), ctx.time.clone());
        ctx.configured.read_from(&cache);
        Self {
            cache,
            copy: Arc::default(),
            ctx,
        }
    }

    /// Returns the copy behind it.
    pub(in crate::flow) const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the keys of the API, by the same copy.
    pub(in crate::flow) fn api_keys(&self) -> ApiKeys {
        let (store, time) = (Arc::clone(&self.ctx.store), self.ctx.time.clone());
        ApiKeys::new(store, time, self.cache.clone())
    }

    /// Returns what the copy says; none when it is not current.
    pub(in crate::flow) fn current(&self) -> Option<Arc<Snapshot>> {
        self.cache.is_current().then(|| self.snapshot())
    }

    /// Returns what the copy says, which may be old.
    pub(in crate::flow) fn snapshot(&self) -> Arc<Snapshot> {
        // Before the records are read: a change in between is seen the next time.
        let changes = Some(self.cache.changes());
        {
            let copy = self.copy.read();
            if copy.changes == changes {
                return Arc::clone(&copy);
            }
        }
        let records = self.cache.all(Kind::Callback).into_iter();
        let by_name = records.map(|record| {
            let callback = read(&record);
            if let Err(fault) = &callback {
                tracing::error!(record = %record.name, %fault, "a callback cannot be read: none of its tasks goes out");
            }
            (record.name.key().to_owned(), callback.ok().map(Arc::new))
        });
        let snapshot = Arc::new(Snapshot {
            changes,
            by_name: by_name.collect(),
        });
        let mut copy = self.copy.write();
        if copy.changes < snapshot.changes {
            *copy = Arc::clone(&snapshot);
        }
        snapshot
    }

    /// Returns what is set for callbacks that tasks are registered for.
    pub(in crate::flow) async fn known<'a>(&self, names: impl Iterator<Item = &'a str>) -> Known {
        if let Some(copy) = self.current() {
            return Known::Copied(copy);
        }
        let mut read = HashMap::new();
        for name in names {
            if !read.contains_key(name) {
                let found = self.read(name).await;
                let callback = found.map(|(callback, _)| callback.map(Arc::new));
                read.insert(name.to_owned(), callback);
            }
        }
        Known::Read(read)
    }

    /// Reads a callback from the store; none when nothing is set for it.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(&self, name: &str) -> Result<Option<Callback>, Fault> {
        Ok(self.read(name).await?.0)
    }

    async fn read(&self, key: &str) -> Result<(Option<Callback>, Option<Record>), Fault> {
        let record = self
            .ctx
            .store
            .record(&named(key)?, Freshness::Quorum)
            .await?;
        let there = record.as_ref().filter(|record| !record.is_removed());
        Ok((there.map(read).transpose()?, record))
    }

    /// Lists callbacks by name, behind `after`. Also returns behind which name there may be more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(
        &self,
        after: Option<&str>,
        max: usize,
    ) -> Result<(Vec<(String, Callback)>, Option<String>), Fault> {
        let range = RecordRange {
            kind: Kind::Callback,
            after: after.map(named).transpose()?,
            rows_max: max.min(RECORDS_PAGE_MAX),
            now: self.ctx.now(),
        };
        let page = self.ctx.store.list_records(&range).await?;
        let records = page.records.iter();
        let callbacks = records.map(|record| Ok((record.name.key().to_owned(), read(record)?)));
        let next = page.next.map(|name| name.key().to_owned());
        Ok((callbacks.collect::<Result<_, Fault>>()?, next))
    }

    /// Configures a callback. Its gates stay as they are.
    ///
    /// # Errors
    /// When it was not done, or it is not known whether it was; repeating it is safe.
    pub async fn configure(
        &self,
        name: &str,
        policy: Policy,
        holds: Precondition<'_>,
    ) -> Result<Changed, Fault> {
        self.change(name, |old| {
            if !holds(old.policy.as_ref()) {
                return Decided::Answer(Changed::Mismatch(old));
            }
            if old.policy.as_ref() == Some(&policy) {
                return Decided::Answer(Changed::Same(old));
            }
            let created = old.policy.is_none();
            if old == Callback::default() && !self.has_room() {
                return Decided::Answer(Changed::TooMany);
            }
            let new = Callback {
                policy: Some(policy.clone()),
                ..old
            };
            Decided::Write(if created {
                Changed::Created(new)
            } else {
                Changed::Replaced(new)
            })
        })
        .await
    }

    /// Removes the configuration of a callback whose gates are open.
    ///
    /// # Errors
    /// As [`Callbacks::configure`].
    pub async fn remove(&self, name: &str, holds: Precondition<'_>) -> Result<Changed, Fault> {
        self.change(name, |old| {
            let now = self.ctx.now();
            if !holds(old.policy.as_ref()) {
                return Decided::Answer(Changed::Mismatch(old));
            }
            if !old.is_open(now) {
                return Decided::Answer(Changed::NotOpen(old));
            }
            if old.policy.is_none() {
                return Decided::Answer(Changed::Absent);
            }
            let gates = old.gates.into_iter();
            let left = Callback {
                policy: None,
                gates: gates.filter(|gate| !gate.is_forgotten(now)).collect(),
            };
            // Nodes may still have to release what its gates held.
            Decided::Write(if left.gates.is_empty() {
                Changed::Removed
            } else {
                Changed::Replaced(left)
            })
        })
        .await
    }

    /// Sets a gate. The configuration stays as it is; there need not be any.
    ///
    /// # Errors
    /// As [`Callbacks::configure`].
    pub async fn set_gate(&self, name: &str, change: &GateChange) -> Result<Changed, Fault> {
        self.change(name, |old| {
            let now = self.ctx.now();
            let gate = change.gate(now);
            if old.has_gate(&gate) {
                return Decided::Answer(Changed::Same(old));
            }
            if old == Callback::default() && !self.has_room() {
                return Decided::Answer(Changed::TooMany);
            }
            let mut new = old;
            if new.set_gate(gate, GATES_MAX) {
                Decided::Write(Changed::Replaced(new))
            } else {
                Decided::Answer(Changed::TooManyGates)
            }
        })
        .await
    }

    /// Sets a callback as it was elsewhere: its configuration, where there is one, and its gates, where they are given. Gates
    /// that are not among those are opened.
    ///
    /// # Errors
    /// As [`Callbacks::configure`].
    pub async fn restore(
        &self,
        name: &str,
        policy: Option<Policy>,
        gates: Option<&[GateChange]>,
    ) -> Result<Changed, Fault> {
        self.change(name, |old| {
            let mut new = old.clone();
            new.policy = policy.clone().or(new.policy);
            if let Some(gates) = gates {
                let now = self.ctx.now();
                let gates = gates.iter().map(|gate| gate.gate(now)).collect();
                if !new.set_gates(gates, now, GATES_MAX) {
                    return Decided::Answer(Changed::TooManyGates);
                }
            }
            if new == old {
                return Decided::Answer(Changed::Same(old));
            }
            let is_new = old == Callback::default();
            if is_new && !self.has_room() {
                return Decided::Answer(Changed::TooMany);
            }
            Decided::Write(if is_new {
                Changed::Created(new)
            } else {
                Changed::Replaced(new)
            })
        })
        .await
    }

    /// Tells whether the copy has room for another callback. Nodes that are asked at once may exceed it by a few.
    fn has_room(&self) -> bool {
        self.snapshot().by_name.len() < CALLBACKS_MAX
    }

    /// Changes a record as `decide` says of what is there, anew whenever another was first.
    async fn change(
        &self,
        name: &str,
        decide: impl Fn(Callback) -> Decided,
    ) -> Result<Changed, Fault> {
        let update = Update {
            store: &*self.ctx.store,
            name: &named(name)?,
            unsure: Unsure::Final,
            tries: CALLBACK_RACES_MAX,
        };
        let decide = |found: Found| ready(self.decided(name, found.record.as_ref(), &decide));
        let put = |change: Change| async move { self.cache.put(&change).await };
        let reads = Reads::Once(Freshness::Quorum);
        let (changed, must_announce) = match update.run_by(reads, decide, put).await? {
            Updated::Done(done) => done,
            Updated::Unknown => {
                return Err(Fault::Unknown {
                    reason: format!("the store did not say whether {name:?} was changed"),
                });
            }
            Updated::Raced => {
                return Err(Fault::Unavailable {
                    reason: format!("too many changes of the callback {name:?} are made at once"),
                    retry_after: Duration::from_secs(1),
                });
            }
        };
        if must_announce {
            announce::announce(&*self.ctx.store, &self.ctx.time, update.name).await?;
        }
        Ok(changed)
    }

    /// Returns the step that `decide` asks for. Its answer says as well whether the record is still to be announced: its writer
    /// may have died before it told the other nodes.
    fn decided(
        &self,
        name: &str,
        record: Option<&Record>,
        decide: &impl Fn(Callback) -> Decided,
    ) -> Result<Step<(Changed, bool)>, Fault> {
        let there = record.filter(|record| !record.is_removed());
        let old = there.map(read).transpose()?;
        Ok(match decide(old.unwrap_or_default()) {
            Decided::Write(changed) => {
                let change = self.write(name, record, &changed)?;
                Step::Write(change, (changed, false))
            }
            Decided::Answer(answer) => {
                let must_announce = record.is_some() && matches!(answer, Changed::Same(_));
                Step::Answer((answer, must_announce))
            }
        })
    }

    fn write(
        &self,
        name: &str,
        replaced: Option<&Record>,
        changed: &Changed,
    ) -> Result<Change, Fault> {
        let mark = self.ctx.time.mark();
        match (changed, replaced) {
            (Changed::Created(new) | Changed::Replaced(new), _) => {
                let value = encode_callback(new);
                let change = Change::put(named(name)?, replaced, value, None, mark);
                change.map_err(|refused| unsuitable(&refused))
            }
            (_, Some(replaced)) => Ok(Change::remove(replaced, self.ctx.now(), mark)),
            (_, None) => Err(unreadable(name)),
        }
    }
}

fn named(key: &str) -> Result<Name, Fault> {
    Name::new(Kind::Callback, key).map_err(|refused| unsuitable(&refused))
}

fn read(record: &Record) -> Result<Callback, Fault> {
    let value = record.value.clone().unwrap_or_default();
    decode_callback(value).map_err(|error| {
        tracing::debug!(record = %record.name, %error, "a callback cannot be read");
        unreadable(record.name.key())
    })
}

/// The bounds of requests are narrower than those of records, so this does not happen.
fn unsuitable(refused: &crate::model::record::Refused) -> Fault {
    Fault::Unavailable {
        reason: refused.to_string(),
        retry_after: Duration::from_secs(30),
    }
}

fn unreadable(name: &str) -> Fault {
    Fault::Unavailable {
        reason: format!(
            "the record of the callback {name:?} cannot be read: a later version may have written it"
        ),
        retry_after: Duration::from_secs(30),
    }
}
