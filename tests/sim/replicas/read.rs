//! A read takes the newest rows of two replicas for its caller, and repairs differences between the two.

use std::{collections::BTreeMap, ops::Bound};

use tickwheel::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key, KeyCode},
        ids::TaskId,
        state::TaskRow,
        time::Millis,
        wheel::WheelNumber,
    },
    store::{Freshness, Heartbeat, NodeRow, Page, Parked, Scan, ScannedRow},
};

use super::{
    cluster::Cluster,
    faults::one_of,
    round::Partition,
    row::{Row, Value},
    set::Set,
    tables::day_of,
};

/// The view of one read.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// The replicas that answer.
    pub(super) of: Set,
    /// Whether it gets to repair them.
    repairs: bool,
}

impl Cluster {
    /// Chooses the replicas that answer a read of a node.
    pub(super) fn view(&mut self, node: usize) -> View {
        let reach = self.reach(node);
        // Without a quorum now the read was answered a moment ago.
        let reach = if reach.is_quorum() { reach } else { Set::ALL };
        let of = if reach == Set::ALL {
            reach.without(Set::only(one_of(&mut self.dice)))
        } else {
            reach
        };
        let unrepaired = self.faults.reads_unrepaired;
        View {
            of,
            repairs: !self.dice.hits(unrepaired),
        }
    }

    pub(super) fn scan(&mut self, scan: &Scan, view: View) -> Page {
        if let Some(page) = self.empty_page(scan) {
            return page;
        }
        let Scan {
            wheel, slot, span, ..
        } = *scan;
        let before = Key::behind(span.after);
        let from = scan.behind.map_or(before, |behind| behind.max(before));
        let through = Key::behind(span.through);
        if from >= through {
            return Page::default();
        }
        let tick = self.tables.shape.tick();
        let mut known = (tick.tick_of(span.through), 0);
        known.1 = self.tables.erasure(wheel, known.0, view.of, view.repairs);
        let (from, through) = ((wheel, slot, from), (wheel, slot, through));
        let range = (Bound::Excluded(from), Bound::Included(through));
        let rows_max = scan.rows_max.max(1);
        let now = self.now();
        let mut rows = Vec::new();
        let (table, erasures) = self.tables.slots();
        for ((_, _, key), row) in table.range_mut(range) {
            let at = tick.tick_of(key.due);
            if at != known.0 {
                known = (at, erasures.newest(wheel, at, view.of));
            }
            let Some(version) = seen(row, view) else {
                continue;
            };
            let written = version.written;
            if let Some(entry) = version.live(|| now).filter(|_| written > known.1) {
                rows.push(ScannedRow {
                    key: *key,
                    written,
                    entry: entry.clone(),
                });
            }
            if rows.len() == rows_max {
                break;
            }
        }
        self.cut(rows, rows_max)
    }

    /// Returns a page without rows that is not the last, now and then.
    fn empty_page(&mut self, scan: &Scan) -> Option<Page> {
        let empty = self.dice.hits(self.faults.pages_empty) && self.last_empty != Some(*scan);
        if self.faults.pages_empty > 0 {
            self.last_empty = empty.then_some(*scan);
        }
        empty.then(|| Page {
            rows: Vec::new(),
            more: true,
        })
    }

    fn cut(&mut self, mut rows: Vec<ScannedRow>, rows_max: usize) -> Page {
        let mut more = rows.len() == rows_max;
        if !rows.is_empty() && self.dice.hits(self.faults.pages_cut) {
            let kept = 1 + self.dice.below(rows.len() as u64);
            rows.truncate(usize::try_from(kept).unwrap_or(1));
            more = true;
        }
        Page { rows, more }
    }

    pub(super) fn find_entries(&mut self, id: TaskId, dues: &[Millis], view: View) -> Vec<Entry> {
        let mut dues = dues.to_vec();
        dues.sort_unstable();
        dues.dedup();
        let (wheel, now) = (id.wheel(), self.now());
        let mut found = Vec::new();
        for due in dues {
            let tick = self.tables.shape.tick().tick_of(due);
            let slot = self.tables.shape.slot_of(tick);
            let erased = self.tables.erasure(wheel, tick, view.of, view.repairs);
            let bound = |generation, code| {
                let code = KeyCode(code);
                let key = Key {
                    due,
                    id,
                    generation,
                    code,
                };
                (wheel, slot, key)
            };
            let mine = bound(0, i32::MIN)..=bound(u32::MAX, i32::MAX);
            for (_, row) in self.tables.wheel.range_mut(mine) {
                let version = seen(row, view).filter(|version| version.written > erased);
                if let Some(Ok(entry)) = version.and_then(|version| version.live(|| now)) {
                    found.push(entry.clone());
                }
            }
        }
        found
    }

    pub(super) fn heartbeat(&mut self, attempt: (TaskId, u32), view: View) -> Option<Heartbeat> {
        look(&mut self.tables.heartbeats, &attempt, view, self.time.now())
    }

    pub(super) fn body(
        &mut self,
        id: TaskId,
        view: View,
    ) -> Option<tickwheel::model::task::Content> {
        let content = look(&mut self.tables.bodies, &id, view, self.time.now());
        content.map(|content| (*content).clone())
    }

    pub(super) fn live_nodes(&mut self, view: View) -> Vec<NodeRow> {
        let now = self.now();
        let rows = self.tables.nodes.values_mut();
        rows.filter_map(|row| seen(row, view)?.live(|| now).cloned())
            .collect()
    }

    pub(super) fn parked(&mut self, at: Millis, max: usize, view: View) -> Vec<Parked> {
        let (day, now) = (day_of(at), self.now());
        let lowest = |day| (day, Millis(i64::MIN), Key::behind(Millis(i64::MIN)));
        let rows = self.tables.parked.range_mut(lowest(day)..lowest(day + 1));
        rows.filter_map(|(_, row)| seen(row, view)?.live(|| now).cloned())
            .take(max)
            .collect()
    }

    pub(super) fn clock(
        &mut self,
        wheel: WheelNumber,
        freshness: Freshness,
        view: View,
    ) -> Option<ClockRow> {
        if freshness == Freshness::Serial {
            self.settle(&Partition::Clock(wheel));
        }
        let row = self.tables.clocks.get_mut(&wheel)?;
        decided(row, freshness, view)?.value
    }

    pub(super) fn task(&mut self, id: TaskId, freshness: Freshness, view: View) -> Option<TaskRow> {
        if freshness == Freshness::Serial {
            self.settle(&self.home(id));
        }
        let time = &self.time;
        let row = self.tables.tasks.get_mut(&id)?;
        decided(row, freshness, view)?.live(|| time.now()).cloned()
    }
}

/// The version of a plain row that a read sees.
pub(super) fn seen<V: Value>(row: &mut Row<V>, view: View) -> Option<&super::row::Version<V>> {
    if view.repairs && row.differs_among(view.of) {
        row.repair(view.of);
    }
    row.held_by(view.of)
}

/// The version of a conditionally written row that a read sees; a serial read sees the decided one.
pub(super) fn decided<V: Value>(
    row: &mut Row<V>,
    freshness: Freshness,
    view: View,
) -> Option<&super::row::Version<V>> {
    if freshness == Freshness::Quorum {
        return seen(row, view);
    }
    row.teach(view.of);
    Some(row.newest())
}

fn look<K: Ord, V: Value>(
    table: &mut BTreeMap<K, Row<V>>,
    key: &K,
    view: View,
    now: Millis,
) -> Option<V> {
    let row = table.get_mut(key)?;
    seen(row, view)?.live(|| now).cloned()
}
