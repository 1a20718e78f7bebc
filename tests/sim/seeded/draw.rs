//! `draw` makes the plan of a run from a seed.
//!
//! There are two families of seeds. Those below [`OPERATING`] have tasks only. Those from it on have fewer tasks, and scenes of
//! the operating model beside them: ordering keys, keys, gates and all that came later. Scenes are drawn from streams of their
//! own, and the draws of the first family do not know of them, so a seed of the first family has the plan that it always had.
//! From [`HOSTS`] on, the tasks of some scenes are for hosts, so that callbacks share a queue. From [`SILENT`] on, the attempts
//! of some tasks may be silent for minutes or an hour; all else of such a seed is as it was without that.

use super::{
    chance::Chance,
    plan::{Fault, FaultPlan, NodePlan, Plan, WorkerPlan},
    scene::ScenePlan,
};
use crate::workload;

/// Operations of the store that can be slow on their own.
pub(crate) const LANES: [&str; 8] = [
    "put_entries",
    "scan",
    "swap_clock",
    "swap_tasks",
    "clock",
    "tasks",
    "erase",
    "publish",
];

const HOUR: u64 = 3_600_000;

const DAY: u64 = 24 * HOUR;

/// The first seed of the second family. A round number, so that a person sees the family of a seed.
pub(crate) const OPERATING: u64 = 1_000_000;

/// The first seed of those with tasks for hosts.
pub(crate) const HOSTS: u64 = 2_000_000;

/// The first seed of those with tasks that may be silent for long.
pub(crate) const SILENT: u64 = 5_000_000;

/// The streams of silences, one for each task, begin with this number.
const SILENCES: u64 = 3_000_000;

/// Draws the plan of a seed.
pub(crate) fn draw(seed: u64) -> Plan {
    let mut plan = draw_tasks(seed);
    if seed >= OPERATING {
        add_scenes(&mut plan);
    }
    if seed >= SILENT {
        for task in &mut plan.tasks {
            let mut chance = Chance::new(seed, SILENCES + task.number as u64);
            workload::silences::lengthen(task, &mut chance);
        }
    }
    plan
}

/// Leaves a part of the tasks, and adds scenes.
fn add_scenes(plan: &mut Plan) {
    let mut chance = Chance::new(plan.seed, 4);
    plan.tasks.truncate(chance.index(12));
    // The first family has outages of hours and days. They take most of the time of a run, and scenes are over before them.
    plan.faults.retain(|fault| fault.at < HOUR);
    for fault in &mut plan.faults {
        fault.lasts = fault.lasts.min(HOUR / 6);
    }
    let scenes = if chance.percent(60) {
        1
    } else {
        chance.between(2, 3)
    };
    let draw = |number| {
        let mut chance = Chance::new(plan.seed, 2_000_000 + number);
        let mut scene = workload::scenes::draw(usize::try_from(number).unwrap_or(0), &mut chance);
        scene.for_host = plan.seed >= HOSTS && chance.percent(60);
        scene
    };
    plan.scenes = (0..scenes).map(draw).collect();
    // The executor of a node would deliver them.
    if plan.scenes.iter().any(ScenePlan::has_internal_tasks) {
        for scene in &mut plan.scenes {
            scene.for_host = false;
        }
    }
}

/// Draws a plan of tasks. Small runs find most bugs; every eighth is of full size, every fourth has no fault.
fn draw_tasks(seed: u64) -> Plan {
    let mut chance = Chance::new(seed, 0);
    let full = chance.percent(12);
    let (tasks, faults) = if full {
        (200, 20)
    } else {
        (chance.between(5, 60), chance.between(1, 8))
    };
    let faults = if chance.percent(25) { 0 } else { faults };
    draw_sized(seed, tasks, faults)
}

/// Draws a plan of so many tasks and faults.
pub(crate) fn draw_sized(seed: u64, tasks: u64, faults: u64) -> Plan {
    let mut chance = Chance::new(seed, 1);
    let horizon = 40_000;
    let count = chance.between(1, 3);
    let nodes: Vec<NodePlan> = (0..count + 1)
        .map(|number| NodePlan {
            // One more node joins later, and sometimes one leaves.
            joins: if number < count {
                chance.below(1000)
            } else {
                chance.between(5000, 40_000)
            },
            leaves: (number == 1 && faults > 0 && chance.percent(20))
                .then(|| chance.between(10_000, 60_000)),
        })
        .collect();
    let nodes = if chance.percent(50) {
        nodes[..nodes.len() - 1].to_vec()
    } else {
        nodes
    };
    let workers = (0..chance.between(2, 3))
        .map(|_| chance.one_of(&[WorkerPlan::Queue, WorkerPlan::Poll]))
        .collect::<Vec<_>>();
    let skew_ms = chance.one_of(&[0, 0, 20, 300]);
    let mut plan = Plan {
        seed,
        wheels: chance.one_of(&[1, 2, 2, 4]),
        slots: 8,
        tick_ms: chance.one_of(&[1000, 1000, 1000, 1000, 250, 250, 10_000, 60_000]),
        partitions: chance.one_of(&[1, 2, 4]),
        keeps_messages: seed.is_multiple_of(2),
        page_rows: chance.one_of(&[1000, 100, 5, 2]),
        buffers: chance.one_of(&[10_000, 10_000, 20, 5]),
        skew_ms,
        latency_ms: chance.one_of(&[0, 3, 10]),
        noise: chance.one_of(&[0, 0, 20, 150]),
        nodes,
        workers,
        tasks: Vec::new(),
        scenes: Vec::new(),
        faults: Vec::new(),
    };
    plan.tasks = (0..tasks)
        .map(|number| {
            let number = usize::try_from(number).unwrap_or(0);
            workload::draw(
                number,
                horizon,
                &mut Chance::new(seed, 1000 + number as u64),
            )
        })
        .collect();
    // Some seeds have one kind of trouble, most have all kinds.
    let kinds: Vec<u64> = (0..chance.between(1, 4))
        .map(|_| chance.below(KINDS))
        .collect();
    let any = chance.percent(60);
    plan.faults = (0..faults)
        .map(|number| {
            let kind = if any {
                chance.below(KINDS)
            } else {
                chance.one_of(&kinds)
            };
            draw_fault(
                usize::try_from(number).unwrap_or(0),
                kind,
                &plan,
                &mut chance,
            )
        })
        .collect();
    if faults > 0 && plan.tick_ms == 60_000 {
        days_off(&mut plan, &mut Chance::new(seed, 3));
    }
    plan
}

/// Adds days on which nothing runs, twice, and sometimes then messages from before them. Rows of ended tasks,
/// messages and contents each have their own length of life. One such time is shorter than the seven days
/// that rows live behind the last entry of their task, which is a condition of the guarantees; both together
/// are longer. Only for ticks of a minute: shorter ones are too many to catch up with.
fn days_off(plan: &mut Plan, chance: &mut Chance) {
    if !chance.percent(15) {
        return;
    }
    let mut at = chance.between(80_000, 300_000);
    let mut add = |at, lasts, what| {
        let number = plan.faults.len();
        plan.faults.push(FaultPlan {
            number,
            at,
            lasts,
            what,
        });
    };
    for _ in 0..2 {
        let lasts = chance.between(3 * DAY, 6 * DAY);
        add(at, lasts, Fault::Off);
        // The run needs time to catch up, to look at waiting tasks, and to erase.
        at += lasts + HOUR;
    }
    if chance.percent(70) {
        add(at - chance.between(1000, HOUR), 1, Fault::OffsetsLost);
    }
}

const KINDS: u64 = 34;

fn draw_fault(number: usize, kind: u64, plan: &Plan, chance: &mut Chance) -> FaultPlan {
    let node = chance.index(plan.nodes.len());
    let worker = chance.index(plan.workers.len());
    let at = chance.between(1000, 70_000);
    let short = chance.between(200, 25_000);
    let outage = if chance.percent(2) {
        HOUR + chance.below(2 * HOUR)
    } else {
        short
    };
    let percent = chance.between(5, 60);
    let records = chance.index(20) + 1;
    let (what, lasts) = match kind {
        0..=5 => {
            let operations = chance.below(120);
            let effect = chance.percent(50);
            (
                Fault::Crash {
                    node,
                    operations,
                    effect,
                },
                chance.between(50, 12_000),
            )
        }
        6..=9 => (Fault::Pause { node }, short),
        10 => {
            let by = chance.one_of(&[-3_600_000, 3_600_000, -20_000, 20_000, 1500, -1500]);
            let rare = chance.percent(70);
            let by = if rare { by.clamp(-20_000, 20_000) } else { by };
            (Fault::ClockStep { node, by }, short)
        }
        11 => {
            let ppm = chance.one_of(&[-100_000, -5000, 5000, 100_000]);
            (Fault::ClockDrift { node, ppm }, short)
        }
        12 | 13 => (Fault::StoreAway { node: None }, outage),
        14 => (Fault::StoreAway { node: Some(node) }, short),
        15 | 16 => {
            let per_mille = chance.one_of(&[5, 20, 80, 250]);
            (Fault::StoreUnruly { per_mille }, short)
        }
        17 => {
            let replica = chance.index(3);
            (Fault::ReplicaDown { replica }, short)
        }
        18 => {
            let replica = chance.index(3);
            (Fault::ReplicaCut { node, replica }, short)
        }
        19 | 20 => {
            let lane = chance.index(LANES.len());
            (
                Fault::StoreSlow {
                    lane,
                    by: chance.between(50, 4000),
                },
                short,
            )
        }
        21 | 22 => (Fault::QueueAway, outage),
        23 => (Fault::Duplicates { records }, short),
        24 => (Fault::AcknowledgementsLost { records }, short),
        25 => (Fault::RecordsLost { records }, short),
        26 | 27 => (Fault::Rebalance, 1),
        28 => (
            Fault::CommitsLost {
                records: i64::try_from(records).unwrap_or(1),
            },
            1,
        ),
        29 => (Fault::TopicMissing, short),
        32 => (Fault::TopicSilent, outage),
        33 => (Fault::OffsetsLost, 1),
        30 => (
            Fault::ApiUnruly {
                percent: percent / 2,
            },
            short,
        ),
        _ if chance.percent(50) => (Fault::WorkerPause { worker }, short),
        _ => (Fault::WorkerCrash { worker }, short),
    };
    FaultPlan {
        number,
        at,
        lasts,
        what,
    }
}
