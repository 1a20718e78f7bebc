//! These tests prove that the checker can fail. Each forges logs with one lie, and the checker must find the
//! one promise that the lie breaks, and no other one.

use serde_json::{Value, json};

use crate::check::{broken, history::History};

/// The base: load from 0 on, calm until a fault from 100 s to 120 s, over at 300 s. Times are milliseconds.
pub(crate) const FAULT: i64 = 100_000;
pub(crate) const HEALED: i64 = 120_000;
pub(crate) const OVER: i64 = 300_000;

/// A task whose life is told by its lines.
struct Forged(Vec<Value>);

/// A task due at `start` that ran as these say: worker, attempt, begin, end, how.
fn task(n: u64, start: i64, runs: &[(&str, u64, i64, i64, &str)]) -> Forged {
    let id = format!("task-{n}");
    let mut lines = vec![
        json!({"what": "ask", "op": "register", "n": n, "start": start, "retries": 0, "t": start - 5000}),
        json!({"what": "told", "op": "register", "n": n, "told": "ok", "id": id, "t": start - 4990}),
    ];
    for (worker, attempt, begin, end, how) in runs {
        let of = |what: &str, t: &i64| json!({"what": what, "how": how, "w": worker, "life": "1", "id": id, "attempt": attempt, "n": n, "start": start, "t": t});
        lines.extend([of("begin", begin), of("end", end)]);
    }
    if let Some((worker, attempt, ..)) = runs.last() {
        let result = json!({"w": worker, "attempt": attempt, "n": n});
        lines.push(last(
            n,
            &json!({"state": "succeeded", "attempt": attempt, "worker": worker, "result": result}),
        ));
    }
    Forged(lines)
}

pub(crate) fn last(n: u64, task: &Value) -> Value {
    json!({"what": "final", "id": format!("task-{n}"), "status": 200, "task": task, "t": OVER})
}

fn told(n: u64, op: &str, start: i64, told: &str, t: i64) -> [Value; 2] {
    let id = format!("task-{n}");
    [
        json!({"what": "ask", "op": op, "id": id, "start": start, "t": t - 10}),
        json!({"what": "told", "op": op, "id": id, "start": start, "told": told, "t": t}),
    ]
}

pub(crate) fn process(who: &str, did: &str, t: i64) -> Value {
    json!({"what": "process", "who": who, "did": did, "life": 1, "t": t})
}

/// So many tasks in the calm that a single one is more than one in a thousand only by the exception for few.
fn base() -> Vec<Value> {
    let mut lines = vec![
        json!({"what": "calm", "t": 0}),
        json!({"what": "fault", "name": "kill-node", "victims": ["node-1"], "t": FAULT}),
        json!({"what": "mended", "name": "kill-node", "t": HEALED - 1000}),
        json!({"what": "healed", "name": "kill-node", "t": HEALED}),
        json!({"what": "slots", "entries": 7, "tasks": 5, "many": {}, "t": 150_000}),
        json!({"what": "slots", "entries": 0, "tasks": 0, "many": {}, "t": OVER - 1}),
        json!({"what": "over", "t": OVER}),
    ];
    for n in 1000..1020 {
        let start = 10_000 + i64::try_from(n).unwrap();
        lines.extend(task(n, start, &[("worker-1", 1, start + 20, start + 40, "done")]).0);
    }
    lines
}

/// The promises that these lines beside the base break.
fn found(lines: &[Value]) -> Vec<&'static str> {
    let history = History::of(base().into_iter().chain(lines.iter().cloned()));
    let broken = broken(&history).into_iter();
    let broken = broken.filter(|(_, found)| !found.is_empty());
    broken
        .map(|(name, _)| name.split(' ').next().unwrap())
        .collect()
}

#[track_caller]
pub(crate) fn breaks(promises: &[&str], lines: &[Value]) {
    assert_eq!(found(lines), promises, "{lines:?}");
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    breaks(&[], &[]);
    // All of these happen while something is broken: a retry, a run cut short by a kill, a pause,
    // a lost claim.
    breaks(
        &[],
        &task(
            1,
            FAULT,
            &[
                ("worker-1", 1, FAULT, FAULT + 9, "retry"),
                ("worker-2", 2, FAULT + 300, FAULT + 310, "done"),
            ],
        )
        .0,
    );
    let mut killed = task(
        2,
        FAULT,
        &[
            ("worker-1", 1, FAULT, FAULT + 9, "done"),
            ("worker-2", 3, FAULT + 9000, FAULT + 9010, "done"),
        ],
    )
    .0;
    killed.retain(|line| line["what"] != "end" || line["attempt"] != 1);
    killed.push(process("worker-1", "kill", FAULT + 5));
    breaks(&[], &killed);
    let mut paused = task(
        3,
        FAULT,
        &[
            ("worker-1", 1, FAULT, FAULT + 30_000, "dropped"),
            ("worker-2", 2, FAULT + 9000, FAULT + 9010, "done"),
        ],
    )
    .0;
    paused.push(process("worker-1", "pause", FAULT + 5));
    breaks(&[], &paused);
}

#[test]
fn a_lost_task_is_found() {
    let mut never = task(1, 50_000, &[]).0;
    breaks(&["I1"], &never);
    never.push(last(1, &json!({"state": "enqueued", "attempt": 0})));
    breaks(&["I1"], &never);
    never.push(last(1, &json!({"state": "dead", "attempt": 0})));
    breaks(&["I1"], &never);
    // A task whose client got no answer may be lost, but not once it has run.
    let mut unknown = task(2, 50_000, &[]).0;
    unknown[1]["told"] = json!("unknown");
    breaks(&[], &unknown);
    let mut ran = task(3, FAULT, &[("worker-1", 1, FAULT, FAULT + 9, "done")]).0;
    ran[1]["told"] = json!("unknown");
    ran.push(last(3, &json!({"state": "claimed", "attempt": 1})));
    breaks(&["I1"], &ran);
}

#[test]
fn a_cancel_that_does_not_hold_is_found() {
    let cancel = told(1, "cancel", 0, "cancelled", 48_000);
    let mut kept = task(1, 50_000, &[]).0;
    kept.extend(cancel.clone());
    kept.push(last(1, &json!({"state": "cancelled", "attempt": 0})));
    breaks(&[], &kept);
    let mut ran = task(1, 50_000, &[("worker-1", 1, 50_000, 50_009, "done")]).0;
    ran.extend(cancel);
    breaks(&["I1", "I6"], &ran);
    ran.push(last(1, &json!({"state": "cancelled", "attempt": 1})));
    breaks(&["I6"], &ran);
}

#[test]
fn a_task_that_begins_early_is_found() {
    let early = task(1, 50_000, &[("worker-1", 1, 49_999, 50_009, "done")]).0;
    breaks(&["I2"], &early);
    // A run may be early by as much as a clock was ahead.
    let offset = |ms: i64, t: i64| json!({"what": "offset", "who": "node-1", "ms": ms, "t": t});
    let mut skewed = early.clone();
    skewed.extend([offset(30_000, 40_000), offset(0, 45_000)]);
    breaks(&[], &skewed);
    let mut too_early = task(1, 90_000, &[("worker-1", 1, 59_999, 60_009, "done")]).0;
    too_early.push(offset(30_000, 40_000));
    breaks(&["I2"], &too_early);
    let mut behind = early;
    behind.push(offset(-30_000, 40_000));
    breaks(&["I2"], &behind);
}

#[test]
fn a_task_that_begins_before_its_new_start_is_found() {
    let run = [("worker-1", 1, 55_000, 55_009, "done")];
    let mut moved = task(1, 50_000, &run).0;
    moved.extend(told(1, "reschedule", 60_000, "rescheduled", 49_000));
    breaks(&["I2"], &moved);
    let mut unknown = task(1, 50_000, &run).0;
    unknown.extend(told(1, "reschedule", 60_000, "unknown", 49_000));
    breaks(&[], &unknown);
}

#[test]
fn a_moved_task_that_begins_long_after_its_new_start_is_found() {
    let moved = |from: i64, to: i64, begin: i64| {
        let mut lines = task(1, from, &[("worker-1", 1, begin, begin + 9, "done")]).0;
        lines.extend(told(1, "reschedule", to, "rescheduled", to - 1000));
        lines
    };
    // A task moves from far away to soon: a run at the old start is too late, whatever the old start was.
    breaks(&[], &moved(95_000, 50_000, 51_000));
    breaks(&["I7"], &moved(95_000, 50_000, 72_000));
    // A task that a fault has touched ends within its bound.
    breaks(&[], &moved(HEALED + 80_000, FAULT, HEALED + 80_000));
    breaks(&["I7"], &moved(HEALED + 95_000, FAULT, HEALED + 95_000));
}

#[test]
fn runs_without_need_are_found() {
    let twice = |n: u64, start: i64| {
        task(
            n,
            start,
            &[
                ("worker-1", 1, start, start + 9, "done"),
                ("worker-2", 2, start + 6000, start + 6009, "done"),
            ],
        )
        .0
    };
    let mut calm = twice(1, 50_000);
    breaks(&[], &calm);
    calm.extend(twice(2, 51_000));
    breaks(&["I3"], &calm);
    let runs: Vec<_> = (1..=4)
        .map(|attempt| {
            let begin = FAULT + 6000 * i64::try_from(attempt).unwrap();
            ("worker-1", attempt, begin, begin + 9, "done")
        })
        .collect();
    breaks(&["I3"], &task(1, FAULT, &runs).0);
    breaks(&[], &task(1, FAULT, &runs[..3]).0);
}

#[test]
fn a_run_after_the_end_is_found() {
    let mut lines = task(
        1,
        FAULT,
        &[
            ("worker-1", 1, FAULT, FAULT + 9, "done"),
            ("worker-2", 2, FAULT + 6000, FAULT + 6009, "done"),
        ],
    )
    .0;
    let result = json!({"w": "worker-1", "attempt": 1, "n": 1});
    lines.push(last(
        1,
        &json!({"state": "succeeded", "attempt": 1, "worker": "worker-1", "result": result}),
    ));
    breaks(&["I3"], &lines);
}

#[test]
fn two_live_runs_are_found() {
    let overlap = [
        ("worker-1", 1, FAULT, FAULT + 9000, "done"),
        ("worker-2", 2, FAULT + 8999, FAULT + 9010, "done"),
    ];
    breaks(&["I4"], &task(1, FAULT, &overlap).0);
    // A run that goes on after the pause of its worker for longer than the worker needs to notice
    // is a live one.
    let goes_on = |until: i64, how| {
        let runs = [
            ("worker-1", 1, FAULT, until, how),
            ("worker-2", 2, FAULT + 9000, FAULT + 15_000, "done"),
        ];
        let mut lines = task(1, FAULT, &runs).0;
        lines.push(process("worker-1", "pause", FAULT + 5));
        lines.push(process("worker-1", "resume", FAULT + 10_000));
        lines
    };
    breaks(&[], &goes_on(FAULT + 11_000, "dropped"));
    breaks(&[], &goes_on(FAULT + 11_000, "fenced"));
    breaks(&["I4"], &goes_on(FAULT + 12_500, "dropped"));
    // A change that it makes then must be refused, however soon the run is over.
    breaks(&["I4"], &goes_on(FAULT + 10_001, "done"));
    // A clock that is ahead ends a lease early; the worker has to drop its run.
    let by_clock = |how| {
        let runs = [
            ("worker-1", 1, FAULT, FAULT + 1200, how),
            ("worker-2", 2, FAULT + 1000, FAULT + 1010, "done"),
        ];
        let offset = |ms: i64, t: i64| json!({"what": "offset", "who": "node-1", "ms": ms, "t": t});
        let clock = [offset(30_000, FAULT + 400), offset(0, HEALED)];
        [&task(1, FAULT, &runs).0[..], &clock].concat()
    };
    breaks(&[], &by_clock("dropped"));
    breaks(&["I4"], &by_clock("done"));
    // The pause of another worker, or a later one, is no excuse.
    let mut lines = task(1, FAULT, &overlap).0;
    lines.push(process("worker-3", "pause", FAULT + 5));
    lines.push(process("worker-1", "pause", FAULT + 9000));
    breaks(&["I4"], &lines);
}

#[test]
fn attempts_that_do_not_go_up_are_found() {
    let again = [
        ("worker-1", 2, FAULT, FAULT + 9, "done"),
        ("worker-2", 2, FAULT + 6000, FAULT + 6009, "done"),
    ];
    breaks(&["I5"], &task(1, FAULT, &again).0);
    breaks(
        &["I5"],
        &task(1, 50_000, &[("worker-1", 2, 50_000, 50_009, "done")]).0,
    );
    breaks(
        &[],
        &task(1, FAULT, &[("worker-1", 2, FAULT, FAULT + 9, "done")]).0,
    );
}

#[test]
fn a_task_that_is_late_without_need_is_found() {
    let ran =
        |start: i64, begin: i64| task(1, start, &[("worker-1", 1, begin, begin + 9, "done")]).0;
    breaks(&[], &ran(FAULT, HEALED + 89_000));
    breaks(&["I7"], &ran(FAULT, HEALED + 91_000));
    breaks(&["I7"], &ran(HEALED + 1000, HEALED + 92_000));
    // A client without an answer may have asked a node that had stopped.
    let mut unknown = ran(FAULT, HEALED + 91_000);
    unknown[1]["told"] = json!("unknown");
    breaks(&[], &unknown);
    // A wait that another fault interrupts may begin anew.
    let mut twice = ran(FAULT, HEALED + 160_000);
    for (what, t) in [("fault", 80_000), ("mended", 89_000), ("healed", 90_000)] {
        twice.push(json!({"what": what, "name": "another", "t": HEALED + t}));
    }
    breaks(&[], &twice);
    // These are so many tasks of the calm that they are more than one in a hundred.
    let late = |n: i64| {
        let run = [("worker-1", 1, 55_100 + n, 55_109 + n, "done")];
        task(n.unsigned_abs(), 50_000 + n, &run).0
    };
    breaks(&["I7"], &[late(1), late(2), late(3)].concat());
}

#[test]
fn a_result_that_no_run_has_made_is_found() {
    let run = [("worker-1", 1, 50_000, 50_009, "done")];
    for (worker, attempt, n, of_task) in [
        ("worker-2", 1, 1, 1),
        ("worker-1", 2, 1, 2),
        ("worker-1", 1, 7, 1),
        ("worker-1", 1, 1, 2),
    ] {
        let mut lines = task(1, 50_000, &run).0;
        let result = json!({"w": worker, "attempt": attempt, "n": n});
        lines.push(last(
            1,
            &json!({"state": "succeeded", "attempt": of_task, "worker": worker, "result": result}),
        ));
        breaks(&["I9"], &lines);
    }
    // A task that succeeded and never ran.
    let mut lines = task(1, 50_000, &[]).0;
    lines.push(last(1, &json!({"state": "succeeded", "attempt": 0})));
    breaks(&["I9"], &lines);
}

#[test]
fn entries_that_multiply_or_stay_are_found() {
    let count = |entries: u64, many: &Value, t: i64| json!({"what": "slots", "entries": entries, "tasks": 1, "many": many, "t": t});
    let run = task(1, 50_000, &[("worker-1", 1, 50_000, 50_009, "done")]).0;
    let with =
        |more: &Value, after: &Value| [run.clone(), vec![more.clone(), after.clone()]].concat();
    let empty = count(0, &json!({}), OVER);
    breaks(&[], &with(&count(3, &json!({"task-1": 3}), 51_000), &empty));
    breaks(
        &["I13"],
        &with(&count(4, &json!({"task-1": 4}), 51_000), &empty),
    );
    breaks(&["I13"], &[count(1, &json!({}), OVER)]);
}

#[test]
fn records_that_are_lost_early_or_too_many_are_found() {
    let record = |n: u64, start: i64, arrived: &[(i64, &str)]| {
        let mut lines = vec![
            json!({"what": "ask", "op": "record", "n": n, "start": start, "t": start - 5000}),
            json!({"what": "told", "op": "record", "n": n, "told": "ok", "id": "r", "t": start - 4990}),
        ];
        let records = arrived.iter();
        lines.extend(
            records
                .map(|(at, id)| json!({"what": "record", "n": n, "id": id, "at": at, "t": OVER})),
        );
        lines
    };
    breaks(&[], &record(1, 50_000, &[(50_000, "r")]));
    breaks(&["I1"], &record(1, 50_000, &[]));
    breaks(&["I1"], &record(1, 50_000, &[(50_000, "other")]));
    breaks(&["I2"], &record(1, 50_000, &[(49_999, "r")]));
    breaks(&["I3"], &record(1, 50_000, &[(50_000, "r"), (50_001, "r")]));
    breaks(
        &[],
        &record(
            1,
            FAULT,
            &[(FAULT, "r"), (FAULT + 9, "r"), (FAULT + 10, "r")],
        ),
    );
}

/// Twenty records beside each load, two of them this late.
fn beside(sick_late: i64, is_sick: bool) -> Vec<Value> {
    let load = |kind: &str, t: i64| json!({"what": "load", "kind": kind, "t": t});
    let (healthy, sick, over) = (FAULT + 1_000, FAULT + 6_000, FAULT + 11_000);
    let mut lines = vec![
        load("healthy", healthy),
        load("sick", sick),
        load("usual", over),
    ];
    for (half, late, of_sick) in [(healthy, 400, false), (sick, sick_late, is_sick)] {
        for one in 0..20 {
            let (n, start) = (half + one, half + 100 * one);
            let at = start + if matches!(one, 7 | 8) { late } else { 10 };
            lines.extend([
                json!({"what": "ask", "op": "record", "n": n, "start": start, "sick": of_sick, "t": start - 900}),
                json!({"what": "told", "op": "record", "n": n, "told": "ok", "id": "r", "t": start - 890}),
                json!({"what": "record", "n": n, "id": "r", "at": at, "t": OVER}),
            ]);
        }
    }
    lines
}

#[test]
fn a_sick_topic_that_delays_others_is_found() {
    // The bound is half more, plus the noise of a busy machine.
    breaks(&[], &beside(1_100, false));
    breaks(&["I8"], &beside(1_101, false));
    // Records for the sick topic wait for it.
    breaks(&[], &beside(9_000, true));
}

/// The seed 2062765697881055973: a node is killed, and another one's clock is half a minute ahead. This
/// second node acts long before the start, so the faults that explain its records are over by the start.
#[test]
fn what_a_fast_clock_repeats_is_explained_by_the_faults_of_its_moment() {
    let fast = |ms: i64, t: i64| json!({"what": "offset", "who": "node-2", "ms": ms, "t": t});
    let clock = [fast(30_000, FAULT), fast(0, HEALED)];
    let (at, start) = (FAULT + 15_000, FAULT + 45_000);
    let record = |n: u64, produced: &[i64]| {
        let mut lines = vec![
            json!({"what": "ask", "op": "record", "n": n, "start": start, "t": at - 5000}),
            json!({"what": "told", "op": "record", "n": n, "told": "ok", "id": "r", "t": at - 4990}),
        ];
        let produced = produced.iter();
        lines.extend(
            produced.map(|at| json!({"what": "record", "n": n, "id": "r", "at": at, "t": OVER})),
        );
        lines
    };
    let twice = record(1, &[at, at + 1_200]);
    breaks(&[], &[&twice[..], &clock].concat());
    // The fault explains as many repetitions as any fault does, and no more.
    let often = record(1, &[at, at + 300, at + 600, at + 1_200]);
    breaks(&["I3"], &[&often[..], &clock].concat());
    let ran = |n: u64| {
        let again = [
            ("worker-1", 1, at, at + 9, "done"),
            ("worker-2", 2, at + 1_200, at + 1_209, "done"),
        ];
        task(n, start, &again).0
    };
    breaks(&[], &[&ran(1)[..], &ran(2), &clock].concat());
}
