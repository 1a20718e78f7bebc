//! This module shows the tests the newest rows that any replica holds at the end of a run, without faults.

use tickwheel::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key},
        ids::TaskId,
        record::Record,
        state::TaskRow,
        wheel::WheelNumber,
    },
    store::{Heartbeat, NodeRow, Parked, Unreadable},
};

use super::{
    Replicas,
    cluster::Cluster,
    row::{Row, Value, Version},
    set::Set,
    tables::Write,
};

impl Replicas {
    /// Returns every live row of every slot.
    pub(crate) fn entries(&self) -> Vec<(Key, Option<Entry>)> {
        let cluster = self.lock();
        let (now, tick) = (cluster.now(), self.shape.tick());
        let live = cluster.tables.wheel.iter().filter_map(|(place, row)| {
            let (wheel, _, key) = *place;
            let tick = tick.tick_of(key.due);
            let erased = cluster.tables.erased.newest(wheel, tick, Set::ALL);
            let version = row.newest();
            let entry = version.live(|| now).filter(|_| version.written > erased)?;
            Some((key, entry.clone().ok()))
        });
        live.collect()
    }

    /// Returns every record that has a value.
    pub(crate) fn record_rows(&self) -> Vec<Record> {
        let cluster = self.lock();
        live(&cluster, cluster.tables.records.values())
    }

    /// Returns every task row that has been decided and has not expired.
    pub(crate) fn task_rows(&self) -> Vec<TaskRow> {
        let cluster = self.lock();
        live(&cluster, cluster.tables.tasks.values())
    }

    /// Returns what has been decided about a task.
    pub(crate) fn task_row(&self, id: TaskId) -> Option<TaskRow> {
        self.lock().decided_task(id).cloned()
    }

    /// Returns what has been decided about a wheel.
    pub(crate) fn clock_row(&self, wheel: WheelNumber) -> Option<ClockRow> {
        self.lock().decided_clock(wheel)
    }

    /// Returns every clock, by wheel.
    pub(crate) fn clock_rows(&self) -> Vec<(WheelNumber, ClockRow)> {
        let cluster = self.lock();
        let rows = cluster.tables.clocks.iter();
        rows.filter_map(|(wheel, row)| Some((*wheel, row.newest().value?)))
            .collect()
    }

    /// Returns the list of nodes.
    pub(crate) fn node_rows(&self) -> Vec<NodeRow> {
        let cluster = self.lock();
        live(&cluster, cluster.tables.nodes.values())
    }

    /// Returns every sign of life.
    pub(crate) fn all_heartbeats(&self) -> Vec<Heartbeat> {
        let cluster = self.lock();
        live(&cluster, cluster.tables.heartbeats.values())
    }

    /// Returns everything that was set aside.
    pub(crate) fn all_parked(&self) -> Vec<Parked> {
        let cluster = self.lock();
        live(&cluster, cluster.tables.parked.values())
    }

    /// Returns the ids whose contents are kept apart.
    pub(crate) fn body_ids(&self) -> Vec<TaskId> {
        let cluster = self.lock();
        let now = cluster.now();
        let bodies = cluster.tables.bodies.iter();
        bodies
            .filter(|(_, row)| row.newest().live(|| now).is_some())
            .map(|(id, _)| *id)
            .collect()
    }

    /// Every change of a clock row that broke its rules; any entry here is an error of the protocol.
    pub(crate) fn clock_violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Puts a row that cannot be understood.
    pub(crate) fn put_garbage(&self, key: Key, written: i64) {
        let unreadable = Unreadable {
            reason: "garbage".to_owned(),
            newer: false,
            raw: bytes::Bytes::from_static(b"\xff"),
        };
        let mut cluster = self.lock();
        let place = cluster.tables.place(key);
        let version = Version::new(written, Err(unreadable), None);
        let write = Write::Garbage(place, version);
        cluster.tables.receive(&write, Set::ALL);
    }
}

fn live<'a, V: Value + 'a>(cluster: &Cluster, rows: impl Iterator<Item = &'a Row<V>>) -> Vec<V> {
    let now = cluster.now();
    rows.filter_map(|row| row.newest().live(|| now).cloned())
        .collect()
}
