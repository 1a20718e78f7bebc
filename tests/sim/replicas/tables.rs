//! `Tables` holds the rows of the three replicas for the store, and applies plain writes to the
//! replicas that they reach.

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use tickwheel::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key},
        entry_life,
        ids::{NodeId, TaskId},
        record,
        state::TaskRow,
        task::Content,
        time::{Millis, Tick},
        wheel::{Shape, Slot, WheelNumber},
    },
    store::{Heartbeat, NodeRow, Parked, index},
};

use super::{
    row::{Row, Stored, Value, Version},
    set::{REPLICAS, Set},
};

/// Parked entries are listed by the day.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The place of an entry, in the order of the store.
pub(super) type Place = (WheelNumber, Slot, Key);

/// The place of a parked entry.
pub(super) type ParkedPlace = (i64, Millis, Key);

/// A plain write of one partition, on its way.
#[derive(Debug)]
pub(super) enum Write {
    Entries(Vec<Entry>),
    Garbage(Place, Version<Stored>),
    Erase(WheelNumber, Tick, i64),
    Body(TaskId, Version<Arc<Content>>),
    Heartbeat(Version<Heartbeat>),
    Node(NodeId, Version<NodeRow>),
    Park(Version<Parked>),
    /// A decided clock of this ballot becomes known.
    LearnClock(WheelNumber, i64),
    /// A decided row of a task of this ballot becomes known.
    LearnTask(TaskId, i64),
    /// Rows of one partition of the index.
    Index(Vec<(index::Place, Version<Bytes>)>),
    /// A decided record of this ballot becomes known.
    LearnRecord(record::Name, i64),
}

/// The text for the trace: kind, place and write time.
impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wheel = |wheel: &WheelNumber| wheel.get();
        match self {
            Self::Entries(entries) => {
                for entry in entries {
                    let Key {
                        due,
                        id,
                        generation,
                        code,
                    } = entry.key;
                    let (due, code, written) = (due.0, code.0, entry.written);
                    write!(f, "[{due} {id} {generation} {code} @{written}]")?;
                }
                Ok(())
            }
            Self::Garbage((_, _, key), _) => write!(f, "garbage at {}", key.due),
            Self::Erase(on, tick, newest) => write!(f, "w{} t{} @{newest}", wheel(on), tick.0),
            Self::Body(id, version) => write!(f, "{id} @{}", version.written),
            Self::Heartbeat(version) => match &version.value {
                Some(beat) => write!(f, "{} {} @{}", beat.id, beat.attempt, version.written),
                None => Ok(()),
            },
            Self::Node(node, version) => write!(f, "{node} @{}", version.written),
            Self::Park(version) => write!(f, "@{}", version.written),
            Self::LearnClock(on, ballot) => write!(f, "w{} decision {ballot}", wheel(on)),
            Self::LearnTask(id, ballot) => write!(f, "{id} decision {ballot}"),
            Self::Index(rows) => {
                for (place, version) in rows {
                    let there = version.value.is_some();
                    write!(f, "[{:?} @{} {there}]", place.sort(), version.written)?;
                }
                Ok(())
            }
            Self::LearnRecord(name, ballot) => write!(f, "{name} decision {ballot}"),
        }
    }
}

/// The range deletes of each replica by tick. They stay, so that older writes that arrive later
/// are deleted too.
#[derive(Debug, Default)]
pub(super) struct Erasures(BTreeMap<(WheelNumber, Tick), [i64; REPLICAS]>);

impl Erasures {
    fn of(&self, wheel: WheelNumber, tick: Tick) -> [i64; REPLICAS] {
        let none = [i64::MIN; REPLICAS];
        self.0.get(&(wheel, tick)).copied().unwrap_or(none)
    }

    /// The newest delete of a tick that any of these replicas knows.
    pub(super) fn newest(&self, wheel: WheelNumber, tick: Tick, of: Set) -> i64 {
        let known = self.of(wheel, tick);
        let newest = of.members().map(|replica| known[replica]).max();
        newest.unwrap_or(i64::MIN)
    }

    /// The replicas whose deletes cover a write of this time.
    fn covering(&self, wheel: WheelNumber, tick: Tick, written: i64) -> Set {
        let known = self.of(wheel, tick);
        let covering = (0..REPLICAS).filter(|replica| known[*replica] >= written);
        covering.fold(Set::NONE, |all, replica| all.with(Set::only(replica)))
    }

    fn note(&mut self, wheel: WheelNumber, tick: Tick, newest: i64, by: Set) {
        let none = [i64::MIN; REPLICAS];
        let known = self.0.entry((wheel, tick)).or_insert(none);
        for replica in by.members() {
            known[replica] = known[replica].max(newest);
        }
    }
}

/// The tables of all replicas.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) shape: Shape,
    pub(super) wheel: BTreeMap<Place, Row<Stored>>,
    pub(super) erased: Erasures,
    pub(super) bodies: BTreeMap<TaskId, Row<Arc<Content>>>,
    pub(super) heartbeats: BTreeMap<(TaskId, u32), Row<Heartbeat>>,
    pub(super) nodes: BTreeMap<NodeId, Row<NodeRow>>,
    pub(super) parked: BTreeMap<ParkedPlace, Row<Parked>>,
    pub(super) clocks: BTreeMap<WheelNumber, Row<ClockRow>>,
    pub(super) tasks: BTreeMap<TaskId, Row<TaskRow>>,
    pub(super) records: BTreeMap<record::Name, Row<record::Record>>,
    pub(super) index: BTreeMap<index::Place, Row<Bytes>>,
}

impl Tables {
    pub(super) fn new(shape: Shape, now: Millis) -> Self {
        let clock = |wheel| {
            let first = Version::new(0, ClockRow::first(&shape, now), None);
            (wheel, Row::new(first, Set::ALL))
        };
        Self {
            shape,
            wheel: BTreeMap::new(),
            erased: Erasures::default(),
            bodies: BTreeMap::new(),
            heartbeats: BTreeMap::new(),
            nodes: BTreeMap::new(),
            parked: BTreeMap::new(),
            clocks: shape.all_wheels().map(clock).collect(),
            tasks: BTreeMap::new(),
            records: BTreeMap::new(),
            index: BTreeMap::new(),
        }
    }

    pub(super) fn place(&self, key: Key) -> Place {
        (key.wheel(), key.slot(&self.shape), key)
    }

    /// Some replicas receive a write.
    pub(super) fn receive(&mut self, write: &Write, by: Set) {
        match write {
            Write::Entries(entries) => {
                for entry in entries {
                    let expires = entry_life::expires(entry, &self.shape);
                    let version = Version::new(entry.written, Ok(entry.clone()), expires);
                    self.receive_entry(self.place(entry.key), version, by);
                }
            }
            Write::Garbage(place, version) => self.receive_entry(*place, version.clone(), by),
            Write::Erase(wheel, tick, newest) => self.erase(*wheel, *tick, *newest, by),
            Write::Body(id, version) => receive(&mut self.bodies, *id, version, by),
            Write::Heartbeat(version) => {
                if let Some(beat) = &version.value {
                    let key = (beat.id, beat.attempt);
                    receive(&mut self.heartbeats, key, version, by);
                }
            }
            Write::Node(node, version) => receive(&mut self.nodes, *node, version, by),
            Write::Park(version) => {
                if let Some(parked) = &version.value {
                    let place = (day_of(parked.at), parked.at, parked.key);
                    receive(&mut self.parked, place, version, by);
                }
            }
            Write::LearnClock(wheel, ballot) => {
                if let Some(row) = self.clocks.get_mut(wheel) {
                    row.learn(*ballot, by);
                }
            }
            Write::LearnTask(id, ballot) => {
                if let Some(row) = self.tasks.get_mut(id) {
                    row.learn(*ballot, by);
                }
            }
            Write::Index(rows) => {
                for (place, version) in rows {
                    receive(&mut self.index, place.clone(), version, by);
                }
            }
            Write::LearnRecord(name, ballot) => {
                if let Some(row) = self.records.get_mut(name) {
                    row.learn(*ballot, by);
                }
            }
        }
    }

    fn receive_entry(&mut self, place: Place, version: Version<Stored>, by: Set) {
        let (wheel, _, key) = place;
        let tick = self.shape.tick().tick_of(key.due);
        let by = by.without(self.erased.covering(wheel, tick, version.written));
        if by.is_empty() {
            return;
        }
        match self.wheel.entry(place) {
            btree_map::Entry::Occupied(mut row) => row.get_mut().receive(version, by),
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Row::new(version, by));
            }
        }
    }

    fn erase(&mut self, wheel: WheelNumber, tick: Tick, newest: i64, by: Set) {
        self.erased.note(wheel, tick, newest, by);
        let (slot, span) = (self.shape.slot_of(tick), self.shape.span_of(tick));
        let bound = |due| (wheel, slot, Key::behind(due));
        let mut gone = Vec::new();
        let covered = self
            .wheel
            .range_mut(bound(span.after)..=bound(span.through));
        for (place, row) in covered {
            if !row.erase(newest, by) {
                gone.push(*place);
            }
        }
        for place in gone {
            self.wheel.remove(&place);
        }
    }

    /// The newest delete of a tick that these replicas know; with `repair` they all know it from now on.
    pub(super) fn erasure(&mut self, wheel: WheelNumber, tick: Tick, of: Set, repair: bool) -> i64 {
        let newest = self.erased.newest(wheel, tick, of);
        let known = self.erased.of(wheel, tick);
        if repair && of.members().any(|replica| known[replica] != newest) {
            self.erase(wheel, tick, newest, of);
        }
        newest
    }

    /// The slots, and the deletes that shadow what is in them.
    pub(super) const fn slots(&mut self) -> (&mut BTreeMap<Place, Row<Stored>>, &Erasures) {
        (&mut self.wheel, &self.erased)
    }
}

fn receive<K: Ord, V: Value>(
    table: &mut BTreeMap<K, Row<V>>,
    key: K,
    version: &Version<V>,
    by: Set,
) {
    match table.entry(key) {
        btree_map::Entry::Occupied(mut row) => {
            row.get_mut().receive(version.clone(), by);
        }
        btree_map::Entry::Vacant(vacant) => {
            vacant.insert(Row::new(version.clone(), by));
        }
    }
}

pub(super) const fn day_of(at: Millis) -> i64 {
    at.0.div_euclid(DAY_MS)
}
