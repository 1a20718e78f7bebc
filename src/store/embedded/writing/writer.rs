//! The writer decides and writes the requests of all callers in groups, and keeps the database fit to be
//! written.
//!
//! A group is made of the requests that wait when the one before is done, up to a bound. The busier the
//! store, the more requests share a sync. A write that fails makes fjall refuse all further ones, and so does
//! a failed write of its background threads. The writer then opens the database anew, after a pause, until it
//! works again. Readers keep the old one until then.

use std::{sync::Arc, time::Duration};

use super::{command::Act, group::Group, sweep::Sweep};
use crate::{
    store::{
        Error,
        embedded::{
            disk::database::{self, Open},
            faults::fault,
            room::GROUP_BYTES,
            shared::Shared,
        },
    },
    time_source::Moment,
};

/// Rows of a group. At this size a sync is a small part of its cost.
pub(in crate::store::embedded) const GROUP_ROWS_MAX: usize = 4096;

/// A commit that takes longer is counted as a stall.
const STALL: Duration = Duration::from_millis(100);

/// How long the database may have no room before it is opened anew. No merge should take so long.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);

/// First and longest pause before the database is opened anew.
const REOPEN_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How long readers may hold on to the database that is being closed.
const READERS_WAIT_MAX: Duration = Duration::from_secs(5);

/// The wait of a thread that no other thread wakes.
const NAP: Duration = Duration::from_millis(2);

/// The reason why nothing is written at present.
struct Broken {
    reason: String,
    reopen_at: Moment,
}

/// The writer. Its holder is the only one.
pub(in crate::store::embedded) struct Writer {
    shared: Arc<Shared>,
    sweep: Sweep,
    broken: Option<Broken>,
    pause: Duration,
    may_sync: bool,
}

impl Writer {
    pub(in crate::store::embedded) fn new(shared: Arc<Shared>, may_sync: bool) -> Self {
        Self {
            shared,
            sweep: Sweep::default(),
            broken: None,
            pause: REOPEN_PAUSES.0,
            may_sync,
        }
    }

    /// Makes the database be opened anew, because the state in which a panic has left it is unknown.
    pub(in crate::store::embedded) fn panicked(&mut self) {
        self.broken("the writer panicked".to_owned());
    }

    /// Does a group of requests, and a little of the work that can wait.
    pub(in crate::store::embedded) fn turn(&mut self, acts: Vec<Act>) {
        let acts = match self.shared.room.stands_still() {
            None => acts,
            Some(reason) => self.spared(acts, &reason),
        };
        if acts.is_empty() {
            return;
        }
        let open = match self.ready() {
            Ok(open) => open,
            Err(error) => return refuse(acts, &error),
        };
        let mut group = Group::new(&open, self.shared.time.now());
        let mut upkeep = false;
        for act in acts {
            match act {
                Act::Upkeep => upkeep = true,
                act => group.take(act),
            }
        }
        self.commit(group);
        if upkeep && self.broken.is_none() {
            self.look_after(&open);
        }
    }

    /// Refuses what can wait while the disk has no room, makes room for the rest, and returns it.
    fn spared(&self, acts: Vec<Act>, reason: &str) -> Vec<Act> {
        // Signs of life come as long as attempts run, which may be longer than the ballast lasts.
        let is_low = self.shared.room.is_low();
        let waits = |act: &Act| act.can_wait_for_room() || (is_low && act.is_sign_of_life());
        let (waits, rest): (Vec<Act>, Vec<Act>) = acts.into_iter().partition(waits);
        self.shared.room.note_refused(waits.len());
        refuse(waits, &unavailable(reason));
        let (reads, writes): (Vec<Act>, Vec<Act>) = rest
            .into_iter()
            .partition(|act| matches!(act, Act::Settle { .. }));
        if writes.is_empty() {
            return reads;
        }
        if self.broken.is_some() {
            // A database that is opened anew writes all its buffers out.
            self.shared.room.make(u64::MAX);
        } else {
            let bytes: u64 = writes.iter().map(Act::bytes).sum();
            // The journal adds to each row, and a file system counts in blocks.
            if !self.shared.room.make(GROUP_BYTES.saturating_add(2 * bytes)) {
                // A write that finds no room would break the database.
                self.shared.room.note_refused(writes.len());
                refuse(writes, &unavailable(reason));
                return reads;
            }
        }
        [writes, reads].into_iter().flatten().collect()
    }

    fn commit(&mut self, group: Group<'_>) {
        let time = &self.shared.time;
        let (rows, started) = (group.rows(), time.moment());
        let committed = group.commit(self.may_sync);
        let took = time.moment().since(started);
        match committed {
            Ok(()) if rows > 0 => {
                self.pause = REOPEN_PAUSES.0;
                metrics::histogram!("tickwheel_store_commit_duration_seconds")
                    .record(took.as_secs_f64());
                metrics::counter!("tickwheel_store_rows_written_total").increment(rows as u64);
                if took > STALL {
                    metrics::counter!("tickwheel_store_stalls_total").increment(1);
                }
            }
            Ok(()) => {}
            Err(error) => self.broken(error.to_string()),
        }
    }

    fn broken(&mut self, reason: String) {
        // The writer tries again and again, but one report is enough.
        if self
            .broken
            .as_ref()
            .is_none_or(|broken| broken.reason != reason)
        {
            tracing::error!(reason, "the store takes no writes: it is opened anew");
        }
        self.shared.note_broken(Some(reason.clone()));
        let reopen_at = self.shared.time.moment().after(self.pause);
        self.broken = Some(Broken { reason, reopen_at });
    }

    /// Returns the database once it can take a group without blocking.
    fn ready(&mut self) -> Result<Arc<Open>, Error> {
        if let Some(broken) = &self.broken {
            if self.shared.time.moment() < broken.reopen_at {
                return Err(unavailable(&broken.reason));
            }
            self.reopen()?;
        }
        let open = self.shared.open()?;
        let started = self.shared.time.moment();
        while !open.has_room() {
            let waited = self.shared.time.moment().since(started);
            let sound = open.is_sound();
            if sound.is_err() || waited > ROOM_WAIT_MAX {
                let cause = sound.err().map_or_else(
                    || "it does not get on".to_owned(),
                    |cause| format!("{cause:?}"),
                );
                let reason = format!("the database cannot put its buffers on disk: {cause}");
                self.broken(reason.clone());
                return Err(unavailable(&reason));
            }
            std::thread::park_timeout(NAP);
        }
        let waited = self.shared.time.moment().since(started);
        if waited > STALL {
            metrics::counter!("tickwheel_store_stalls_total").increment(1);
        }
        Ok(open)
    }

    /// Closes the database and opens it again.
    fn reopen(&mut self) -> Result<(), Error> {
        if let Some(full) = self.shared.room.is_too_small_to_open() {
            // Readers keep the database that is open: opening it anew would take it away and gain nothing.
            self.broken(full.clone());
            return Err(unavailable(&full));
        }
        let opened = self
            .closed()
            .and_then(|()| database::open(&self.shared.path, &self.shared.shape))
            .map(Arc::new);
        let settled = opened.and_then(|open| {
            // It may be read before it is on disk, because a reader acts on it only by a write.
            self.shared.replace(Some(Arc::clone(&open)));
            let settled = open.settle_on_disk();
            settled.map_err(|cause| fault("put on disk what was recovered", &cause))
        });
        self.pause = (self.pause * 2).min(REOPEN_PAUSES.1);
        match settled {
            Ok(()) => {
                self.broken = None;
                self.shared.note_broken(None);
                metrics::counter!("tickwheel_store_reopens_total").increment(1);
                tracing::info!("the store was opened anew");
                Ok(())
            }
            Err(error) => {
                let reason = error.to_string();
                self.broken(reason.clone());
                Err(unavailable(&reason))
            }
        }
    }

    /// Waits until the last reader has given the database back, which closes it.
    fn closed(&self) -> Result<(), Error> {
        let Some(mut open) = self.shared.replace(None) else {
            return Ok(());
        };
        let time = &self.shared.time;
        let started = time.moment();
        loop {
            match Arc::try_unwrap(open) {
                Ok(last) => {
                    drop(last);
                    return Ok(());
                }
                Err(held) if time.moment().since(started) < READERS_WAIT_MAX => open = held,
                Err(held) => {
                    self.shared.replace(Some(held));
                    return Err(unavailable("readers hold on to the database"));
                }
            }
            std::thread::park_timeout(NAP);
        }
    }

    /// Checks whether the background threads are well, and removes some expired rows.
    fn look_after(&mut self, open: &Open) {
        if let Err(cause) = open.is_sound() {
            return self.broken(format!("a write in the background failed: {cause:?}"));
        }
        metrics::gauge!("tickwheel_store_disk_bytes").set(open.disk_bytes() as f64);
        let mut group = Group::new(open, self.shared.time.now());
        match self.sweep.step(open, &mut group, self.shared.time.now()) {
            Ok(()) => self.commit(group),
            Err(error) => tracing::warn!(%error, "could not read what has expired"),
        }
    }
}

fn refuse(acts: Vec<Act>, error: &Error) {
    for act in acts {
        act.refuse(error);
    }
}

fn unavailable(reason: &str) -> Error {
    Error::Unavailable {
        operation: "write",
        reason: reason.to_owned(),
    }
}
