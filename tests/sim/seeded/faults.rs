//! This module injects the faults of a plan into a run, and ends them.

use std::{sync::Arc, time::Duration};

use tickwheel::{doubles::queue::memory, queue::message, time_source::Moment};

use super::{
    plan::{Fault, FaultPlan, NodePlan, Plan},
    process::Process,
    run::Workers,
    world::{Sim, TOPIC},
};
use crate::{invariants::Contents, replicas::Set};

/// Starts a fault at its time, and ends it at its time.
pub(crate) async fn run(sim: Arc<Sim>, plan: Arc<Plan>, workers: Workers, fault: FaultPlan) {
    sim.until(fault.at).await;
    sim.note(format_args!(
        "fault {} begins: {:?}",
        fault.number, fault.what
    ));
    let ends = sim.time.moment().after(Duration::from_millis(fault.lasts));
    match fault.what {
        Fault::Crash {
            node,
            operations,
            effect,
        } => {
            if let Some(process) = node_process(&sim, node) {
                process.doom(operations, effect);
                sim.time.sleep_until(ends).await;
                // The process may have done too few operations to die by itself.
                process.kill();
            }
            sim.start(node);
        }
        Fault::Pause { node } => {
            if let Some(process) = node_process(&sim, node) {
                process.pause(ends);
            }
        }
        Fault::WorkerPause { worker } => {
            workers.of(worker).pause(ends);
        }
        Fault::WorkerCrash { worker } => {
            workers.of(worker).kill();
            end_runs(&sim, worker);
            sim.time.sleep_until(ends).await;
            // Of two overlapping crashes the second takes the life after the first.
            end_runs(&sim, worker);
            workers.restart(&sim, &plan, worker);
        }
        Fault::ClockStep { node, by } => step(&sim, node, by, ends).await,
        Fault::ClockDrift { node, ppm } => drift(&sim, node, ppm, fault.lasts).await,
        Fault::Rebalance => sim.queue.faults().rebalance(0),
        Fault::CommitsLost { records } => sim.queue.faults().rebalance(records),
        Fault::OffsetsLost => {
            for callback in plan.callbacks() {
                let group = message::group(&callback);
                sim.queue.faults().forget_offsets(&group);
            }
        }
        Fault::Off => off(&sim, &plan, &workers, ends).await,
        _ => {
            set(&sim, fault.what, true);
            sim.time.sleep_until(ends).await;
            set(&sim, fault.what, false);
        }
    }
    sim.note(format_args!("fault {} is over", fault.number));
}

/// Sets the faults that simply last for a while, called weather.
fn set(sim: &Sim, what: Fault, on: bool) {
    let mut weather = sim.weather();
    let faults = sim.queue.faults();
    let count = |number: &mut usize| if on { *number += 1 } else { *number -= 1 };
    let next = |records, fault| {
        if on {
            faults.plan(records, fault);
        } else {
            faults.clear();
        }
    };
    match what {
        Fault::StoreAway { node: None } => put(&mut weather.down, Set::ALL, on),
        Fault::StoreAway { node: Some(node) } => put(&mut weather.cut, (node, Set::ALL), on),
        Fault::ReplicaCut { node, replica } => {
            put(&mut weather.cut, (node, Set::only(replica)), on);
        }
        Fault::ReplicaDown { replica } => put(&mut weather.down, Set::only(replica), on),
        Fault::StoreUnruly { per_mille } => put(&mut weather.unruly, per_mille, on),
        Fault::StoreSlow { lane, by } => weather.slow[lane] = if on { by } else { 0 },
        Fault::QueueAway => {
            count(&mut weather.queue_away);
            faults.outage(weather.queue_away > 0);
        }
        Fault::Duplicates { records } => next(records, memory::Fault::Duplicate),
        Fault::AcknowledgementsLost { records } => next(records, memory::Fault::UnconfirmedApplied),
        Fault::RecordsLost { records } => next(records, memory::Fault::UnconfirmedLost),
        Fault::TopicMissing => faults.missing(TOPIC, on),
        Fault::TopicSilent => faults.silent(TOPIC, on),
        Fault::ApiUnruly { percent } => weather.api = if on { percent } else { 0 },
        Fault::Crash { .. }
        | Fault::Pause { .. }
        | Fault::ClockStep { .. }
        | Fault::ClockDrift { .. }
        | Fault::Rebalance
        | Fault::CommitsLost { .. }
        | Fault::OffsetsLost
        | Fault::Off
        | Fault::WorkerPause { .. }
        | Fault::WorkerCrash { .. } => {}
    }
    drop(weather);
    sim.tell_store();
}

/// Switches everything off, and on again.
async fn off(sim: &Arc<Sim>, plan: &Arc<Plan>, workers: &Workers, ends: Moment) {
    let running = |node: &usize| node_process(sim, *node);
    let nodes: Vec<usize> = (0..plan.nodes.len())
        .filter(|node| running(node).inspect(|process| process.kill()).is_some())
        .collect();
    for worker in 0..plan.workers.len() {
        workers.of(worker).kill();
        end_runs(sim, worker);
    }
    // Tasks that have ended by now may be gone when the run is judged.
    Contents::of(sim).remember(&mut sim.history());
    sim.time.sleep_until(ends).await;
    for node in nodes {
        sim.start(node);
    }
    for worker in 0..plan.workers.len() {
        end_runs(sim, worker);
        workers.restart(sim, plan, worker);
    }
}

/// Adds a reason, or takes it away.
fn put<T: PartialEq>(reasons: &mut Vec<T>, reason: T, on: bool) {
    if on {
        reasons.push(reason);
    } else if let Some(place) = reasons.iter().position(|there| *there == reason) {
        reasons.remove(place);
    }
}

fn node_process(sim: &Sim, node: usize) -> Option<Arc<Process>> {
    sim.lives()[node]
        .as_ref()
        .map(|life| Arc::clone(&life.process))
}

async fn step(sim: &Arc<Sim>, node: usize, by: i64, ends: Moment) {
    let before = sim.weather().errors[node];
    sim.set_clock(node, before + by);
    sim.time.sleep_until(ends).await;
    let now = sim.weather().errors[node];
    sim.set_clock(node, now - by);
}

/// Time between two corrections of a clock that drifts, in milliseconds.
const DRIFT_EVERY: u64 = 250;

/// The number of milliseconds by which one correction moves a clock that drifts this much.
pub(crate) const fn correction(ppm: i64) -> i64 {
    DRIFT_EVERY.cast_signed() * ppm / 1_000_000
}

async fn drift(sim: &Arc<Sim>, node: usize, ppm: i64, lasts: u64) {
    let mut added = 0;
    for _ in 0..lasts / DRIFT_EVERY {
        sim.time.sleep(Duration::from_millis(DRIFT_EVERY)).await;
        let more = correction(ppm);
        added += more;
        let error = sim.weather().errors[node] + more;
        sim.set_clock(node, error);
    }
    let error = sim.weather().errors[node] - added;
    sim.set_clock(node, error);
}

/// Ends the runs of a dead worker.
fn end_runs(sim: &Sim, worker: usize) {
    let now = sim.now();
    let mut history = sim.history();
    let runs = history
        .stories
        .values_mut()
        .flat_map(|story| &mut story.runs);
    for run in runs.filter(|run| run.worker == worker && run.ended.is_none()) {
        run.ended = Some(now.min(run.deadline));
    }
}

/// Starts a node at its time, and stops it in order at its time.
pub(crate) async fn live(sim: Arc<Sim>, node: usize, plan: NodePlan) {
    sim.until(plan.joins).await;
    sim.start(node);
    let Some(leaves) = plan.leaves else { return };
    sim.until(leaves).await;
    let leaving = sim.lives()[node].as_mut().and_then(|life| {
        let executor = life.executor.clone();
        Some((life.node.take()?, Arc::clone(&life.process), executor))
    });
    if let Some((running, process, executor)) = leaving {
        sim.note(format_args!("{} leaves", process.name));
        executor.cancel();
        // A process that dies on the way never gets there.
        sim.time
            .within(
                Duration::from_secs(30),
                running.stop(Duration::from_secs(10)),
            )
            .await;
        process.kill();
    }
}
