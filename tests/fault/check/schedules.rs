//! The check of I11 judges the runs of schedules by the workers' logs.

use std::collections::{BTreeMap, BTreeSet};

use super::{history::History, keys::ON_ITS_WAY_MS, lateness::longest_well_ms, pieces::Schedule};

/// A time so long before a pause, with nothing broken, has its run; the pause withdraws what has not begun.
const RUN_MAX_MS: i64 = 20_000;

/// I11. Each time of a schedule is one run, none is missing, and none begins after a pause.
pub(super) fn each_time_once(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    for (name, schedule) in &history.pieces.schedules {
        let runs = runs(history, name);
        for (time, ids) in &runs {
            let since = time - schedule.from;
            if since < 0 || since % schedule.every.max(1) != 0 {
                found.push(format!("{name}: {time} is no time of {schedule:?}"));
            }
            if ids.len() > 1 {
                found.push(format!("{name}: {time} has more than one run: {ids:?}"));
            }
        }
        let missing = wanted(history, schedule).filter(|time| !runs.contains_key(time));
        found.extend(missing.map(|time| format!("{name}: {time} has no run: {schedule:?}")));
        found.extend(after_the_pause(history, name, schedule));
    }
    found
}

/// The tasks of each time.
fn runs<'a>(history: &'a History, name: &str) -> BTreeMap<i64, BTreeSet<&'a str>> {
    let mut runs: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
    for task in &history.tasks {
        let of = task.runs.iter().filter_map(|run| run.schedule.as_ref());
        for (_, time) in of.filter(|(schedule, _)| schedule == name) {
            runs.entry(*time).or_default().insert(&task.id);
        }
    }
    runs
}

/// The times that must have a run: from the answer to the schedule on, long enough before its pause.
fn wanted<'a>(history: &'a History, schedule: &'a Schedule) -> impl Iterator<Item = i64> + 'a {
    let pausing = schedule.pausing.unwrap_or(history.over);
    let every = usize::try_from(schedule.every.max(1)).unwrap_or(1);
    let from = schedule.set.map_or(pausing, |_| schedule.from);
    (from..pausing).step_by(every).filter(move |time| {
        schedule.set.is_some_and(|set| *time > set)
            && longest_well_ms(history, *time, pausing) > RUN_MAX_MS
    })
}

fn after_the_pause<'a>(
    history: &'a History,
    name: &'a str,
    schedule: &'a Schedule,
) -> impl Iterator<Item = String> + 'a {
    let paused = schedule.paused.unwrap_or(i64::MAX);
    let runs = history.tasks.iter().flat_map(|task| task.runs.first());
    let late = runs.filter(move |run| {
        let is_of_it = run.schedule.as_ref().is_some_and(|(of, _)| of == name);
        is_of_it && run.begin > paused.saturating_add(ON_ITS_WAY_MS) && !run.was_held_up()
    });
    late.map(move |run| format!("{name}: a run began after the pause at {paused}: {run:?}"))
}
