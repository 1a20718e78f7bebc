//! `Row` is one row on three replicas for the store: last write wins on each, and it knows the
//! holders of each version.
//!
//! Nearly always all three hold the same version, so a row is one version with the set of its holders, and a
//! mostly empty list of other versions. A conditionally written row has ballots as write times; its newest
//! version is the decision, and may have no holder yet.

use std::{cmp::Ordering, sync::Arc};

use bytes::Bytes;
use tickwheel::{
    model::{
        clock::ClockRow, entry::Entry, record::Record, state::TaskRow, task::Content, time::Millis,
    },
    store::{Heartbeat, NodeRow, Parked, Unreadable, row::EntryColumns},
};

use super::set::Set;

/// A value of a row.
pub(super) trait Value: Clone + PartialEq {
    /// Returns the result of two different writes of the same time: cell by cell the greater, as
    /// Cassandra decides it.
    fn merged(&self, other: &Self) -> Self;
}

/// One write of a row; no value is a deletion.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Version<V> {
    pub(super) written: i64,
    pub(super) value: Option<V>,
    pub(super) expires: Option<Millis>,
}

impl<V: Value> Version<V> {
    pub(super) const fn new(written: i64, value: V, expires: Option<Millis>) -> Self {
        Self {
            written,
            value: Some(value),
            expires,
        }
    }

    pub(super) const fn deletion(written: i64) -> Self {
        Self {
            written,
            value: None,
            expires: None,
        }
    }

    /// Returns the value, unless it was deleted or its time is over.
    pub(super) fn live(&self, now: impl FnOnce() -> Millis) -> Option<&V> {
        let ended = self.expires.is_some_and(|at| at <= now());
        self.value.as_ref().filter(|_| !ended)
    }

    /// The version of a replica that has seen both.
    fn settled(&self, other: &Self) -> Self {
        match self.written.cmp(&other.written) {
            Ordering::Less => other.clone(),
            Ordering::Greater => self.clone(),
            Ordering::Equal => Self {
                written: self.written,
                value: match (&self.value, &other.value) {
                    (Some(one), Some(other)) if one != other => Some(one.merged(other)),
                    (Some(one), Some(_)) => Some(one.clone()),
                    // A deletion wins.
                    _ => None,
                },
                // None is least: the version that expires wins, and of two the later one.
                expires: self.expires.max(other.expires),
            },
        }
    }
}

/// A row.
#[derive(Debug)]
pub(super) struct Row<V> {
    newest: Version<V>,
    holders: Set,
    older: Vec<(Version<V>, Set)>,
}

impl<V: Value> Row<V> {
    pub(super) const fn new(version: Version<V>, holders: Set) -> Self {
        Self {
            newest: version,
            holders,
            older: Vec::new(),
        }
    }

    /// The newest version, on any replica or none.
    pub(super) const fn newest(&self) -> &Version<V> {
        &self.newest
    }

    /// Some replicas receive a write.
    pub(super) fn receive(&mut self, new: Version<V>, by: Set) {
        if new.written > self.newest.written {
            self.succeed(new, by);
            return;
        }
        if self.older.is_empty() && new == self.newest {
            self.holders = self.holders.with(by);
            return;
        }
        for replica in by.members() {
            self.receive_one(&new, Set::only(replica));
        }
    }

    /// Puts a version that is newer than all in front, held by those replicas.
    pub(super) fn succeed(&mut self, new: Version<V>, by: Set) {
        let past = std::mem::replace(&mut self.newest, new);
        let left = std::mem::replace(&mut self.holders, by).without(by);
        self.older.retain_mut(|(_, holders)| {
            *holders = holders.without(by);
            !holders.is_empty()
        });
        if !left.is_empty() {
            self.older.push((past, left));
        }
    }

    fn receive_one(&mut self, new: &Version<V>, replica: Set) {
        let settled = self
            .held_by(replica)
            .map_or_else(|| new.clone(), |held| held.settled(new));
        self.give(settled, replica);
    }

    /// Makes replicas hold a version in place of what they hold.
    fn give(&mut self, version: Version<V>, to: Set) {
        if version == self.newest {
            self.holders = self.holders.with(to);
        } else {
            self.holders = self.holders.without(to);
        }
        for (held, holders) in &mut self.older {
            *holders = if *held == version {
                holders.with(to)
            } else {
                holders.without(to)
            };
        }
        self.older.retain(|(_, holders)| !holders.is_empty());
        if self.held_by(to).is_none() {
            self.older.push((version, to));
            self.promote();
        }
    }

    /// Puts the newest version that any replica holds in front; returns whether there is one.
    fn promote(&mut self) -> bool {
        let best = (0..self.older.len()).max_by_key(|index| self.older[*index].0.written);
        let Some(best) = best else {
            return !self.holders.is_empty();
        };
        let newer = self.older[best].0.written > self.newest.written;
        if newer || self.holders.is_empty() {
            let (version, holders) = self.older.swap_remove(best);
            let past = std::mem::replace(&mut self.newest, version);
            let past_holders = std::mem::replace(&mut self.holders, holders);
            if !past_holders.is_empty() {
                self.older.push((past, past_holders));
            }
        }
        true
    }

    /// The newest version among those that some of these replicas hold.
    pub(super) fn held_by(&self, replicas: Set) -> Option<&Version<V>> {
        let first = !self.holders.and(replicas).is_empty();
        if first && self.older.is_empty() {
            return Some(&self.newest);
        }
        let held = self
            .older
            .iter()
            .filter(|(_, holders)| !holders.and(replicas).is_empty());
        // Of two of the same time a deletion wins, else the one that lives longer: a reader
        // decides as a replica does.
        held.map(|(version, _)| version)
            .chain(first.then_some(&self.newest))
            .max_by_key(|version| (version.written, version.value.is_none(), version.expires))
    }

    /// Whether these replicas do not all hold the same.
    pub(super) fn differs_among(&self, replicas: Set) -> bool {
        let all = |holders: Set| replicas.without(holders).is_empty();
        !all(self.holders) && !self.older.iter().any(|(_, holders)| all(*holders))
    }

    /// Makes these replicas hold the newest that any of them holds.
    pub(super) fn repair(&mut self, replicas: Set) {
        if !self.holders.and(replicas).is_empty() && self.older.is_empty() {
            self.holders = self.holders.with(replicas);
            return;
        }
        for replica in replicas.members() {
            if let Some(version) = self.held_by(Set::only(replica)).cloned() {
                self.receive(version, replicas);
            }
        }
    }

    /// Makes these replicas hold the newest version.
    pub(super) fn teach(&mut self, replicas: Set) {
        self.holders = self.holders.with(replicas);
        self.older.retain_mut(|(_, holders)| {
            *holders = holders.without(replicas);
            !holders.is_empty()
        });
    }

    /// Some replicas learn the decision of this ballot, unless a newer one has taken its place.
    pub(super) fn learn(&mut self, ballot: i64, by: Set) {
        if self.newest.written == ballot {
            self.teach(by);
        }
    }

    /// These replicas delete what was written up to `written`; tells whether anything is left of the row.
    pub(super) fn erase(&mut self, written: i64, by: Set) -> bool {
        if self.newest.written <= written {
            self.holders = self.holders.without(by);
        }
        for (version, holders) in &mut self.older {
            if version.written <= written {
                *holders = holders.without(by);
            }
        }
        self.older.retain(|(_, holders)| !holders.is_empty());
        self.promote()
    }
}

pub(super) type Stored = Result<Entry, Unreadable>;

impl Value for Stored {
    fn merged(&self, other: &Self) -> Self {
        let (Ok(one), Ok(two)) = (self, other) else {
            return if self.is_err() { self } else { other }.clone();
        };
        let (one_has, two_has) = (EntryColumns::of(one), EntryColumns::of(two));
        let merged = EntryColumns {
            kind: one_has.kind.max(two_has.kind),
            flags: one_has.flags.max(two_has.flags),
            reason: one_has.reason.max(two_has.reason),
            spills: one_has.spills.max(two_has.spills),
            start_ms: one_has.start_ms.max(two_has.start_ms),
            at_ms: one_has.at_ms.max(two_has.at_ms),
            moved_ms: one_has.moved_ms.max(two_has.moved_ms),
            spec: one_has.spec.max(two_has.spec),
        };
        merged.into_entry(one.key, one.written)
    }
}

impl Value for Arc<Content> {
    fn merged(&self, other: &Self) -> Self {
        let greater = self.payload >= other.payload;
        Self::clone(if greater { self } else { other })
    }
}

impl Value for Heartbeat {
    fn merged(&self, other: &Self) -> Self {
        let progress = self.progress.clone().max(other.progress.clone());
        Self {
            progress,
            ..self.clone()
        }
    }
}

impl Value for NodeRow {
    fn merged(&self, other: &Self) -> Self {
        let cells = |row: &Self| (row.wall, row.ready);
        let greater = cells(self) >= cells(other);
        if greater { self } else { other }.clone()
    }
}

impl Value for Parked {
    fn merged(&self, other: &Self) -> Self {
        Self {
            reason: self.reason.clone().max(other.reason.clone()),
            raw: self.raw.clone().max(other.raw.clone()),
            ..self.clone()
        }
    }
}

/// Two decisions never have one ballot.
impl Value for TaskRow {
    fn merged(&self, _: &Self) -> Self {
        self.clone()
    }
}

impl Value for Bytes {
    fn merged(&self, other: &Self) -> Self {
        self.max(other).clone()
    }
}

/// Two decisions never have one ballot.
impl Value for Record {
    fn merged(&self, _: &Self) -> Self {
        self.clone()
    }
}

/// Two decisions never have one ballot here either.
impl Value for ClockRow {
    fn merged(&self, _: &Self) -> Self {
        *self
    }
}
