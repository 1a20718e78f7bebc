//! The producers send records for a publisher: a main one, and a spare one for topics that are sick, while
//! there are any.
//!
//! A producer that librdkafka has given up, or that is known to be stuck, is replaced at its next use. The
//! spare one is also replaced when it has had no answer for a while: it may be the one that is stuck, and it
//! holds only a few records. It is given back when no topic has been sick for a minute.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard, RwLock};
use rdkafka::{
    config::FromClientConfigAndContext,
    producer::{Producer, ThreadedProducer},
};

use super::{Settings, delivery::Reports, discard, lanes::By, link::Link, unsuitable};
use crate::{
    queue::Error,
    time_source::{Moment, TimeSource},
};

pub(super) type Client = ThreadedProducer<Reports>;

/// How long a spare producer may be without an answer: longer than its records wait for theirs.
const SPARE_SILENT_MAX: Duration = Duration::from_secs(30);

/// How long a spare producer is kept when it is not used.
const SPARE_KEPT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Times {
    made: Moment,
    used: Moment,
}

pub(super) struct Producers {
    settings: Settings,
    time: TimeSource,
    /// None before the first use after a client was given up, and at the end.
    main: RwLock<Option<Arc<Client>>>,
    spare: Mutex<Option<(Arc<Client>, Times)>>,
    replacements: AtomicU64,
    made: AtomicU64,
    acknowledged: Arc<Mutex<Option<Moment>>>,
}

impl Producers {
    pub(super) fn new(settings: Settings, time: TimeSource) -> Result<Self, Error> {
        let producers = Self {
            main: RwLock::new(None),
            spare: Mutex::new(None),
            replacements: AtomicU64::new(0),
            made: AtomicU64::new(0),
            acknowledged: Arc::default(),
            settings,
            time,
        };
        let first = Arc::new(producers.make("producer")?);
        *producers.main.write() = Some(first);
        Ok(producers)
    }

    fn make(&self, name: &str) -> Result<Client, Error> {
        let reports = Reports {
            number: self.made.fetch_add(1, Ordering::Relaxed) + 1,
            link: Link::new(name),
            time: self.time.clone(),
            acknowledged: Arc::clone(&self.acknowledged),
        };
        Client::from_config_and_context(&self.settings.producer(), reports)
            .map_err(|error| unsuitable(&error))
    }

    /// Makes later producers with other settings.
    #[cfg(test)]
    pub(super) fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Returns a producer. It is made anew if necessary.
    pub(super) fn get(&self, by: By) -> Result<Arc<Client>, Error> {
        match by {
            By::Main => self.main(),
            By::Spare => self.spare(),
        }
    }

    fn main(&self) -> Result<Arc<Client>, Error> {
        let usable = |client: &Arc<Client>| !client.context().link.is_spent();
        let read = self.main.read();
        if let Some(client) = read.as_ref().filter(|client| usable(client)) {
            return Ok(Arc::clone(client));
        }
        drop(read);
        let mut write = self.main.write();
        if let Some(client) = write.as_ref().filter(|client| usable(client)) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(self.make("producer")?);
        if let Some(old) = write.replace(Arc::clone(&client)) {
            drop(discard(old));
            self.replacements.fetch_add(1, Ordering::Relaxed);
        }
        Ok(client)
    }

    fn lock_spare(&self) -> MutexGuard<'_, Option<(Arc<Client>, Times)>> {
        self.spare.lock()
    }

    fn spare(&self) -> Result<Arc<Client>, Error> {
        let now = self.time.moment();
        let mut spare = self.lock_spare();
        if let Some((client, times)) = spare.as_mut() {
            let answered = self.acknowledged_at().unwrap_or(times.made);
            let silent = now.since(answered.max(times.made)) > SPARE_SILENT_MAX;
            if !silent && !client.context().link.is_spent() {
                times.used = now;
                return Ok(Arc::clone(client));
            }
        }
        let client = Arc::new(self.make("spare producer")?);
        let times = Times {
            made: now,
            used: now,
        };
        if let Some((old, _)) = spare.replace((Arc::clone(&client), times)) {
            drop(discard(old));
        }
        Ok(client)
    }

    /// Gives the spare producer back when it has not been used for a while.
    pub(super) fn tidy(&self) {
        let now = self.time.moment();
        let mut spare = self.lock_spare();
        let unused = |(_, times): &(Arc<Client>, Times)| now.since(times.used) > SPARE_KEPT;
        if spare.as_ref().is_some_and(unused)
            && let Some((old, _)) = spare.take()
        {
            drop(discard(old));
        }
    }

    /// Replaces the main producer at once. Its open records are given up, and its partitions can become well
    /// again.
    pub(super) fn replace_main(&self, reason: &str) {
        {
            let read = self.main.read();
            if let Some(client) = read.as_ref() {
                client.context().link.spend(reason);
            }
        }
        if let Err(error) = self.main() {
            tracing::warn!(%error, "cannot replace the kafka producer");
        }
    }

    /// Returns how often the main producer was replaced.
    pub(super) fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Relaxed)
    }

    /// Returns when a record was acknowledged last.
    pub(super) fn acknowledged_at(&self) -> Option<Moment> {
        *self.acknowledged.lock()
    }

    /// Waits until the buffered records are sent. Blocks.
    pub(super) fn flush(&self, limit: Duration) -> Result<(), String> {
        let spare = self.lock_spare().as_ref().map(|spare| Arc::clone(&spare.0));
        let main = self.main().map_err(|error| error.to_string())?;
        let flushed = main.flush(limit);
        let spare = spare.map_or(Ok(()), |spare| spare.flush(Duration::ZERO));
        flushed.and(spare).map_err(|error| error.to_string())
    }
}

impl Drop for Producers {
    fn drop(&mut self) {
        let main = self.main.get_mut().take();
        let spare = self.spare.get_mut().take();
        drop(discard((main, spare)));
    }
}
