//! The checks of I1 to I3 for tasks that go to a topic look at the record alone, since these tasks are not
//! claimed: is it there, when was it produced, and how often.

use super::history::{History, Record};

/// A fault repeats a publication this often at most, as for callbacks.
const AGAIN_PER_FAULT: usize = 2;

/// I1. Each acknowledged record is there, with its id.
pub(super) fn lost(history: &History) -> Vec<String> {
    let lost = history.records.iter().filter_map(|record| {
        let id = record.id.as_ref()?;
        let ids_are_its_own = record.arrived.iter().all(|(_, of)| of == id);
        let what = match record.arrived.is_empty() {
            true => "acknowledged, and not in its topic",
            false if !ids_are_its_own => "a record of it names another task",
            false => return None,
        };
        Some(format!("{id}: {what}: {record:?}"))
    });
    lost.collect()
}

/// I2. None was produced before its start.
pub(super) fn early(history: &History) -> Vec<String> {
    let of_all = history.records.iter().flat_map(|record| {
        record.arrived.iter().filter_map(move |(at, _)| {
            let early = record.start - at;
            (early > history.ahead_ms(*at))
                .then(|| format!("a record was produced {early} ms early: {record:?}"))
        })
    });
    of_all.collect()
}

/// I3. Records beyond the first are bounded by the faults.
pub(super) fn too_many(history: &History) -> Vec<String> {
    let many = history.records.iter().filter(|record| {
        let arrived = || record.arrived.iter().map(|(at, _)| *at);
        // With a clock that is ahead the records, and the faults that explain them, come long
        // before the start.
        let first = arrived().min().unwrap_or(record.start).min(record.start);
        let last = arrived().max().unwrap_or(record.start);
        let faults = history
            .faults_within(first - super::history::AHEAD_MS, last)
            .count();
        record.arrived.len() > 1 + faults * AGAIN_PER_FAULT
    });
    let text = |record: &Record| format!("produced more often than its faults explain: {record:?}");
    many.map(text).collect()
}

/// From start to the first production, in order, of acknowledged records; records for a sick
/// topic are left out.
pub(super) fn lateness(history: &History) -> Vec<i64> {
    let known = history
        .records
        .iter()
        .filter(|record| record.id.is_some() && !record.is_sick);
    let mut late: Vec<i64> = known.filter_map(Record::late_ms).collect();
    late.sort_unstable();
    late
}
