//! A group: requests that are decided one after the other and committed together.
//!
//! Each sees what those before it in the group have changed. Nothing is answered before the commit; when it fails nobody
//! knows what the disk has, so plain writes fail and conditional ones are unknown.

use std::collections::HashMap;

use fjall::{PersistMode, Slice};
use uuid::Uuid;

use super::{
    act::{Act, Newest, TaskSwap, Write, tell},
    database::{Open, Space, fault},
    value,
};
use crate::{
    failpoint,
    model::{clock::ClockRow, state::Expect, time::Millis},
    store::{Error, Swapped, row::Undecodable},
};

/// Answers once it is known how the commit went.
type Settle = Box<dyn FnOnce(&Result<(), Error>)>;

/// A group under way.
pub(super) struct Group<'a> {
    open: &'a Open,
    now: Millis,
    blind: Vec<Write>,
    /// What was decided on: the last of several writes of a key is the only one.
    changed: HashMap<(Space, Slice), Option<Slice>>,
    /// Clocks that were swapped, in order.
    clocks: Vec<(Slice, ClockRow)>,
    synced: bool,
    settles: Vec<Settle>,
}

impl<'a> Group<'a> {
    pub(super) fn new(open: &'a Open, now: Millis) -> Self {
        Self {
            open,
            now,
            blind: Vec::new(),
            changed: HashMap::new(),
            clocks: Vec::new(),
            synced: false,
            settles: Vec::new(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.blind.len() + self.changed.len()
    }

    /// Adds a write that nobody waits for.
    pub(super) fn insert(&mut self, space: Space, key: Slice, value: Slice) {
        self.changed.insert((space, key), Some(value));
        self.synced = true;
    }

    /// Adds a deletion that nobody waits for.
    pub(super) fn delete(&mut self, space: Space, key: Slice) {
        self.blind.push(Write {
            space,
            key,
            value: None,
        });
    }

    /// Decides a request.
    pub(super) fn take(&mut self, act: Act) {
        match act {
            Act::Put { writes, answer } => {
                self.blind.extend(writes);
                self.synced = true;
                self.settles
                    .push(Box::new(|committed| tell(answer, committed.clone())));
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
            Act::SwapTasks { swaps, answer } => {
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
            Act::Settle { answer } => {
                self.settles
                    .push(Box::new(|committed| tell(answer, committed.clone())));
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
            Some(there) => value::parse_written(there).is_none_or(|there| there <= write.written),
            // Deleting what is not there leaves nothing behind.
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

    /// Writes everything, waits for the disk if anybody was promised it, and answers. `may_sync` is for real time only.
    pub(super) fn commit(self, may_sync: bool) -> Result<(), Error> {
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
            // Before anybody is told: who reads a clock after that must see it.
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

/// What a decision has become once the commit is over.
fn known<T>(decided: Swapped<T>, committed: &Result<(), Error>) -> Swapped<T> {
    if committed.is_ok() {
        decided
    } else {
        Swapped::Unknown
    }
}

pub(super) fn no_clock() -> Error {
    Error::Unsuitable {
        reason: "a wheel has no clock: is the shape that the store was set up with configured?"
            .to_owned(),
    }
}

pub(super) fn corrupt(operation: &'static str, cause: &Undecodable) -> Error {
    Error::Corrupt {
        operation,
        reason: cause.to_string(),
    }
}
