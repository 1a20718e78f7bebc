//! `run` executes a plan and judges the run by the invariants.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tickwheel::{
    flaw::{self, Flaw},
    flow::stages::{query::activity::Activity, service::Service},
    limits::SWEEP_EVERY,
    model::{record::Kind, state::State, time::Millis},
    schema::decode_schedule,
};

use super::{
    chance::Chance, client, faults, history::History, network, plan::Plan, process::Process,
    scene_client, trace::Trace, worker::Worker, world::Sim,
};
use crate::invariants::{self, Contents, Ended, Violation};

/// A run with more events than this is given up, since it goes round in circles.
const EVENTS_MAX: u64 = 5_000_000;

/// How long the figures of running attempts may be behind what has ended.
const FIGURES_BEHIND: Duration = Duration::from_secs(70);

/// How much longer a run may take in milliseconds when a schedule is left: one node reads all every quarter of an hour.
const SCHEDULES_REPAIRED: i64 = 1000 * SWEEP_EVERY.as_secs().cast_signed() + 60_000;

/// The result of a run.
pub(crate) struct Report {
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Trace,
    /// Virtual time that passed, in milliseconds.
    pub(crate) lasted: i64,
}

/// The workers' processes, in their present lives.
#[derive(Clone, Default)]
pub(crate) struct Workers(Arc<Mutex<Vec<Arc<Process>>>>);

impl Workers {
    fn lock(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<Process>>> {
        self.0.lock()
    }

    pub(crate) fn of(&self, worker: usize) -> Arc<Process> {
        Arc::clone(&self.lock()[worker])
    }

    pub(crate) fn restart(&self, sim: &Arc<Sim>, plan: &Arc<Plan>, worker: usize) {
        let process = Worker::start(sim, plan, worker);
        let before = std::mem::replace(&mut self.lock()[worker], process);
        // Two crashes may overlap: the worker of the first restart dies with the second.
        before.kill();
    }
}

/// Executes a plan with a bug or without, on a runtime of its own.
pub(crate) fn run(plan: &Plan, flaw: Option<Flaw>, keep_trace: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    flaw::switch(flaw);
    let report = runtime.block_on(execute(plan, keep_trace));
    // This also drops the tasks of processes that died.
    drop(runtime);
    flaw::switch(None);
    report
}

async fn execute(plan: &Plan, keep_trace: bool) -> Report {
    let (sim, plan) = (Sim::new(plan, keep_trace), Arc::new(plan.clone()));
    sim.tell_store();
    if keep_trace {
        let noting = Arc::downgrade(&sim);
        sim.store.control().trace(Some(Arc::new(move |line: &str| {
            if let Some(sim) = noting.upgrade() {
                sim.note(format_args!("store {line}"));
            }
        })));
    }
    let workers = Workers::default();
    for number in 0..plan.workers.len() {
        let process = Worker::start(&sim, &plan, number);
        workers.lock().push(process);
    }
    for (number, node) in plan.nodes.iter().enumerate() {
        tokio::spawn(faults::live(Arc::clone(&sim), number, *node));
    }
    for fault in &plan.faults {
        tokio::spawn(faults::run(
            Arc::clone(&sim),
            Arc::clone(&plan),
            workers.clone(),
            *fault,
        ));
    }
    for task in &plan.tasks {
        tokio::spawn(client::run(Arc::clone(&sim), task.clone()));
    }
    for scene in &plan.scenes {
        tokio::spawn(scene_client::run(Arc::clone(&sim), scene.clone()));
    }
    sim.until(plan.last()).await;
    // A client may still be calling.
    sim.time.sleep(Duration::from_secs(30)).await;
    let finished = drain(&sim, &plan).await;
    let ended_at = sim.now();
    quiet(&sim).await;
    note_figures(&sim, &plan, &Contents::of(&sim)).await;
    let contents = Contents::of(&sim);
    let history = std::mem::take(&mut *sim.history());
    let violations = judge(&sim, &plan, (&history, contents), finished, ended_at);
    let lasted = sim.now();
    let lives = std::mem::take(&mut *sim.lives());
    drop(lives);
    workers.lock().clear();
    Report {
        violations,
        trace: sim.take_trace(),
        lasted,
    }
}

/// Waits until every task has ended, and every schedule, no longer than the bound allows; returns whether all tasks have.
async fn drain(sim: &Arc<Sim>, plan: &Plan) -> bool {
    let mut bound = invariants::bound(plan);
    loop {
        let open = {
            let (contents, mut history) = (Contents::of(sim), sim.history());
            invariants::note_growth(&contents, plan, sim.now(), &mut history);
            invariants::open(&contents, &history)
        };
        let (ended, goes_on) = (open.is_empty(), has_live_schedule(sim));
        if (ended && !goes_on) || sim.events() > EVENTS_MAX {
            return ended;
        }
        if ended {
            // The row of its look may be lost. Then it is found by the sweep, and its runs are still to come.
            bound = invariants::bound(plan) + SCHEDULES_REPAIRED;
        }
        if sim.now() > bound {
            return ended;
        }
        sim.time.sleep(Duration::from_secs(2)).await;
    }
}

/// Tells whether a schedule has runs to come. Each of a plan has a limit, so it ends, unless it is paused.
fn has_live_schedule(sim: &Sim) -> bool {
    let records = sim.store.record_rows();
    let schedules = records
        .into_iter()
        .filter(|record| record.name.kind() == Kind::Schedule);
    let mut values = schedules.filter_map(|record| record.value);
    values.any(|value| decode_schedule(value).is_ok_and(|schedule| schedule.is_live()))
}

/// Waits until the remaining entries, looks at ended tasks, have come up and were erased or swept, with the
/// contents of records, and until every wheel has caught up. An outage of hours takes it minutes.
async fn quiet(sim: &Arc<Sim>) {
    let limit = sim.time.now().after(Duration::from_secs(2 * 3600));
    // The mark of a backup lies some ticks further on, and is erased, with its content, a tick
    // and a little later.
    let settles = Duration::from_secs(10) + sim.rules.shape.tick().duration() * 6;
    loop {
        let contents = Contents::of(sim);
        invariants::note_leftovers(&contents, &mut sim.history());
        let live = contents.live().chain(contents.keeping());
        let last = live.map(|entry| entry.key.due).max();
        let next = last.unwrap_or(Millis(0)).min(limit);
        sim.time.sleep_until_wall(next).await;
        sim.time.sleep(settles).await;
        // A task whose registration got no answer may have run meanwhile, and its look lies ahead.
        let contents = Contents::of(sim);
        let is_quiet = contents.live().next().is_none() && !contents.is_behind(sim.now());
        let done = last.is_none() && is_quiet;
        if done || sim.time.now() > limit || sim.events() > EVENTS_MAX {
            return;
        }
    }
}

/// Asks a node for the figures of the scenes, and counts what they are about.
async fn note_figures(sim: &Arc<Sim>, plan: &Plan, contents: &Contents) {
    let mut chance = Chance::new(sim.seed, 5);
    for scene in &plan.scenes {
        let callback = scene.callback();
        let dead = contents.rows.values().filter(|row| {
            row.state == State::Dead && row.detail.spec.callback() == Some(&callback)
        });
        let dead = dead.count() as u64;
        let mut told = activity(sim, &mut chance, &callback).await;
        if told.as_ref().is_some_and(|told| told.running > 0) {
            // An attempt that another node has ended counts for a minute, and so does what a dead node told with a clock ahead.
            sim.time.sleep(FIGURES_BEHIND).await;
            told = activity(sim, &mut chance, &callback).await;
        }
        let Some(told) = told else { continue };
        let mut figures = vec![("running", told.running, 0), ("retrying", told.retrying, 0)];
        if !told.partial {
            figures.extend([("dead", told.dead, dead), ("held", told.held, 0)]);
        }
        let figures = figures.into_iter();
        let figures = figures.map(|(name, told, found)| (name.to_owned(), told, found));
        sim.history().scene(scene.number).figures = figures.collect();
    }
}

async fn activity(sim: &Arc<Sim>, chance: &mut Chance, callback: &str) -> Option<Activity> {
    let name = callback.to_owned();
    let ask = |service: Arc<Service>| async move { service.activity(&name).await };
    let asked = sim.call(chance, &mut None, network::PATIENCE, ask).await;
    asked.answer.ok()?.ok()
}

fn judge(
    sim: &Arc<Sim>,
    plan: &Plan,
    (history, contents): (&History, Contents),
    finished: bool,
    ended_at: i64,
) -> Vec<Violation> {
    let records = sim.queue.records(super::world::TOPIC);
    let ended = Ended {
        plan,
        history,
        contents,
        records: invariants::records(&records),
        told: invariants::told(&sim.queue.records(super::world::ENDS)),
        letters: sim.letters.taken(),
        finished,
        ended_at,
        now: sim.now(),
        rules: sim.rules,
        gave_up: sim.events() > EVENTS_MAX,
    };
    invariants::judge(&ended)
}
