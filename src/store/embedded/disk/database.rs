//! The fjall database keeps the rows of the embedded store for its readers and its writer.
//!
//! Sizes are chosen for ten million tasks in a few hundred MiB. Reads of the wheel are ranges, so its
//! keyspaces have no filters, which would cost 1.25 bytes of memory a row. Keyspaces are few: one that is
//! seldom written pins journals until they are too many (fjall#288). Clocks and heartbeats have one all the
//! same: they are written each tick. Beside the rows of tasks, which lie in order of time, every table would
//! reach over all of these.

use std::{
    any::Any,
    cell::Cell,
    collections::{HashMap, HashSet},
    fs, io,
    panic::{self, AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Once,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use fjall::{AbstractTree as _, Database, Error as Cause, Keyspace, PersistMode, Slice, Snapshot};
use parking_lot::{Mutex, MutexGuard};

use super::{
    background, forms,
    open_faults::{Failed, explained},
};
use crate::{
    limits::EXPIRED_AHEAD_MAX,
    model::{clock::ClockRow, time::Millis, wheel::Shape},
    store::{
        Error,
        embedded::{
            faults::{fault, refused},
            journal::{
                self,
                witness::{self, Witness},
            },
            key,
            marks::Marks,
            merging::watched,
            sync::sync_directory,
        },
    },
};

const MIB: u64 = 1024 * 1024;

/// Bytes for blocks read from disk, of all keyspaces together.
const CACHE_BYTES: u64 = 32 * MIB;

/// Bytes of journals on disk before the buffers that pin the oldest are written out: bounds the disk beside
/// the data, and the time to open.
const JOURNALS_BYTES: u64 = 192 * MIB;

/// The number of sealed buffers of a keyspace above which writing stops. At four fjall itself blocks, for
/// ever if the thread that writes them out has died (fjall#257).
const SEALED_MAX: usize = 1;

/// The number of runs in a keyspace's first level above which writing stops. At thirty fjall itself blocks.
const RUNS_MAX: usize = 24;

/// Between two looks at buffers that are being written out.
const NAP: Duration = Duration::from_millis(2);

/// Threads that write buffers out and merge. The first of them does not merge: handed a merge, it passes it
/// back to the queue, again and again without a pause while no other is free. With fjall's default on two
/// cores, two in all, it did so throughout every merge, at 36 % of their CPU while registering. With four
/// this is hardly seen.
const THREADS: usize = 4;

/// A keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::store::embedded) enum Space {
    /// Due entries.
    Due,
    /// Looks.
    Look,
    /// Tasks.
    Row,
    /// Clocks, heartbeats, rows that were set aside.
    Clock,
    /// Contents.
    Body,
    /// Records.
    Record,
    /// Rows of the index.
    Index,
}

impl Space {
    /// All of them.
    pub(in crate::store::embedded) const ALL: [Self; 7] = [
        Self::Due,
        Self::Look,
        Self::Row,
        Self::Clock,
        Self::Body,
        Self::Record,
        Self::Index,
    ];
}

/// A buffer of any type of fjall.
pub(in crate::store::embedded) type Buffer = Arc<dyn Any + Send + Sync>;

/// A table, which is not removed for as long as this is there.
struct Table {
    number: u64,
    path: Arc<PathBuf>,
    _held: Box<dyn Any + Send + Sync>,
}

/// The tables that a keyspace had at the last look.
struct Tables {
    version: u64,
    tables: Vec<Table>,
}

/// An open database.
pub(in crate::store::embedded) struct Open {
    /// Released before the database is closed: a table is removed by its path, which may be another's later.
    tables: Mutex<[Option<Tables>; Space::ALL.len()]>,
    database: Database,
    due: Keyspace,
    look: Keyspace,
    row: Keyspace,
    clock: Keyspace,
    body: Keyspace,
    record: Keyspace,
    index: Keyspace,
    /// Clocks as they were committed last: every registration reads one, and must not wait for the disk.
    clocks: Mutex<HashMap<Slice, ClockRow>>,
    /// How far the slowest wheel has fired; long ago until the clocks of all wheels are known.
    slowest: AtomicI64,
    marks: Mutex<Marks>,
    syncs: AtomicU64,
    /// None in a database that is being created.
    witness: Option<Mutex<Witness>>,
    shape: Shape,
}

impl Open {
    /// Returns a clock that was read or written before.
    pub(in crate::store::embedded) fn known_clock(&self, key: &Slice) -> Option<ClockRow> {
        self.clocks().get(key).copied()
    }

    /// Notes a clock that is in the database; one that is older than the known one is ignored.
    pub(in crate::store::embedded) fn note_clock(&self, key: Slice, row: ClockRow) {
        let mut clocks = self.clocks();
        let known = clocks.entry(key).or_insert(row);
        if known.version < row.version {
            *known = row;
        }
        if clocks.len() >= usize::from(self.shape.wheels()) {
            let slowest = clocks.values().map(|row| row.fired.due.0).min();
            self.slowest
                .store(slowest.unwrap_or(i64::MIN), Ordering::Relaxed);
        }
    }

    /// Returns the time by which rows have expired: that of the clock, and at most [`EXPIRED_AHEAD_MAX`] ahead of the slowest
    /// wheel.
    ///
    /// The row of a task that has ended lives for days, so that the looks behind the end find it. Time in which no process runs,
    /// or that a clock leaps over, is no time for looks: such rows stay until the wheels have gone through it.
    pub(in crate::store::embedded) fn expired_by(&self, now: Millis) -> Millis {
        let slowest = Millis(self.slowest.load(Ordering::Relaxed));
        now.min(slowest.after(EXPIRED_AHEAD_MAX))
    }

    pub(in crate::store::embedded) const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the ticks that were erased ahead of the clocks.
    pub(in crate::store::embedded) fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock()
    }

    fn clocks(&self) -> MutexGuard<'_, HashMap<Slice, ClockRow>> {
        self.clocks.lock()
    }

    /// Puts everything that was recovered from the journal into tables. After a failed sync the system may show bytes
    /// that the disk has not, and a later sync of the same file says nothing about them.
    pub(in crate::store::embedded) fn settle_on_disk(&self) -> Result<(), Cause> {
        for keyspace in self.keyspaces() {
            keyspace.rotate_memtable()?;
        }
        // fjall's own wait has no end once the thread that writes the buffers has died of a full disk.
        while self
            .keyspaces()
            .any(|keyspace| keyspace.sealed_memtable_count() > 0)
        {
            self.is_sound()?;
            std::thread::park_timeout(NAP);
        }
        Ok(())
    }

    fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        Space::ALL.into_iter().map(|space| self.space(space))
    }

    /// Returns the buffers that rows are written to at present.
    pub(in crate::store::embedded) fn buffers(&self) -> impl Iterator<Item = Buffer> {
        let buffer = |keyspace: &Keyspace| -> Buffer { keyspace.tree.active_memtable() };
        self.keyspaces().map(buffer)
    }

    /// Tells the paths of tables that have left the database since the last call, and then releases them.
    /// Their files are there until then.
    pub(in crate::store::embedded) fn look_for_past_tables(
        &self,
        mut tell: impl FnMut(&Arc<PathBuf>),
    ) {
        let mut seen = self.tables.lock();
        for (space, seen) in Space::ALL.into_iter().zip(seen.iter_mut()) {
            let version = self.space(space).tree.current_version();
            if seen.as_ref().map(|seen| seen.version) == Some(version.id()) {
                continue;
            }
            let tables = version.iter_tables().map(|table| Table {
                number: table.id(),
                path: Arc::clone(&table.path),
                _held: Box::new(table.clone()),
            });
            let before = seen.replace(Tables {
                version: version.id(),
                tables: tables.collect(),
            });
            let still: HashSet<u64> = version.iter_tables().map(|table| table.id()).collect();
            let past = before.iter().flat_map(|before| &before.tables);
            for table in past.filter(|table| !still.contains(&table.number)) {
                tell(&table.path);
            }
        }
    }

    /// Makes the database remove the files of tables that were merged or dropped. It does so when it writes a
    /// buffer out, on an idle service only after hours, and the buffer of the clocks is the smallest. It also
    /// keeps its state before the last merge until something was written since, so a row that is not there is
    /// removed.
    ///
    /// Does nothing while there is no room. The database would wait for room, for ever if the thread that
    /// makes it has died, and so would the caller, who holds on to what has to be opened anew. The callers
    /// come again.
    pub(in crate::store::embedded) fn let_go(&self) -> Result<(), Error> {
        if !self.has_room() {
            return Ok(());
        }
        self.is_sound()
            .map_err(|cause| fault("write clocks out", &cause))?;
        let written = self.clock.remove(key::END);
        let written = written.and_then(|()| self.clock.rotate_memtable());
        written
            .map(drop)
            .map_err(|cause| fault("write clocks out", &cause))
    }

    /// Returns how many tables were begun. If the number has changed, a table is being written or was.
    pub(in crate::store::embedded) fn tables_begun(&self) -> u64 {
        self.keyspaces()
            .map(|keyspace| keyspace.tree.next_table_id())
            .sum()
    }

    /// Returns where the tables of a keyspace lie, and the number of the next one.
    pub(in crate::store::embedded) fn next_table(&self, space: Space) -> (PathBuf, u64) {
        let tree = &self.space(space).tree;
        (tree.tree_config().path.join("tables"), tree.next_table_id())
    }

    pub(in crate::store::embedded) fn space(&self, space: Space) -> &Keyspace {
        match space {
            Space::Due => &self.due,
            Space::Look => &self.look,
            Space::Row => &self.row,
            Space::Clock => &self.clock,
            Space::Body => &self.body,
            Space::Record => &self.record,
            Space::Index => &self.index,
        }
    }

    pub(in crate::store::embedded) fn get(
        &self,
        space: Space,
        key: &[u8],
    ) -> Result<Option<Slice>, Cause> {
        self.space(space).get(key)
    }

    /// Returns a view of all rows as they are now.
    pub(in crate::store::embedded) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// Waits until a batch can be taken without blocking. fjall's own wait has no end once a thread of it has died.
    pub(in crate::store::embedded) fn wait_for_room(&self) -> Result<(), Cause> {
        while !self.has_room() {
            self.is_sound()?;
            std::thread::park_timeout(NAP);
        }
        Ok(())
    }

    /// Returns a batch of writes that are made together.
    pub(in crate::store::embedded) fn batch(&self) -> fjall::OwnedWriteBatch {
        self.database.batch()
    }

    /// Makes the writes of a batch, and makes them and all before them as durable as requested.
    pub(in crate::store::embedded) fn commit(
        &self,
        batch: fjall::OwnedWriteBatch,
        durability: PersistMode,
    ) -> Result<(), Cause> {
        if batch.is_empty() {
            return batch.durability(Some(durability)).commit();
        }
        let witness = self.witness.as_ref();
        let witness = witness.filter(|_| durability != PersistMode::Buffer);
        let mut witness = witness.map(|witness| witness.lock());
        // The batch goes into this journal and gets this number, or later ones where another thread comes between.
        let journal = witness
            .as_mut()
            .map(|witness| witness.journal(self.database.journal_count()));
        let sequence = self.database.seqno();
        batch.durability(Some(durability)).commit()?;
        self.note_synced(durability);
        if let (Some(witness), Some(journal)) = (&mut witness, journal) {
            witness.note(sequence, journal);
        }
        Ok(())
    }

    /// Returns how often the disk was waited for until it had everything that was written.
    #[cfg(test)]
    pub(in crate::store::embedded) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn note_synced(&self, durability: PersistMode) {
        if durability != PersistMode::Buffer {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("tickwheel_store_syncs_total").increment(1);
        }
    }

    /// Returns the most runs that a keyspace has in its first level.
    pub(in crate::store::embedded) fn runs(&self) -> usize {
        let runs = self
            .keyspaces()
            .map(|keyspace| keyspace.tree.l0_run_count());
        runs.max().unwrap_or_default()
    }

    /// Tells whether fjall could take a batch without blocking.
    pub(in crate::store::embedded) fn has_room(&self) -> bool {
        self.keyspaces().all(|keyspace| {
            keyspace.sealed_memtable_count() <= SEALED_MAX
                && keyspace.tree.l0_run_count() <= RUNS_MAX
        })
    }

    /// Tells whether the database still takes writes; it takes none after any of them has failed.
    pub(in crate::store::embedded) fn is_sound(&self) -> Result<(), Cause> {
        self.database.persist(PersistMode::Buffer)
    }

    /// Waits until everything that was written is on the disk.
    pub(in crate::store::embedded) fn sync(&self) -> Result<(), Cause> {
        self.database.persist(PersistMode::SyncData)?;
        self.note_synced(PersistMode::SyncData);
        Ok(())
    }

    /// Tells whether tables are being merged.
    pub(in crate::store::embedded) fn is_merging(&self) -> bool {
        self.database.active_compactions() > 0
    }

    /// Returns the bytes on disk.
    pub(in crate::store::embedded) fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or_default()
    }
}

/// Creates the database in full before it gets its name, so one that was left half made has no name.
pub(in crate::store::embedded) fn create(path: &Path, shape: &Shape) -> Result<(), Error> {
    let (parent, new) = (path.parent().unwrap_or(path), path.with_extension("new"));
    let clear = || match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    clear().map_err(|error| refused(&new, &error))?;
    witness::forget(path).map_err(|error| refused(path, &error))?;
    drop(attempt(&new, shape).map_err(|cause| explained(&new, cause))?);
    let named = fs::rename(&new, path).and_then(|()| sync_directory(parent));
    named.map_err(|error| refused(path, &error))
}

/// Opens the database, and cuts off a part left half written by a crash. Refuses damage without any change.
pub(in crate::store::embedded) fn open(path: &Path, shape: &Shape) -> Result<Open, Error> {
    journal::prepare(path)?;
    let mut open = attempt(path, shape).map_err(|cause| explained(path, cause))?;
    let witness = Witness::open(path).map_err(|error| refused(path, &error))?;
    open.witness = Some(Mutex::new(witness));
    Ok(open)
}

fn attempt(path: &Path, shape: &Shape) -> Result<Open, Failed> {
    // fjall asserts some of its expectations about the files.
    let opened = background::standing_back(|| {
        quietly(|| catch_unwind(AssertUnwindSafe(|| keyspaces(path, shape))))
    });
    opened.map_or(Err(Failed::Panicked), |opened| {
        opened.map_err(Failed::Fjall)
    })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Keeps a caught panic of this thread from being printed: the error says in a sentence what is wrong.
fn quietly<T>(act: impl FnOnce() -> T) -> T {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                tracing::debug!(%info, "the database's files are not as it expects them");
            } else {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let done = act();
    QUIET.set(false);
    done
}

fn keyspaces(path: &Path, shape: &Shape) -> Result<Open, Cause> {
    let builder = Database::builder(path)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNALS_BYTES)
        .worker_threads(THREADS);
    let database = watched(builder).open()?;
    Ok(Open {
        due: database.keyspace("due", forms::wheel)?,
        look: database.keyspace("look", forms::wheel)?,
        row: database.keyspace("row", forms::rows)?,
        clock: database.keyspace("clock", forms::clocks)?,
        body: database.keyspace("body", forms::contents)?,
        record: database.keyspace("record", forms::records)?,
        index: database.keyspace("index", forms::index)?,
        tables: Mutex::default(),
        clocks: Mutex::default(),
        slowest: AtomicI64::new(i64::MIN),
        marks: Mutex::default(),
        syncs: AtomicU64::new(0),
        witness: None,
        shape: *shape,
        database,
    })
}
