//! These tests prove that the checks of trees, chains, joins, dead letters and jobs can fail: each forges logs with
//! one lie.

use serde_json::{Value, json};

use crate::{
    forged::{FAULT, HEALED, OVER, breaks, last},
    forged_kinds::{Forged, PLAIN, set},
};

/// A tree with these begins: its root, a child, one that waits for the root, one that was added, its end.
pub(crate) fn tree(n: u64, begins: [i64; 5]) -> Vec<Value> {
    let group = format!("tree-{n}");
    let all: [(&str, &[u64], &str); 5] = [
        ("root", &[], "created"),
        ("child", &[], ""),
        ("child", &[n], ""),
        ("added", &[], "created"),
        ("end", &[n, n + 1, n + 2], ""),
    ];
    let mut lines = Vec::new();
    for (number, ((kind, behind, told), begin)) in (n..).zip(all.into_iter().zip(begins)) {
        let piece = Forged {
            n: number,
            kind,
            group: &group,
            behind,
            told,
            ..PLAIN
        };
        lines.extend(piece.ran(begin, begin + 90));
        if kind == "root" {
            lines.last_mut().unwrap()["task"]["tree_state"] = json!("completed");
        }
    }
    lines
}

#[test]
fn a_tree_that_ends_too_soon_twice_or_never_is_found() {
    let good = [50_000, 50_000, 50_090, 50_100, 50_190];
    breaks(&[], &tree(1, good));
    let late = |index: usize| {
        let mut begins = good;
        begins[index] += 2;
        tree(1, begins)
    };
    breaks(&["I12"], &late(3));
    let mut early = good;
    early[2] = 50_089;
    breaks(&["I12"], &tree(1, early));
    let mut open = tree(1, good);
    for line in open
        .iter_mut()
        .filter(|line| line["id"] == "task-1" && line["what"] == "final")
    {
        line["task"]["tree_state"] = json!("waiting_for_children");
    }
    breaks(&["I12"], &open);
    // Its end never came, or a child.
    for n in [2, 5] {
        let mut lost = tree(1, good);
        lost.retain(|line| line["id"] != format!("task-{n}"));
        let broken: &[&str] = if n == 2 { &["I12", "I12"] } else { &["I12"] };
        breaks(broken, &lost);
    }
    // It ended twice: another task for the same piece.
    let mut twice = tree(1, good);
    let again: Vec<Value> = twice
        .iter()
        .filter(|line| line["id"] == "task-5")
        .cloned()
        .collect();
    twice.extend(again.into_iter().map(|mut line| {
        line["id"] = json!("task-5-again");
        line
    }));
    breaks(&["I12", "I16"], &twice);
    // A child that was refused runs.
    let mut refused = tree(1, good);
    for line in refused
        .iter_mut()
        .filter(|line| line["n"] == 4 && line["what"] == "told")
    {
        (line["told"], line["id"]) = (json!("ended"), json!(""));
    }
    breaks(&["I12"], &refused);
}

/// A chain whose three tasks begin at these times.
pub(crate) fn chain(n: u64, begins: [i64; 3]) -> Vec<Value> {
    let group = format!("chain-{n}");
    let mut lines = Vec::new();
    for (index, begin) in (0..).zip(begins) {
        let before = [n + index.max(1) - 1];
        let is_first = index == 0;
        let piece = Forged {
            n: n + index,
            kind: if is_first { "first" } else { "follow-up" },
            group: &group,
            behind: if is_first { &[] } else { &before[..] },
            told: if is_first { "created" } else { "" },
            ..PLAIN
        };
        let mut ran = piece.ran(begin, begin + 90);
        let result = json!({"w": "worker-1", "attempt": 1, "n": before[0]});
        set(
            &mut ran,
            "begin",
            "previous",
            &json!({"id": format!("task-{}", before[0]), "result": result}),
        );
        lines.extend(ran);
    }
    let never = Forged {
        n: n + 3,
        kind: "never",
        group: &group,
        behind: &[n],
        ..PLAIN
    };
    lines.push(never.ask());
    lines
}

#[test]
fn a_follow_up_that_is_lost_double_early_or_wrong_is_found() {
    let good = [50_000, 50_090, 50_180];
    breaks(&[], &chain(1, good));
    breaks(&["I18"], &chain(1, [50_000, 50_089, 50_180]));
    let mut lost = chain(1, good);
    lost.retain(|line| line["id"] != "task-3");
    breaks(&["I18"], &lost);
    let mut wrong = chain(1, good);
    for line in wrong
        .iter_mut()
        .filter(|line| line["n"] == 3 && line["what"] == "begin")
    {
        line["previous"]["result"]["attempt"] = json!(2);
    }
    breaks(&["I18"], &wrong);
    let mut undone = chain(1, good);
    let never = Forged { n: 4, ..PLAIN };
    undone.extend(never.run("worker-1", 1, 50_500, 50_510));
    undone.push(never.end(&json!({"state": "succeeded"})));
    breaks(&["I18"], &undone);
}

#[test]
fn a_waiter_that_does_not_wait_is_found() {
    let join = |begin: i64| {
        let of = |n: u64, kind: &'static str, behind: &'static [u64]| Forged {
            n,
            kind,
            behind,
            ..PLAIN
        };
        let first = of(1, "dependency", &[]).ran(50_000, 50_100);
        let second = of(2, "dependency", &[]).ran(50_000, 50_700);
        [
            first,
            second,
            of(3, "waiter", &[1, 2]).ran(begin, begin + 9),
        ]
        .concat()
    };
    breaks(&[], &join(50_700));
    breaks(&["I19"], &join(50_699));
}

#[test]
fn a_dead_task_that_runs_unasked_is_found() {
    let letter = Forged {
        kind: "letter",
        ..PLAIN
    };
    let step = |what: &str, t: i64| json!({"what": what, "op": "letter", "n": 1, "id": "task-1", "told": "dead", "t": t});
    let rests = |asked: i64| {
        let mut lines = letter.ran(56_000, 56_010);
        lines.extend([step("read", 51_000), step("ask", asked)]);
        lines
    };
    breaks(&[], &rests(55_000));
    breaks(&["I14"], &rests(56_001));
    // It stays dead where no client was told its id.
    let dead = |told: &'static str, kind: &'static str| {
        let letter = Forged {
            kind,
            told,
            ..letter
        };
        let mut lines = letter.ran(50_010, 50_020);
        set(&mut lines, "end", "how", &json!("retry"));
        set(
            &mut lines,
            "final",
            "task",
            &json!({"state": "dead", "attempt": 1}),
        );
        lines
    };
    breaks(&[], &dead("", "letter"));
    breaks(&["I1"], &dead("created", "letter"));
    breaks(&["I1"], &dead("", "marked"));
}

#[test]
fn a_job_that_leaves_tasks_behind_is_found() {
    let batch = Forged {
        kind: "batch",
        group: "batch-1",
        ..PLAIN
    };
    let job = |what: &str, told: &str, t: i64| json!({"what": what, "op": "job", "group": "batch-1", "told": told, "t": t});
    let told = |state: &str| [job("ask", "", 47_000), job("told", state, 48_000)];
    let with = |mut lines: Vec<Value>, state: &str| {
        lines.extend(told(state));
        lines
    };
    let registered = || vec![batch.ask(), batch.answer("created", "task-1", 46_000)];
    let cancelled = || [registered(), vec![last(1, &json!({"state": "cancelled"}))]].concat();
    breaks(&[], &with(cancelled(), "completed"));
    // Without a job nothing cancels it.
    breaks(&["I1"], &cancelled());
    breaks(&["I20"], &with(batch.ran(50_000, 50_010), "completed"));
    // It began while the job was going on.
    let early = Forged {
        start: 48_000,
        ..batch
    };
    breaks(&[], &with(early.ran(49_000, 49_010), "completed"));
    breaks(&["I20"], &with(cancelled(), "failed"));
    // By a clock that is 30 s ahead it had begun before the job, or had not.
    for (start, broken) in [(70_000, &[][..]), (79_000, &["I20"])] {
        let batch = Forged { start, ..batch };
        let mut lines = with(batch.ran(start + 10, start + 20), "completed");
        // Both were there before the job.
        (lines[0]["t"], lines[1]["t"]) = (json!(45_000), json!(46_000));
        lines.push(json!({"what": "offset", "who": "node-1", "ms": 30_000, "t": 40_000}));
        lines.push(json!({"what": "offset", "who": "node-1", "ms": 0, "t": 60_000}));
        breaks(broken, &lines);
    }
}

#[test]
fn what_waits_without_need_is_found() {
    let late = |at: i64| {
        let of = |n: u64, behind: &'static [u64], start: i64| Forged {
            n,
            kind: if behind.is_empty() {
                "dependency"
            } else {
                "waiter"
            },
            behind,
            start,
            ..PLAIN
        };
        let before = of(1, &[], FAULT).ran(HEALED + 20_000, HEALED + 30_000);
        [before, of(2, &[1], FAULT).ran(at, at)].concat()
    };
    breaks(&[], &late(HEALED + 120_000));
    breaks(&["I7"], &late(HEALED + 120_001));
    const { assert!(OVER > HEALED + 120_001, "the drill goes on until then") };
}
