//! The checker of a drill says which promise does not hold. It uses none of the service's code. It reads the
//! answers that clients got, the runs of the workers, the faults of the driver, the last state of every task
//! and the entries in the slots.
//!
//! | promise | here |
//! |---|---|
//! | I1 an acknowledged task that was not cancelled succeeds | [`ends`] |
//! | I2 nothing begins before its start, by the one clock of the machine, less the error that was injected | [`runs`] |
//! | I3 runs beyond the first are few: none without a fault, two a fault at most; none after the end | [`runs`] |
//! | I4 no two live runs of a task; one that goes on after a stop of its worker is over soon, and fenced | [`runs`] |
//! | I5 attempts go up; without a fault no claim is lost | [`runs`] |
//! | I6 nothing begins after a cancel was acknowledged | [`runs`] |
//! | I1 to I3 of tasks that go to a topic | [`records`] |
//! | I7 lateness; everything overdue has ended soon after the last fault has healed | [`lateness`] |
//! | I8 a topic that takes nothing delays no other | [`sick`] |
//! | I9 a result is that of the run that it says | [`ends`] |
//! | I7 for the operating model: a task that could begin has ended soon | [`waits`] |
//! | I11 each time of a schedule is one run, none is missing, none begins after a pause | [`schedules`] |
//! | I12 a tree is there as a whole, ends once, and not before its last task | [`behind`] |
//! | I13 entries do not multiply, and none is left | [`slots`] |
//! | I14 a dead task rests until somebody asks for it | [`rests`] |
//! | I15 tasks of an ordering key run one at a time and in the order of their starts | [`sequences`] |
//! | I16 a repeated registration is one task; of a key one task is live | [`keys`] |
//! | I17 no task begins behind a closed gate, and each one does soon after the opening | [`gates`] |
//! | I18 each follow-up comes once, behind the task before it and with its result | [`behind`] |
//! | I19 a waiter begins behind all that it waits for | [`behind`] |
//! | I20 a job that has completed leaves no task of its filter to begin | [`rests`] |

mod behind;
mod clocks;
mod ends;
mod gates;
pub(crate) mod history;
mod keys;
mod lateness;
pub(crate) mod pieces;
mod records;
mod rests;
mod runs;
mod schedules;
mod sequences;
mod sick;
mod slots;
mod table;
mod waits;

use std::path::Path;

use serde_json::Value;

use self::history::History;

/// Findings of one kind that are shown in full.
const SHOWN_MAX: usize = 5;

/// A promise by its number, and the check that finds where it does not hold.
type Check = fn(&History) -> Vec<String>;

const CHECKS: [(&str, Check); 32] = [
    ("I1 no loss", ends::lost),
    ("I1 no record lost", records::lost),
    ("I2 never early", runs::early),
    ("I2 no record early", records::early),
    ("I3 few duplicates", runs::too_many),
    ("I3 few records twice", records::too_many),
    ("I3 nothing after the end", runs::after_the_end),
    ("I4 no two at once", runs::at_once),
    ("I4 a stale run is fenced", runs::unfenced),
    ("I5 attempts go up", runs::attempts),
    ("I6 cancelled is cancelled", runs::after_cancel),
    ("I7 ends soon after healing", lateness::too_late),
    (
        "I7 moved tasks begin at their new start",
        lateness::moved_too_late,
    ),
    ("I8 a sick topic delays no other", sick::delays_others),
    ("I9 results are of their runs", ends::false_results),
    ("I13 entries do not multiply", slots::too_many),
    ("I1 work of every kind", waits::absent),
    ("I7 tasks that could begin have ended", waits::too_late),
    (
        "I11 each time of a schedule once",
        schedules::each_time_once,
    ),
    ("I12 no tree ends too soon", behind::tree_too_soon),
    ("I12 each tree ends once", behind::tree_ends_once),
    ("I14 a dead task rests", rests::dead),
    ("I15 one of a sequence at a time", sequences::at_once),
    ("I15 a sequence is in order", sequences::in_order),
    ("I16 one task of a registration", keys::one_task),
    ("I16 one live task of a key", keys::one_live),
    ("I17 a closed gate holds", gates::held),
    ("I17 an open gate releases", gates::released),
    ("I18 no follow-up too soon", behind::follow_up_too_soon),
    ("I18 each end is followed once", behind::followed_once),
    ("I19 no waiter too soon", behind::waiter_too_soon),
    ("I20 a job leaves nothing behind", rests::cancelled_by_job),
];

/// Reads a log; a last line that is cut short belongs to a process that was killed while it wrote.
pub(crate) fn read_lines(root: &Path, name: &str) -> Vec<Value> {
    let path = root.join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.map_while(Result::ok).collect()
}

/// Reads all logs of a folder.
fn read(root: &Path) -> History {
    let names = [
        "driver", "clients", "finals", "slots", "records", "worker-1", "worker-2", "worker-3",
        "worker-4",
    ];
    History::of(names.iter().flat_map(|name| read_lines(root, name)))
}

/// Returns all broken rules, by promise.
pub(crate) fn broken(history: &History) -> Vec<(&'static str, Vec<String>)> {
    CHECKS
        .iter()
        .map(|(name, check)| (*name, check(history)))
        .collect()
}

/// Checks a drill's logs; returns whether every promise holds, and a text for people.
pub(crate) fn report(root: &Path) -> (bool, String) {
    let history = read(root);
    let mut text = table::of(&history);
    let mut good = !history.tasks.is_empty();
    for (name, found) in broken(&history) {
        let verdict = if found.is_empty() { "holds" } else { "BROKEN" };
        text.push_str(&format!("{name}: {verdict}"));
        if !found.is_empty() {
            good = false;
            text.push_str(&format!(" ({} times)", found.len()));
        }
        text.push('\n');
        for one in found.iter().take(SHOWN_MAX) {
            text.push_str(&format!("    {one}\n"));
        }
    }
    (good, text)
}
