//! The group commits requests of several callers together, after the writer has decided them one after the
//! other.
//!
//! Each request sees the changes of those before it in the group. No caller is answered before the commit.
//! When it fails, the contents of the disk are unknown, so plain writes fail and conditional ones are
//! unknown.

use std::collections::HashMap;

use fjall::{PersistMode, Slice};
use uuid::Uuid;

use super::command::{Act, Newest, TaskSwap, Write, tell};
use crate::{
    failpoint,
    model::{
        clock::ClockRow,
        record::{Change, Judged, Record},
        state::Expect,
        time::Millis,
    },
    store::{
        Error, Swapped,
        embedded::{
            disk::database::{Open, Space},
            faults::{corrupt, fault, no_clock},
            record_bytes, value,
        },
    },
};

/// Answers once the outcome of the commit is known.
type Settle = Box<dyn FnOnce(&Result<(), Error>)>;

/// A group under way.
pub(in crate::store::embedded) struct Group<'a> {
    open: &'a Open,
    /// The time by which rows have expired.
    now: Millis,
    blind: Vec<Write>,
    /// The decided changes. Of several writes of a key only the last one is kept.
    changed: HashMap<(Space, Slice), Option<Slice>>,
    /// Clocks that were swapped, in order.
    clocks: Vec<(Slice, ClockRow)>,
    synced: bool,
    settles: Vec<Settle>,
}

impl<'a> Group<'a> {
    pub(in crate::store::embedded) fn new(open: &'a Open, now: Millis) -> Self {
        Self {
            open,
            now: open.expired_by(now),
            blind: Vec::new(),
            changed: HashMap::new(),
            clocks: Vec::new(),
            synced: false,
            settles: Vec::new(),
        }
    }

    pub(in crate::store::embedded) fn rows(&self) -> usize {
        self.blind.len() + self.changed.len()
    }

    /// Adds a write that no caller waits for.
    pub(in crate::store::embedded) fn insert(&mut self, space: Space, key: Slice, value: Slice) {
        self.changed.insert((space, key), Some(value));
        self.synced = true;
    }

    /// Adds a deletion that no caller waits for.
    pub(in crate::store::embedded) fn delete(&mut self, space: Space, key: Slice) {
        self.blind.push(Write {
            space,
            key,
            value: None,
        });
    }

    /// Calls `settle` with the outcome of the commit.
    fn settle(&mut self, settle: impl FnOnce(&Result<(), Error>) + Send + 'static) {
        self.settles.push(Box::new(settle));
    }

    /// Decides a request.
    pub(in crate::store::embedded) fn take(&mut self, act: Act) {
        match act {
            Act::Put { writes, answer } => {
                self.blind.extend(writes);
                self.synced = true;
                self.settle(|committed| tell(answer, committed.clone()));
            }
            Act::PutNewest {
                writes,
                synced,
                answer,
            } => {
                let decided = writes
                    .into_iter()
                    .try_for_each(|write| self.put_newest(write));
                self.synced |= synced;
                self.settles.push(Box::new(|committed| {
                    tell(answer, decided.and_then(|()| committed.clone()))
                }));
            }
            Act::SwapClock {
                key,
                from,
                to,
                answer,
            } => {
                let decided = self.swap_clock(key, &from, to);
                self.settles.push(Box::new(|committed| {
                    tell(answer, decided.map(|swapped| known(swapped, committed)));
                }));
            }
            Act::SwapTasks { swaps, answer, .. } => {
                let decided: Vec<_> = swaps.into_iter().map(|swap| self.swap_task(swap)).collect();
                self.synced = true;
                self.settles.push(Box::new(|committed| {
                    let known = |swapped| known(swapped, committed);
                    tell(
                        answer,
                        decided.into_iter().map(|one| one.map(known)).collect(),
                    );
                }));
            }
            Act::SwapRecord {
                key,
                change,
                value,
                answer,
            } => {
                let decided = self.swap_record(key, &change, value);
                self.synced = true;
                self.settles.push(Box::new(|committed| {
                    tell(answer, decided.map(|swapped| known(swapped, committed)));
                }));
            }
            Act::Settle { answer } => {
                self.settle(|committed| tell(answer, committed.clone()));
            }
            Act::Upkeep => {}
        }
    }

    fn current(
        &self,
        space: Space,
        key: &Slice,
        operation: &'static str,
    ) -> Result<Option<Slice>, Error> {
        match self.changed.get(&(space, key.clone())) {
            Some(changed) => Ok(changed.clone()),
            None => self
                .open
                .get(space, key)
                .map_err(|cause| fault(operation, &cause)),
        }
    }

    fn put_newest(&mut self, write: Newest) -> Result<(), Error> {
        let there = self.current(write.space, &write.key, "write what is newest")?;
        let newer = match &there {
            Some(there) if write.space == Space::Index => {
                record_bytes::gives_way(there, write.written)
            }
            Some(there) => value::parse_written(there).is_none_or(|there| there <= write.written),
            // Deleting a row that is not there leaves nothing behind.
            None => write.value.is_some(),
        };
        if newer {
            self.changed.insert((write.space, write.key), write.value);
        }
        Ok(())
    }

    fn swap_clock(
        &mut self,
        key: Slice,
        from: &ClockRow,
        to: Slice,
    ) -> Result<Swapped<ClockRow>, Error> {
        let operation = "swap a clock";
        let there = self.current(Space::Clock, &key, operation)?;
        let there = there.ok_or_else(no_clock)?;
        let there = value::parse_clock(&there).map_err(|cause| corrupt(operation, &cause))?;
        let same = ClockRow {
            wall: there.wall,
            ..*from
        } == there;
        if !same {
            return Ok(Swapped::Conflict(there));
        }
        let next = value::parse_clock(&to).map_err(|cause| corrupt(operation, &cause))?;
        self.clocks.push((key.clone(), next));
        self.changed.insert((Space::Clock, key), Some(to));
        Ok(Swapped::Applied)
    }

    fn swap_task(&mut self, swap: TaskSwap) -> Result<Swapped<Expect>, Error> {
        let operation = "swap a task";
        let there = self.current(Space::Row, &swap.key, operation)?;
        let live = there.filter(|there| value::is_live(there, self.now));
        let seen = live.map(|there| value::parse_seen(&there)).transpose();
        let seen: Option<(Uuid, Expect)> = seen.map_err(|cause| corrupt(operation, &cause))?;
        let (nonce, seen) =
            seen.map_or((None, Expect::Absent), |(nonce, seen)| (Some(nonce), seen));
        if nonce == Some(swap.nonce) {
            return Ok(Swapped::Applied);
        }
        if seen != swap.expect {
            return Ok(Swapped::Conflict(seen));
        }
        self.changed
            .insert((Space::Row, swap.key), Some(swap.value));
        Ok(Swapped::Applied)
    }

    fn swap_record(
        &mut self,
        key: Slice,
        change: &Change,
        value: Slice,
    ) -> Result<Swapped<Option<Record>>, Error> {
        let operation = "swap a record";
        let name = &change.record().name;
        let there = self.current(Space::Record, &key, operation)?;
        let live = there.filter(|there| value::is_live(there, self.now));
        let there = live.map(|there| record_bytes::parse_record(name.clone(), &there));
        let there = there
            .transpose()
            .map_err(|cause| corrupt(operation, &cause))?;
        match change.judge(there.as_ref().map(Record::seen)) {
            Judged::Mine => Ok(Swapped::Applied),
            Judged::Conflict => Ok(Swapped::Conflict(there)),
            Judged::Holds => {
                self.changed.insert((Space::Record, key), Some(value));
                Ok(Swapped::Applied)
            }
        }
    }

    /// Writes everything, waits for the disk if any caller was promised it, and answers. `may_sync` is for
    /// real time only.
    pub(in crate::store::embedded) fn commit(self, may_sync: bool) -> Result<(), Error> {
        let durability = if self.synced && may_sync {
            PersistMode::SyncData
        } else {
            PersistMode::Buffer
        };
        let mut batch = self.open.batch();
        let changed =
            self.changed
                .into_iter()
                .map(|((space, key), value)| Write { space, key, value });
        for Write { space, key, value } in self.blind.into_iter().chain(changed) {
            match value {
                Some(value) => batch.insert(self.open.space(space), key, value),
                None => batch.remove(self.open.space(space), key),
            }
        }
        let committed = self.open.commit(batch, durability);
        let committed = committed.map_err(|cause| fault("write", &cause));
        if committed.is_ok() {
            // This comes before the answers, because a clock that is read after them must show it.
            for (key, row) in self.clocks {
                self.open.note_clock(key, row);
            }
        }
        failpoint::pass("committed");
        for settle in self.settles {
            settle(&committed);
        }
        committed
    }
}

/// Returns what has become of a decision once the commit is over.
fn known<T>(decided: Swapped<T>, committed: &Result<(), Error>) -> Swapped<T> {
    if committed.is_ok() {
        decided
    } else {
        Swapped::Unknown
    }
}
