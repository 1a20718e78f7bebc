//! The configuration cache holds the configuration in the memory of a node, for stages that must not wait for the store.
//!
//! It is never older than it says: [`Cache::is_current`] is false once it may lack a change that was acknowledged
//! [`CURRENT_MAX`](crate::model::configuration::CURRENT_MAX) ago. Its callers ask before they act on it. The rule is in
//! [`crate::model::configuration`].
//!
//! Without records it costs one read of one row each second, and one of each kind's list every half a minute.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::announce;
use crate::{
    limits::{RECORDS_PAGE_MAX, STORE_LIST_READS_IN_FLIGHT_MAX},
    model::{
        configuration::{Merged, Missing, REFRESH_EVERY, View, merge},
        record::{Change, Kind, Name, Record, Version},
    },
    store::{Error, Freshness, Store, Swapped, records::RecordRange},
    time_source::{Moment, TimeSource},
    wake::{Changes, Watcher},
};

/// How often one asks that waits for the copy to become current.
const CURRENT_PAUSE: Duration = Duration::from_millis(20);

/// How long a change waits until it is in the copy of this node, too.
const OWN_COPY_WAIT: Duration = Duration::from_secs(1);

/// The copy, and what is known about it.
#[derive(Debug, Default)]
struct Held {
    view: View,
    /// Removed records stay until they have expired, so that an older read does not bring them back.
    records: BTreeMap<Name, Record>,
    problem: Option<String>,
}

/// The configuration as a node knows it. Cheap to clone.
#[derive(Clone)]
pub struct Cache {
    store: Arc<dyn Store>,
    time: TimeSource,
    began: Moment,
    held: Arc<Mutex<Held>>,
    /// Counts what has changed in the copy.
    changes: Arc<Changes>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl Cache {
    /// Knows nothing yet, and is not current.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, time: TimeSource) -> Self {
        Self {
            store,
            began: time.moment(),
            time,
            held: Arc::default(),
            changes: Arc::default(),
        }
    }

    /// Tells whether every change that was acknowledged two seconds ago is in this copy.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let now = self.now();
        self.lock().view.is_current(now)
    }

    /// Tells whether everything was read once.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.lock().view.known().is_some()
    }

    /// Returns a record of the copy. It may be old: see [`Cache::is_current`].
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<Record> {
        let now = self.time.now();
        let held = self.lock();
        let record = held.records.get(name)?;
        let ended = record.expires.is_some_and(|at| at <= now);
        (!ended && !record.is_removed()).then(|| record.clone())
    }

    /// Returns all records of a kind in the copy, which may be old.
    #[must_use]
    pub fn all(&self, kind: Kind) -> Vec<Record> {
        let held = self.lock();
        let records = held.records.values();
        let there = records.filter(|record| record.name.kind() == kind && !record.is_removed());
        there.cloned().collect()
    }

    /// Returns a number that differs whenever the copy has changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.count()
    }

    /// Returns a watcher that tells of each change of the copy. All are woken in the order in which they wait.
    #[must_use]
    pub fn watch(&self) -> Watcher {
        self.changes.watcher()
    }

    /// Waits until the copy is current.
    pub async fn until_current(&self) {
        while !self.is_current() {
            self.time.sleep(CURRENT_PAUSE).await;
        }
    }

    /// Writes a change, announces it, and takes it into this copy: it is in force at this node from the answer on, and at the
    /// others within two seconds.
    ///
    /// # Errors
    /// It was certainly not written ([`announce::put`]).
    pub(in crate::flow) async fn put(
        &self,
        change: &Change,
    ) -> Result<Swapped<Option<Record>>, Error> {
        let put = announce::put(&*self.store, &self.time, change).await?;
        if put == Swapped::Applied
            && let Some(Err(error)) = self.time.within(OWN_COPY_WAIT, self.step()).await
        {
            tracing::debug!(%error, "a change is not in this node's copy yet");
        }
        Ok(put)
    }

    /// Reads what has changed.
    ///
    /// # Errors
    /// The copy is as it was, or has a part of what has changed; it does not become more current.
    pub async fn step(&self) -> Result<(), Error> {
        let began = self.now();
        let epoch = Name::epoch();
        let epoch = self.store.record(&epoch, Freshness::Quorum).await?;
        let epoch = announce::read(epoch.as_ref())?;
        let missing = epoch.missing(self.lock().view.known());
        match missing {
            Missing::These(names) => self.fetch(names).await?,
            Missing::Everything => self.pass().await?,
        }
        self.lock().view.refreshed(began, &epoch);
        Ok(())
    }

    /// Reads all records.
    ///
    /// # Errors
    /// The copy has a part of what was read.
    pub async fn pass(&self) -> Result<(), Error> {
        let began = self.now();
        let mut unseen: BTreeSet<Name> = self.lock().records.keys().cloned().collect();
        for kind in Kind::CONFIGURATION {
            let mut range = RecordRange {
                kind,
                after: None,
                rows_max: RECORDS_PAGE_MAX,
                now: self.time.now(),
            };
            loop {
                let page = self.store.list_records(&range).await?;
                for record in page.records {
                    unseen.remove(&record.name);
                    self.take(&record.name.clone(), None, Some(record));
                }
                if page.next.is_none() {
                    break;
                }
                range.after = page.next;
            }
        }
        // A record that was not in a list was removed, or has come since.
        self.fetch(unseen).await?;
        self.lock().view.passed(began);
        Ok(())
    }

    /// Reads some records.
    async fn fetch(&self, names: impl IntoIterator<Item = Name>) -> Result<(), Error> {
        let read = |name: Name| async move {
            let before = self.lock().version(&name);
            let found = self.store.record(&name, Freshness::Quorum).await?;
            self.take(&name, before, found);
            Ok(())
        };
        stream::iter(names)
            .map(read)
            .buffer_unordered(STORE_LIST_READS_IN_FLIGHT_MAX)
            .try_collect()
            .await
    }

    /// Keeps the copy current until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        tokio::join!(self.keep_current(&stop), self.keep_passing(&stop));
    }

    async fn keep_current(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let next = self.time.moment().after(REFRESH_EVERY);
            let stepped = self.step().await;
            self.note(stepped);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.time.sleep_until(next) => {}
            }
        }
    }

    /// Passes over all records beside the refreshes, so that many records make no copy old.
    async fn keep_passing(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let wait = self.until_pass().max(REFRESH_EVERY);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.time.sleep(wait) => {}
            }
            if self.until_pass().is_zero() {
                let passed = self.pass().await;
                self.note(passed);
            }
        }
    }

    fn take(&self, name: &Name, before: Option<Version>, found: Option<Record>) {
        if self.lock().take(name, before, found) {
            self.changes.announce();
        }
    }

    fn until_pass(&self) -> Duration {
        let now = self.now();
        self.lock().view.until_pass(now)
    }

    fn note(&self, done: Result<(), Error>) {
        let problem = done.err().map(|error| error.to_string());
        let mut held = self.lock();
        match (&held.problem, &problem) {
            (None, Some(problem)) => {
                tracing::warn!(problem, "the configuration cannot be read; trying again");
            }
            (Some(_), None) => tracing::info!("the configuration is read again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        held.problem = problem;
    }

    fn now(&self) -> Duration {
        self.time.moment().since(self.began)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }
}

impl Held {
    fn version(&self, name: &Name) -> Option<Version> {
        self.records.get(name).map(|record| record.version)
    }

    /// Takes what was read of a record, of which the copy had `before` when the reading began. Tells whether the copy has
    /// changed.
    fn take(&mut self, name: &Name, before: Option<Version>, found: Option<Record>) -> bool {
        let held = self.version(name);
        let version = found.as_ref().map(|record| record.version);
        match (merge(held, before, version), found) {
            (Merged::Replaced, Some(found)) => {
                self.records.insert(name.clone(), found);
                held != version
            }
            (Merged::Gone, _) => self.records.remove(name).is_some(),
            (Merged::Kept | Merged::Replaced, _) => false,
        }
    }
}
