//! These tests prove that the checks of sequences, keys, gates and schedules can fail: each forges logs with one lie.

use serde_json::{Value, json};

use crate::{
    forged::{FAULT, breaks, last, process},
    forged_families::{chain, tree},
};

/// A piece of work, as its client asked for it and was told.
#[derive(Clone, Copy)]
pub(crate) struct Forged<'a> {
    pub(crate) n: u64,
    pub(crate) kind: &'a str,
    pub(crate) group: &'a str,
    pub(crate) start: i64,
    pub(crate) behind: &'a [u64],
    pub(crate) told: &'a str,
}

pub(crate) const PLAIN: Forged<'_> = Forged {
    n: 1,
    kind: "marked",
    group: "",
    start: 50_000,
    behind: &[],
    told: "created",
};

impl Forged<'_> {
    fn id(&self) -> String {
        format!("task-{}", self.n)
    }

    pub(crate) fn ask(&self) -> Value {
        json!({"what": "ask", "op": "piece", "n": self.n, "kind": self.kind, "group": self.group,
            "start": self.start, "behind": self.behind, "t": self.start - 5_000})
    }

    pub(crate) fn answer(&self, told: &str, id: &str, t: i64) -> Value {
        json!({"what": "told", "op": "piece", "n": self.n, "asked": t - 9, "told": told, "id": id,
            "starts": self.start, "t": t})
    }

    /// The lines of a piece that ran at these times; it is the only task of its number.
    pub(crate) fn ran(&self, begin: i64, end: i64) -> Vec<Value> {
        let mut lines = vec![self.ask()];
        if !self.told.is_empty() {
            lines.push(self.answer(self.told, &self.id(), self.start - 4_000));
        }
        lines.extend(self.run("worker-1", 1, begin, end));
        lines.push(self.end(&json!({"state": "succeeded"})));
        lines
    }

    pub(crate) fn run(&self, worker: &str, attempt: u64, begin: i64, end: i64) -> [Value; 2] {
        ["begin", "end"].map(|what| {
            let t = if what == "begin" { begin } else { end };
            json!({"what": what, "how": "done", "w": worker, "life": "1", "id": self.id(),
                "attempt": attempt, "n": self.n, "start": self.start, "t": t})
        })
    }

    /// The last state, with these fields beside those of a first attempt that succeeded.
    pub(crate) fn end(&self, fields: &Value) -> Value {
        let result = json!({"w": "worker-1", "attempt": 1, "n": self.n});
        let mut task = json!({"attempt": 1, "worker": "worker-1", "result": result});
        for (name, value) in fields.as_object().expect("fields") {
            task[name] = value.clone();
        }
        last(self.n, &task)
    }
}

fn ordered(n: u64, start: i64, run: (i64, i64)) -> Vec<Value> {
    let piece = Forged {
        n,
        kind: "ordered",
        group: "order-1",
        start,
        ..PLAIN
    };
    piece.ran(run.0, run.1)
}

pub(crate) fn set(lines: &mut [Value], what: &str, name: &str, value: &Value) {
    let of = lines.iter_mut().filter(|line| line["what"] == what);
    of.for_each(|line| line[name] = value.clone());
}

#[test]
fn two_of_a_sequence_at_once_are_found() {
    let both = |begin| {
        let first = ordered(1, 50_000, (50_010, 50_500));
        [first, ordered(2, 50_200, (begin, 50_900))].concat()
    };
    breaks(&[], &both(50_500));
    breaks(&["I15"], &both(50_499));
    // A run that goes on for long after a stop of its worker.
    let stale = |until| {
        let mut lines = ordered(1, FAULT, (FAULT, until));
        set(&mut lines, "end", "how", &json!("fenced"));
        let again = Forged {
            kind: "ordered",
            group: "order-1",
            start: FAULT,
            ..PLAIN
        };
        lines.extend(again.run("worker-2", 2, FAULT + 6_000, FAULT + 6_010));
        lines.push(again.end(
            &json!({"state": "succeeded", "attempt": 2, "worker": "worker-2",
            "result": {"w": "worker-2", "attempt": 2, "n": 1}}),
        ));
        lines.extend(ordered(2, FAULT + 100, (FAULT + 7_000, FAULT + 15_000)));
        lines.push(process("worker-1", "pause", FAULT + 5));
        lines.push(process("worker-1", "resume", FAULT + 7_500));
        // The worker of the next one is another.
        lines
    };
    breaks(&[], &stale(FAULT + 9_000));
    let mut lines = stale(FAULT + 9_600);
    for line in lines
        .iter_mut()
        .filter(|line| line["n"] == 2 && line["w"] == "worker-1")
    {
        line["w"] = json!("worker-3");
    }
    let of_second = |line: &Value| line["id"] == "task-2" && line["what"] == "final";
    for line in lines.iter_mut().filter(|line| of_second(line)) {
        line["task"]["worker"] = json!("worker-3");
        line["task"]["result"]["w"] = json!("worker-3");
    }
    breaks(&["I15"], &lines);
}

#[test]
fn a_sequence_out_of_order_is_found() {
    let both = |registered: i64| {
        let mut early = ordered(1, 50_000, (52_000, 52_010));
        set(&mut early, "told", "t", &json!(registered));
        [early, ordered(2, 51_000, (51_500, 51_510))].concat()
    };
    breaks(&["I15"], &both(46_000));
    breaks(&["I15"], &both(50_999));
    // The later one had its turn already.
    breaks(&[], &both(51_000));
    // It did not have it while another one ran.
    let before = ordered(3, 49_000, (49_010, 51_400));
    breaks(&["I15"], &[both(51_399), before.clone()].concat());
    breaks(&[], &[both(51_400), before].concat());
    // The start that counts is the one that the service has named.
    let mut named = both(46_000);
    for line in named
        .iter_mut()
        .filter(|line| line["n"] == 1 && line["what"] == "begin")
    {
        line["start"] = json!(51_001);
    }
    breaks(&[], &named);
    // A clock that is ahead gives turns early.
    let ahead = |ms: i64| {
        let offset = |ms: i64, t: i64| json!({"what": "offset", "who": "node-1", "ms": ms, "t": t});
        [both(50_999), vec![offset(ms, 45_000), offset(0, 60_000)]].concat()
    };
    breaks(&[], &ahead(30_000));
    // The task runs when the right clocks have come to its start, long after the clock was set right.
    let led = |from: i64, until: i64| {
        let mut first = ordered(1, 52_000, (81_500, 81_510));
        set(&mut first, "told", "t", &json!(52_000));
        let offset = |ms: i64, t: i64| json!({"what": "offset", "who": "node-1", "ms": ms, "t": t});
        let clock = vec![offset(30_000, from), offset(0, until)];
        [first, ordered(2, 80_900, (81_000, 81_010)), clock].concat()
    };
    breaks(&[], &led(45_000, 60_000));
    breaks(&["I15"], &led(20_000, 35_000));
    breaks(&["I15"], &ahead(-30_000));
}

#[test]
fn a_registration_that_became_two_tasks_is_found() {
    let once = PLAIN.ran(50_010, 50_020);
    let again =
        |told: &str, id: &str| [once.clone(), vec![PLAIN.answer(told, id, 47_000)]].concat();
    breaks(&[], &again("existing", "task-1"));
    breaks(&[], &again("unknown", ""));
    breaks(&["I16"], &again("created", "task-1"));
    let other = Forged { n: 7, ..PLAIN };
    let mut second = other.ran(50_030, 50_040);
    second.retain(|line| line["op"] != "piece");
    for line in &mut second {
        if line["what"] == "final" {
            line["task"]["result"]["n"] = json!(1);
        } else {
            line["n"] = json!(1);
        }
    }
    // Also where no client was told of the second one.
    breaks(&["I16"], &[once, second].concat());
}

#[test]
fn a_key_with_two_live_tasks_is_found() {
    let of = |n: u64, kind: &'static str, told: &'static str, at: i64, run: (i64, i64)| {
        let piece = Forged {
            n,
            kind,
            group: "name-1",
            start: run.0,
            told,
            ..PLAIN
        };
        let mut lines = piece.ran(run.0, run.1);
        set(&mut lines, "ask", "t", &json!(at - 9));
        set(&mut lines, "told", "t", &json!(at));
        set(&mut lines, "told", "asked", &json!(at - 9));
        let last = lines.last_mut().unwrap();
        last["task"]["key"] = json!("name-1");
        lines
    };
    let first = of(1, "named", "created", 48_000, (50_000, 50_300));
    let with = |second: Vec<Value>| [first.clone(), second].concat();
    breaks(
        &[],
        &with(of(2, "named", "created", 50_310, (50_400, 50_410))),
    );
    breaks(
        &["I16"],
        &with(of(2, "named", "created", 50_299, (50_400, 50_410))),
    );
    // It may have ended while the second one was asked for.
    breaks(
        &[],
        &with(of(2, "named", "created", 50_305, (50_400, 50_410))),
    );
    // A task that was replaced does not begin, but one that runs may go on for a while.
    let replaced = |at: i64| with(of(2, "replacing", "replaced", at, (50_400, 50_410)));
    breaks(&[], &replaced(50_100));
    breaks(&[], &replaced(49_000));
    breaks(&["I16"], &replaced(48_990));
    // The answer to a claim from before may come late.
    let claimed = |at: &str| {
        let mut lines = replaced(48_990);
        let attempts = json!([{"attempt": 1, "claim_time": at}]);
        let old = lines.iter_mut().find(|line| line["what"] == "final");
        old.unwrap()["task"]["attempts"] = attempts;
        lines
    };
    breaks(&[], &claimed("1970-01-01T00:00:48.990Z"));
    breaks(&["I16"], &claimed("1970-01-01T00:00:48.991Z"));
    // The answer to a conflict names a task of the key.
    let taken = Forged {
        n: 3,
        kind: "named",
        group: "name-1",
        told: "",
        ..PLAIN
    };
    let told = |id: &str| vec![taken.ask(), taken.answer("taken", id, 49_000)];
    breaks(&[], &with(told("task-1")));
    let mut other = of(9, "named", "created", 48_000, (50_000, 50_300));
    set(&mut other, "ask", "group", &json!("name-2"));
    other.last_mut().unwrap()["task"]["key"] = json!("name-2");
    breaks(&["I16"], &[with(told("task-9")), other].concat());
}

#[test]
fn a_task_behind_a_closed_gate_and_one_that_stays_there_are_found() {
    let gate = |gate: &str, what: &str, t: i64| json!({"what": what, "op": "gate", "gate": gate, "told": if what == "ask" { "" } else { "ok" }, "t": t});
    let closed = |task: (i64, i64)| {
        let piece = Forged {
            kind: "gated",
            start: task.0,
            ..PLAIN
        };
        let mut lines = piece.ran(task.1, task.1 + 9);
        lines.extend([
            gate("paused", "ask", 50_000),
            gate("paused", "told", 50_100),
            gate("open", "ask", 60_000),
            gate("open", "told", 60_100),
        ]);
        lines
    };
    breaks(&[], &closed((53_000, 53_100)));
    breaks(&["I17"], &closed((53_000, 53_101)));
    breaks(&["I17"], &closed((53_000, 59_999)));
    breaks(&[], &closed((53_000, 60_000)));
    breaks(&[], &closed((53_000, 70_100)));
    breaks(&["I17"], &closed((53_000, 70_101)));
    // A worker that had the claim in hand was stopped.
    let mut stopped = closed((53_000, 54_000));
    stopped.push(process("worker-1", "resume", 53_900));
    breaks(&[], &stopped);
}

#[test]
fn a_time_of_a_schedule_without_a_run_and_one_with_two_are_found() {
    let line = |what: &str, did: &str, t: i64| json!({"what": what, "op": "schedule", "did": did, "name": "every-20", "from": 20_000, "every": 20_000, "told": "ok", "t": t});
    let schedule = [
        line("ask", "set", 1_000),
        line("told", "set", 1_100),
        line("ask", "pause", 89_000),
        line("told", "pause", 89_100),
    ];
    let run = |n: u64, time: i64, begin: i64| {
        let piece = Forged {
            n,
            start: time,
            ..PLAIN
        };
        let mut lines = piece.ran(begin, begin + 9);
        lines.retain(|line| line["op"] != "piece");
        for line in lines.iter_mut().filter(|line| line["what"] != "final") {
            line["schedule"] = json!("every-20");
            line["scheduled"] = json!(time);
        }
        lines
    };
    let kinds = every_kind();
    let with = |runs: &[Vec<Value>]| [runs.concat(), schedule.to_vec(), kinds.clone()].concat();
    let good =
        [20_000_i64, 40_000, 60_000].map(|time| run(2_000 + time.unsigned_abs(), time, time + 20));
    breaks(&[], &with(&good));
    breaks(&["I11"], &with(&good[..2]));
    breaks(
        &["I11"],
        &with(&[&good[..], &[run(7, 40_000, 40_020)]].concat()),
    );
    breaks(
        &["I11"],
        &with(&[&good[..], &[run(7, 41_000, 41_020)]].concat()),
    );
    // The pause withdraws a time that has come just before, and none begins behind it.
    breaks(&[], &with(&[&good[..], &[run(7, 80_000, 90_100)]].concat()));
    breaks(
        &["I11"],
        &with(&[&good[..], &[run(7, 80_000, 90_101)]].concat()),
    );
}

#[test]
fn a_drill_without_a_kind_of_work_is_found() {
    let mut lines = every_kind();
    lines.push(json!({"what": "ask", "op": "schedule", "did": "pause", "name": "x", "t": 0}));
    breaks(&[], &lines);
    lines.retain(|line| line["kind"] != "waiter");
    breaks(&["I1"], &lines);
}

/// One task of each kind, where nothing is wrong.
fn every_kind() -> Vec<Value> {
    let alone = [
        "ordered",
        "marked",
        "named",
        "replacing",
        "gated",
        "dependency",
        "waiter",
        "letter",
        "batch",
    ];
    let alone = (100..)
        .zip(alone)
        .map(|(n, kind)| Forged { n, kind, ..PLAIN });
    let mut lines: Vec<Value> = alone.flat_map(|piece| piece.ran(50_010, 50_020)).collect();
    for line in lines.iter_mut().filter(|line| line["what"] == "final") {
        line["task"]["key"] = json!("");
    }
    lines.extend(tree(200, [50_010, 50_020, 50_110, 50_010, 50_210]));
    lines.extend(chain(300, [50_010, 50_110, 50_210]));
    lines
}
