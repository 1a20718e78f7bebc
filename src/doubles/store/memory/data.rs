//! The data module keeps the rows of the memory store for tests and applies each operation, without faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::records::Records;
use crate::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key},
        ids::{NodeId, TaskId},
        state::{Expect, TaskRow, Transition},
        task::Content,
        time::Millis,
        wheel::{Shape, Slot, Span, WheelNumber},
    },
    store::{
        Erasure, Error, Heartbeat, NodeRow, Page, Parked, Scan, ScannedRow, Swapped, Unreadable,
    },
};

/// Rows of the node list vanish after this time.
const NODE_TTL: Duration = Duration::from_secs(30);

pub(super) struct StoredRow {
    pub(super) written: i64,
    pub(super) entry: Result<Entry, Unreadable>,
}

pub(super) struct StoredBody {
    pub(super) written: i64,
    pub(super) content: Option<Content>,
    pub(super) expires: Option<Millis>,
}

#[derive(Default)]
pub(super) struct Data {
    pub(super) wheel: BTreeMap<(WheelNumber, Slot, Key), StoredRow>,
    /// Range deletes stay: as in a real store, a write with an older time that arrives later must stay
    /// invisible.
    pub(super) tombstones: Vec<(WheelNumber, Slot, Span, i64)>,
    pub(super) bodies: BTreeMap<TaskId, StoredBody>,
    pub(super) clocks: BTreeMap<WheelNumber, ClockRow>,
    pub(super) clock_violations: Vec<String>,
    pub(super) tasks: BTreeMap<TaskId, (TaskRow, Option<Millis>)>,
    pub(super) heartbeats: BTreeMap<(TaskId, u32), (Heartbeat, Millis)>,
    /// Tasks whose rows cannot be understood.
    pub(super) spoiled: BTreeSet<TaskId>,
    /// Tasks whose contents, kept apart, cannot be understood.
    pub(super) spoiled_bodies: BTreeSet<TaskId>,
    /// Attempts whose signs of life cannot be understood.
    pub(super) spoiled_beats: BTreeSet<(TaskId, u32)>,
    /// Tasks whose rows cannot be read for now.
    pub(super) unreachable: BTreeSet<TaskId>,
    pub(super) nodes: BTreeMap<NodeId, NodeRow>,
    pub(super) parked: Vec<Parked>,
    pub(super) records: Records,
    pub(super) page_rows_max: Option<usize>,
}

impl Data {
    pub(super) fn put_row(
        &mut self,
        shape: &Shape,
        key: Key,
        written: i64,
        entry: Result<Entry, Unreadable>,
    ) {
        let slot = key.slot(shape);
        let shadowed = self.tombstones.iter().any(|(wheel, at, span, newest)| {
            *wheel == key.wheel() && *at == slot && span.contains(key.due) && written <= *newest
        });
        let place = (key.wheel(), slot, key);
        let newer = self
            .wheel
            .get(&place)
            .is_none_or(|row| row.written <= written);
        if !shadowed && newer {
            self.wheel.insert(place, StoredRow { written, entry });
        }
    }

    pub(super) fn scan(&self, scan: &Scan) -> Page {
        let max = self
            .page_rows_max
            .map_or(scan.rows_max, |max| max.min(scan.rows_max));
        let mut rows: Vec<ScannedRow> = self
            .wheel
            .range((scan.wheel, scan.slot, lowest(scan.span))..)
            .take_while(|((wheel, slot, key), _)| {
                *wheel == scan.wheel && *slot == scan.slot && scan.span.contains(key.due)
            })
            .filter(|((_, _, key), _)| scan.behind.is_none_or(|behind| *key > behind))
            .take(max + 1)
            .map(|((_, _, key), row)| ScannedRow {
                key: *key,
                written: row.written,
                entry: row.entry.clone(),
            })
            .collect();
        let more = rows.len() > max;
        rows.truncate(max);
        Page { rows, more }
    }

    pub(super) fn find(&self, shape: &Shape, id: TaskId, dues: &[Millis]) -> Vec<Entry> {
        let mut found: Vec<Entry> = Vec::new();
        for due in dues {
            let slot = shape.slot_of_due(*due);
            let rows = self.wheel.range((id.wheel(), slot, lowest_of(*due, id))..);
            let mine = rows.take_while(|((wheel, at, key), _)| {
                *wheel == id.wheel() && *at == slot && key.due == *due && key.id == id
            });
            found.extend(mine.filter_map(|(_, row)| row.entry.clone().ok()));
        }
        found.sort_by_key(|entry| entry.key);
        found.dedup_by_key(|entry| entry.key);
        found
    }

    pub(super) fn erase(&mut self, shape: &Shape, wheel: WheelNumber, erasure: &Erasure) {
        let (slot, span) = (shape.slot_of(erasure.tick), shape.span_of(erasure.tick));
        self.wheel.retain(|(at_wheel, at_slot, key), row| {
            !(*at_wheel == wheel
                && *at_slot == slot
                && span.contains(key.due)
                && row.written <= erasure.newest_written)
        });
        self.tombstones
            .push((wheel, slot, span, erasure.newest_written));
    }

    pub(super) fn put_body(
        &mut self,
        id: TaskId,
        content: Option<Content>,
        written: i64,
        expires: Option<Millis>,
    ) {
        if self
            .bodies
            .get(&id)
            .is_none_or(|body| body.written <= written)
        {
            self.bodies.insert(
                id,
                StoredBody {
                    written,
                    content,
                    expires,
                },
            );
        }
    }

    pub(super) fn body(&self, id: TaskId, now: Millis) -> Option<Content> {
        let body = self.bodies.get(&id)?;
        body.expires
            .is_none_or(|at| at > now)
            .then(|| body.content.clone())?
    }

    pub(super) fn swap_clock(
        &mut self,
        shape: &Shape,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Option<Swapped<ClockRow>> {
        let row = self.clocks.get_mut(&wheel)?;
        let same = ClockRow {
            wall: row.wall,
            ..*from
        } == *row;
        if !same {
            return Some(Swapped::Conflict(*row));
        }
        if !row.may_become(to, shape) {
            self.clock_violations
                .push(format!("wheel {}: {row:?} -> {to:?}", wheel.get()));
        }
        *row = *to;
        Some(Swapped::Applied)
    }

    pub(super) fn task(&self, id: TaskId, now: Millis) -> Option<TaskRow> {
        let (row, expires) = self.tasks.get(&id)?;
        expires.is_none_or(|at| at > now).then(|| row.clone())
    }

    /// Reads a row, unless it cannot be read or understood.
    pub(super) fn read_task(&self, id: TaskId, now: Millis) -> Result<Option<TaskRow>, Error> {
        let operation = "read tasks";
        if self.unreachable.contains(&id) {
            return Err(Error::Unavailable {
                operation,
                reason: format!("the servers of task {id} are away"),
            });
        }
        if self.spoiled.contains(&id) {
            return Err(Error::Corrupt {
                operation,
                reason: format!("task {id}: column state is missing"),
            });
        }
        Ok(self.task(id, now))
    }

    pub(super) fn swap_task(&mut self, transition: &Transition, now: Millis) -> Swapped<Expect> {
        let id = transition.row.id;
        let current = self.task(id, now);
        if current
            .as_ref()
            .is_some_and(|row| row.nonce == transition.row.nonce)
        {
            return Swapped::Applied;
        }
        if !transition.expect.holds(current.as_ref()) {
            return Swapped::Conflict(current.as_ref().map_or(Expect::Absent, TaskRow::seen));
        }
        let expires = transition.ttl.map(|ttl| now.after(ttl));
        self.tasks.insert(id, (transition.row.clone(), expires));
        Swapped::Applied
    }

    pub(super) fn live_nodes(&self, now: Millis) -> Vec<NodeRow> {
        self.nodes
            .values()
            .filter(|row| row.wall.after(NODE_TTL) > now)
            .cloned()
            .collect()
    }
}

fn lowest(span: Span) -> Key {
    lowest_of(Millis(span.after.0 + 1), TaskId::FIRST)
}

fn lowest_of(due: Millis, id: TaskId) -> Key {
    Key {
        due,
        id,
        generation: 0,
        code: crate::model::entry::KeyCode(i32::MIN),
    }
}
