//! The check of I8 compares the tasks beside a topic that takes nothing with those beside a
//! healthy one, under equal load.

use super::{
    history::{History, Record},
    lateness::{self, permille},
};

/// One task in a hundred may be later than beside a healthy topic by half, plus this noise of a
/// busy machine of two cores.
const NOISE_MS: i64 = 500;

/// One comparison: how late one task in a hundred was, beside a healthy topic and beside the sick one.
pub(super) struct Compared {
    pub(super) healthy_ms: i64,
    pub(super) sick_ms: i64,
}

/// Every time a healthy load was followed by a sick one.
pub(super) fn compared(history: &History) -> Vec<Compared> {
    let kinds = |index: usize| history.loads.get(index).map(|(_, kind)| kind.as_str());
    let at = |index: usize| history.loads.get(index).map(|(at, _)| *at);
    let found = (0..history.loads.len()).filter_map(|index| {
        if (kinds(index)?, kinds(index + 1)?) != ("healthy", "sick") {
            return None;
        }
        let (from, turn, to) = (at(index)?, at(index + 1)?, at(index + 2)?);
        Some(Compared {
            healthy_ms: permille(&late(history, from, turn), 990)?,
            sick_ms: permille(&late(history, turn, to), 990)?,
        })
    });
    found.collect()
}

/// The lateness of all tasks and records that were due between two moments, without the records
/// for the sick topic.
fn late(history: &History, from: i64, to: i64) -> Vec<i64> {
    let mut late = lateness::lateness(history, from, to);
    let others = history.records.iter().filter(|record| {
        !record.is_sick && record.id.is_some() && (from..to).contains(&record.start)
    });
    late.extend(others.filter_map(Record::late_ms));
    late.sort_unstable();
    late
}

/// I8. Tasks beside a sick topic are as late as tasks beside a healthy one.
pub(super) fn delays_others(history: &History) -> Vec<String> {
    let worse = compared(history)
        .into_iter()
        .filter(|compared| compared.sick_ms > compared.healthy_ms * 3 / 2 + NOISE_MS);
    let text = |compared: Compared| {
        format!(
            "one in a hundred was {} ms late beside a sick topic, {} ms beside a healthy one",
            compared.sick_ms, compared.healthy_ms
        )
    };
    worse.map(text).collect()
}
