//! The fjall database: its keyspaces, its sizes, how it is opened.
//!
//! Sizes are chosen for ten million tasks in a few hundred MiB. Reads of the wheel are ranges, so its keyspaces have
//! no filters, which would cost 1.25 bytes of memory a row. Keyspaces are few: one that is seldom written pins journals
//! until they are too many (fjall#288). Clocks and heartbeats have one all the same: they are written each tick, and beside
//! the tasks' rows, which lie in order of time, they would have every table reach over all of these.

use std::{
    any::Any,
    cell::Cell,
    collections::{HashMap, HashSet},
    fs, io,
    panic::{self, AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fjall::{
    AbstractTree as _, CompressionType, Database, Error as Cause, Keyspace, KeyspaceCreateOptions,
    PersistMode, Slice,
    config::{BlockSizePolicy, CompressionPolicy, FilterPolicy},
};

use super::{
    background,
    directory::{refused, sync_directory},
    erased::Marks,
    journal, key,
    release::Buffer,
};
use crate::{
    failpoint,
    model::{clock::ClockRow, wheel::Shape},
    store::Error,
};

const MIB: u64 = 1024 * 1024;

/// Blocks read from disk, of all keyspaces together.
const CACHE_BYTES: u64 = 32 * MIB;

/// Rows of the wheel in memory before they are sorted onto disk. Each time, and after each merge, everything stands for the
/// syncs with which fjall notes what there is, 2 to 5 ms: larger means fewer of them, and fewer merges. Two or three are held.
const WHEEL_BUFFER_BYTES: u64 = 32 * MIB;

/// As above, for rows of tasks.
const ROW_BUFFER_BYTES: u64 = 24 * MIB;

/// As above, for clocks and heartbeats: the same few again and again.
const CLOCK_BUFFER_BYTES: u64 = 8 * MIB;

/// As above, for contents: each is up to a MiB.
const BODY_BUFFER_BYTES: u64 = 16 * MIB;

/// Blocks of the wheel: read in ranges, so larger than usual, which also packs better.
const WHEEL_BLOCK_BYTES: u32 = 16 * 1024;

/// How tables of the wheel are compressed, level by level. The library's default leaves two levels as they are, but what is
/// sorted into the second goes down without being written again: of three million pending tasks nothing was compressed.
const WHEEL_COMPRESSION: [CompressionType; 2] = [CompressionType::None, CompressionType::Lz4];

/// Journals on disk before what pins the oldest is written out: bounds the disk beside the data, and the time to open.
const JOURNALS_BYTES: u64 = 192 * MIB;

/// Sealed buffers of a keyspace with which nothing more is written: at four fjall itself blocks, for ever if whoever
/// writes them out has died (fjall#257).
const SEALED_MAX: usize = 1;

/// Runs in a keyspace's first level with which nothing more is written: at thirty fjall itself blocks.
const RUNS_MAX: usize = 24;

/// Between two looks at buffers that are being written out.
const NAP: Duration = Duration::from_millis(2);

/// Threads that write buffers out and merge. The first of them does not merge: handed a merge, it passes it back to the queue,
/// again and again without a pause while no other is free. With fjall's default on two cores, two in all, it did so throughout
/// every merge, at 36 % of their CPU while registering; with four it is hardly seen.
const THREADS: usize = 4;

/// Which keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Space {
    /// Due entries.
    Due,
    /// Looks.
    Look,
    /// Tasks.
    Row,
    /// Clocks, heartbeats, what was set aside.
    Clock,
    /// Contents.
    Body,
}

impl Space {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [Self::Due, Self::Look, Self::Row, Self::Clock, Self::Body];
}

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
pub(super) struct Open {
    /// Let go of before the database is closed: a table is removed by its path, which may be another's once it is open again.
    tables: Mutex<[Option<Tables>; Space::ALL.len()]>,
    database: Database,
    due: Keyspace,
    look: Keyspace,
    row: Keyspace,
    clock: Keyspace,
    body: Keyspace,
    /// Clocks as they were committed last: every registration reads one, and must not wait for the disk.
    clocks: Mutex<HashMap<Slice, ClockRow>>,
    marks: Mutex<Marks>,
    syncs: AtomicU64,
    shape: Shape,
}

impl Open {
    /// Returns a clock that was read or written before.
    pub(super) fn known_clock(&self, key: &Slice) -> Option<ClockRow> {
        self.clocks().get(key).copied()
    }

    /// Takes note of a clock that is in the database; one that is older than what is known is of the past.
    pub(super) fn note_clock(&self, key: Slice, row: ClockRow) {
        let mut clocks = self.clocks();
        let known = clocks.entry(key).or_insert(row);
        if known.version < row.version {
            *known = row;
        }
    }

    pub(super) const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns what was erased ahead of the clocks.
    pub(super) fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clocks(&self) -> MutexGuard<'_, HashMap<Slice, ClockRow>> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts everything that was recovered from the journal into tables. After a failed sync the system may show bytes
    /// that the disk has not, and a later sync of the same file says nothing about them.
    pub(super) fn settle_on_disk(&self) -> Result<(), Cause> {
        for keyspace in self.keyspaces() {
            keyspace.rotate_memtable()?;
        }
        // fjall's own wait has no end once whoever writes the buffers out has died of a full disk.
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
    pub(super) fn buffers(&self) -> impl Iterator<Item = Buffer> {
        let buffer = |keyspace: &Keyspace| -> Buffer { keyspace.tree.active_memtable() };
        self.keyspaces().map(buffer)
    }

    /// Tells the paths of tables that are no part of the database any more since the last call, and lets go of them after
    /// that: until then they are there.
    pub(super) fn look_for_past_tables(&self, mut tell: impl FnMut(&Arc<PathBuf>)) {
        let mut seen = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Has the database remove the files of tables that were merged or dropped. It does so when it writes a buffer out, on an
    /// idle service in hours, and that of the clocks is the smallest; and it keeps what it had before the last merge until
    /// something was written since: a row that is not there is removed.
    ///
    /// Not while there is no room: the database itself would wait for it, for ever if whoever makes it has died, and the caller
    /// with it, who holds on to what has to be opened anew. Whoever has something removed comes again.
    pub(super) fn let_go(&self) -> Result<(), Error> {
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

    /// Returns how many tables were begun: another number, and one is being written or was.
    pub(super) fn tables_begun(&self) -> u64 {
        self.keyspaces()
            .map(|keyspace| keyspace.tree.next_table_id())
            .sum()
    }

    /// Returns where the tables of a keyspace lie, and the number of the next one.
    pub(super) fn next_table(&self, space: Space) -> (PathBuf, u64) {
        let tree = &self.space(space).tree;
        (tree.tree_config().path.join("tables"), tree.next_table_id())
    }

    pub(super) fn space(&self, space: Space) -> &Keyspace {
        match space {
            Space::Due => &self.due,
            Space::Look => &self.look,
            Space::Row => &self.row,
            Space::Clock => &self.clock,
            Space::Body => &self.body,
        }
    }

    pub(super) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, Cause> {
        self.space(space).get(key)
    }

    /// Returns a batch of writes that are made together.
    pub(super) fn batch(&self) -> fjall::OwnedWriteBatch {
        self.database.batch()
    }

    /// Makes the writes of a batch, and all before them as durable as is asked.
    pub(super) fn commit(
        &self,
        batch: fjall::OwnedWriteBatch,
        durability: PersistMode,
    ) -> Result<(), Cause> {
        let is_written = !batch.is_empty();
        batch.durability(Some(durability)).commit()?;
        if is_written {
            self.note_synced(durability);
        }
        Ok(())
    }

    /// Returns how often everything that was written was waited for until the disk had it.
    #[cfg(test)]
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn note_synced(&self, durability: PersistMode) {
        if durability != PersistMode::Buffer {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("tickwheel_store_syncs_total").increment(1);
        }
    }

    /// Returns the most runs that a keyspace has in its first level.
    pub(super) fn runs(&self) -> usize {
        let runs = self
            .keyspaces()
            .map(|keyspace| keyspace.tree.l0_run_count());
        runs.max().unwrap_or_default()
    }

    /// Tells whether fjall could take a batch without blocking.
    pub(super) fn has_room(&self) -> bool {
        self.keyspaces().all(|keyspace| {
            keyspace.sealed_memtable_count() <= SEALED_MAX
                && keyspace.tree.l0_run_count() <= RUNS_MAX
        })
    }

    /// Tells whether the database still takes writes; it takes none after any of them has failed.
    pub(super) fn is_sound(&self) -> Result<(), Cause> {
        self.database.persist(PersistMode::Buffer)
    }

    /// Waits until everything that was written is on the disk.
    pub(super) fn sync(&self) -> Result<(), Cause> {
        self.database.persist(PersistMode::SyncData)?;
        self.note_synced(PersistMode::SyncData);
        Ok(())
    }

    /// Tells whether tables are being merged.
    pub(super) fn is_merging(&self) -> bool {
        self.database.active_compactions() > 0
    }

    /// Returns the bytes on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or_default()
    }
}

/// Creates the database in full before it gets its name: one that was left half made has none.
pub(super) fn create(path: &Path, shape: &Shape) -> Result<(), Error> {
    let (parent, new) = (path.parent().unwrap_or(path), path.with_extension("new"));
    let clear = || match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    clear().map_err(|error| refused(&new, &error))?;
    drop(open(&new, shape)?);
    let named = fs::rename(&new, path).and_then(|()| sync_directory(parent));
    named.map_err(|error| refused(path, &error))
}

/// Opens the database, cutting off what a crash has left half written. Damage is refused, and nothing is changed then.
pub(super) fn open(path: &Path, shape: &Shape) -> Result<Open, Error> {
    journal::prepare(path)?;
    attempt(path, shape).map_err(|cause| explained(path, cause))
}

enum Failed {
    Fjall(Cause),
    Panicked,
}

fn attempt(path: &Path, shape: &Shape) -> Result<Open, Failed> {
    // fjall asserts some of what it expects to find.
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

/// Keeps a panic of this thread that is caught from being printed: what is wrong is said in a sentence instead.
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
    #[cfg(debug_assertions)]
    let builder = super::merging::watched(builder);
    let database = builder.open()?;
    let bounded = |bytes| failpoint::buffer_bytes().unwrap_or(bytes);
    let wheel = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(bounded(WHEEL_BUFFER_BYTES))
            .data_block_size_policy(BlockSizePolicy::all(WHEEL_BLOCK_BYTES))
            .filter_policy(FilterPolicy::disabled())
            .data_block_compression_policy(CompressionPolicy::new(WHEEL_COMPRESSION))
    };
    let buffer = |bytes| move || KeyspaceCreateOptions::default().max_memtable_size(bounded(bytes));
    Ok(Open {
        due: database.keyspace("due", wheel)?,
        look: database.keyspace("look", wheel)?,
        row: database.keyspace("row", buffer(ROW_BUFFER_BYTES))?,
        clock: database.keyspace("clock", buffer(CLOCK_BUFFER_BYTES))?,
        body: database.keyspace("body", buffer(BODY_BUFFER_BYTES))?,
        tables: Mutex::default(),
        clocks: Mutex::default(),
        marks: Mutex::default(),
        syncs: AtomicU64::new(0),
        shape: *shape,
        database,
    })
}

fn corrupt(reason: String) -> Error {
    Error::Corrupt {
        operation: "open the store",
        reason,
    }
}

fn explained(path: &Path, failed: Failed) -> Error {
    let corrupt = |reason: String| {
        let path = path.display();
        corrupt(format!(
            "{path}: {reason}; restore a copy, or begin anew elsewhere"
        ))
    };
    match failed {
        Failed::Panicked => {
            corrupt("its journal or its tables are not what they should be".to_owned())
        }
        Failed::Fjall(Cause::Io(error) | Cause::Storage(fjall::LsmError::Io(error))) => {
            refused(path, &error)
        }
        Failed::Fjall(Cause::Locked) => Error::Unsuitable {
            reason: format!("{} is in use: stop what uses it", path.display()),
        },
        Failed::Fjall(Cause::InvalidVersion(_)) => Error::Unsuitable {
            reason: format!(
                "{} was written by another version of its database: use the program that made it",
                path.display()
            ),
        },
        Failed::Fjall(cause) => corrupt(format!("{cause:?}")),
    }
}

/// Returns the fault that an error of fjall is to callers.
pub(super) fn fault(operation: &'static str, cause: &Cause) -> Error {
    match cause {
        Cause::Io(error) | Cause::Storage(fjall::LsmError::Io(error))
            if matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ) =>
        {
            Error::Unavailable {
                operation,
                reason: format!(
                    "the disk is full: free some space; it goes on by itself ({error})"
                ),
            }
        }
        Cause::Io(_) | Cause::Storage(fjall::LsmError::Io(_)) | Cause::Poisoned | Cause::Locked => {
            Error::Unavailable {
                operation,
                reason: format!("the disk failed: {cause:?}"),
            }
        }
        _ => Error::Corrupt {
            operation,
            reason: format!("{cause:?}"),
        },
    }
}
