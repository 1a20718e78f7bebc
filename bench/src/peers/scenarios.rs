//! The scenarios measure every peer in the same way for the comparison: the tasks, their due times, the
//! measured values.

use std::time::Duration;

use anyhow::{bail, ensure};
use tickwheel::{
    model::time::Millis,
    time_source::{Moment, TimeSource},
};

use super::{
    Manner, Peer, Setup,
    case::Case,
    load,
    load::{Loaded, Plan, Seen, Wait},
    process,
    process::Usage,
};
use crate::{
    check::Check,
    embedded::{
        check::{Registered, Verdict, verdict},
        service::{bytes_below, load_average, own_usage},
    },
    report::{
        Costs, Report,
        setting::Setting,
        table::{Figure, Value},
    },
};

/// Tasks that go first, so that both sides are warm; they are checked like the others.
const WARM_TASKS: u64 = 1000;
/// How soon those are due.
const WARM_LEAD: Duration = Duration::from_secs(2);
/// The part of the tasks that goes first, too, to measure the pace.
const PACE_PART: u64 = 10;
/// But no more than a peer takes in about this many seconds.
const PACE_SECONDS: f64 = 1.0;
/// About the longest measurement of a registration. A slow peer gets as many tasks in a burst, or to keep.
const REGISTER_SECONDS: f64 = 4.0;
/// A peer that delivers at least this part of the due rate may be limited by it.
const BOUND_PART: f64 = 0.7;
/// How many times as many tasks it gets then.
const MORE: u64 = 4;
/// How many times the time by the pace a burst gets, until it is registered before it is due.
const BURST_TRIES: [f64; 3] = [1.0, 2.0, 4.0];
/// Time between the end of a registration and its first due time, beside the time by the pace.
const LEAD: Duration = Duration::from_secs(2);
/// How long a scenario waits for tasks that do not come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long after the last due time a peer may still deliver.
const LATE_MAX: Duration = Duration::from_secs(120);
/// The same at a rate: a peer that is later does not hold the rate.
const STEADY_LATE_MAX: Duration = Duration::from_secs(15);
/// Tasks of a chunk at a rate.
const STEADY_CHUNK: usize = 25;
/// Producers at a rate: a stall of a second holds up as many chunks.
const STEADY_PRODUCERS: usize = 32;
/// How long before they are due tasks at a rate are registered.
const STEADY_LEAD: Duration = Duration::from_secs(6);
/// Tasks of the first seconds are checked and not measured.
const WARM_UP: Duration = Duration::from_secs(3);
/// Time before memory and disk are read, in which the rest of a load is written and collected.
const CALM: Duration = Duration::from_secs(3);
/// How long from now pending tasks are due, spread over half a day: RocketMQ holds three days.
const PENDING_LEAD: Duration = Duration::from_secs(24 * 3600);
const HALF_DAY_MS: u64 = 12 * 3600 * 1000;

/// A peer that is being measured.
pub(super) struct Run<'a> {
    setup: &'a Setup,
    setting: &'a Setting,
    round: u32,
    time: &'a TimeSource,
    peer: Box<dyn Peer>,
    next_id: u64,
    /// Tasks that were registered and have not come out yet.
    registered: Vec<Registered>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        setting: &'a Setting,
        round: u32,
        peer: Box<dyn Peer>,
    ) -> Self {
        Self {
            setup,
            setting,
            round,
            time: &setup.place.time,
            peer,
            next_id: 0,
            registered: Vec::new(),
        }
    }

    pub(super) async fn measure(&mut self, case: Case, report: &mut Report) -> anyhow::Result<()> {
        match case {
            Case::Register(manner) => self.register(manner, report).await,
            Case::Burst => self.burst(report).await,
            Case::Steady(rate) => self.steady(rate, report).await,
            Case::Pending => self.pending(report).await,
        }
    }

    /// Returns the manner of registration where it does not matter.
    fn best_manner(&self) -> Manner {
        if self.setting.has_batches() {
            Manner::Batched
        } else {
            Manner::Singly
        }
    }

    fn plan(&mut self, tasks: u64, manner: Manner) -> Plan {
        let first_id = self.next_id;
        self.next_id += tasks;
        Plan {
            tasks,
            first_id,
            manner,
            lanes: self.peer.lanes(manner),
            grid: self.setting.grid,
            interval: None,
        }
    }

    /// Registers; the next drain checks the tasks.
    async fn load(&mut self, plan: Plan, due: impl load::Due) -> anyhow::Result<Loaded> {
        let producers = load::producers(&mut *self.peer, plan.lanes.producers).await?;
        let loaded = load::register(producers, self.time, plan, due).await?;
        self.registered.extend_from_slice(&loaded.registered);
        Ok(loaded)
    }

    /// Registers some tasks that go first. Returns how many a second were registered once it was warm.
    async fn warm(&mut self, manner: Manner) -> anyhow::Result<f64> {
        let mut pace = f64::INFINITY;
        for tasks in [WARM_TASKS, self.setup.tasks / PACE_PART] {
            let plan = self.plan(tasks.min((pace * PACE_SECONDS) as u64).max(1), manner);
            let first = self.time.now().after(WARM_LEAD);
            pace = self.load(plan, move |_| first).await?.per_second();
        }
        Ok(pace)
    }

    /// Returns how many of some tasks can be registered at a pace in a reasonable time.
    fn within_reach(tasks: u64, pace: f64) -> u64 {
        tasks.min((pace * REGISTER_SECONDS) as u64).max(1)
    }

    /// Returns when the first of some tasks may be due that are registered from now on.
    fn due_behind(&self, tasks: u64, pace: f64) -> Millis {
        let wanted = Duration::from_secs_f64(2.0 * tasks as f64 / pace);
        self.time.now().after(LEAD + wanted)
    }

    /// Takes everything that was registered and checks every task.
    async fn drain(&mut self, counted: Millis) -> anyhow::Result<(Verdict, Seen)> {
        let consumers = self.peer.consumers().await?;
        let last = self.registered.iter().map(|task| task.due).max();
        let wait = Wait {
            tasks: self.registered.len() as u64,
            due: last.map_or(Duration::ZERO, |last| self.time.now().until(last)),
            quiet: PATIENCE,
            late: LATE_MAX,
        };
        let mut seen = load::work(consumers, self.time, wait).await?;
        let (settled, taken) = (seen.settled.count, seen.arrivals.len());
        ensure!(
            settled == taken as u64,
            "{settled} of {taken} were acknowledged"
        );
        let registered = std::mem::take(&mut self.registered);
        let verdict = verdict(registered, std::mem::take(&mut seen.arrivals), counted)?;
        Ok((verdict, seen))
    }

    fn report(&self, case: Case, value: Value, check: Check, report: &mut Report) {
        let figure = Figure::new(&case.to_string(), self.setting, self.round, value);
        report.peer(figure.checked(check));
    }

    async fn register(&mut self, manner: Manner, report: &mut Report) -> anyhow::Result<()> {
        let case = Case::Register(manner);
        let pace = self.warm(manner).await?;
        let tasks = Self::within_reach(self.setup.tasks, pace);
        let first = self.due_behind(tasks, pace);
        let plan = self.plan(tasks, manner);
        let due = move |index: u64| first.after(Duration::from_millis(index % 1000));
        let meter = Meter::start(&*self.peer, self.time)?;
        let loaded = self.load(plan, due).await?;
        let used = meter.stop(&*self.peer, tasks)?;
        let rate = loaded.per_second();
        if loaded.behind > 0 {
            let (name, behind) = (self.setting.name, loaded.behind);
            report.note(format!(
                "{case}, {name}: {behind} were due before they were acknowledged"
            ));
        }
        let (verdict, _) = self.drain(Millis(0)).await?;
        self.report(
            case,
            Value::Rate { per_second: rate },
            verdict.check,
            report,
        );
        report.costs(format!("{case}, {}", self.setting.name), used);
        Ok(())
    }

    /// Measures many tasks that are due in the same second, from that second to the last acknowledgement.
    async fn burst(&mut self, report: &mut Report) -> anyhow::Result<()> {
        let (wanted, case) = (self.setup.burst, Case::Burst);
        let pace = self.warm(self.best_manner()).await?;
        let tasks = Self::within_reach(wanted, pace);
        let mut found = self.burst_of(tasks, pace).await?;
        let more = Self::within_reach(tasks * MORE, pace);
        if found.per_second > BOUND_PART * tasks as f64 && more > tasks {
            let (name, before) = (self.setting.name, found.per_second);
            report.note(format!(
                "{case}, {name}: {before:.0}/s of {tasks} due within a second, so {more}"
            ));
            let first = found.check;
            found = self.burst_of(more, pace).await?;
            found.check.tasks += first.tasks;
            found.check.lost += first.lost;
            found.check.early += first.early;
            found.check.duplicates += first.duplicates;
        }
        let per_second = found.per_second;
        self.report(case, Value::Rate { per_second }, found.check, report);
        report.costs(format!("burst, {}", self.setting.name), found.used);
        Ok(())
    }

    /// Tries again when the machine was busier than while the pace was measured.
    async fn burst_of(&mut self, tasks: u64, pace: f64) -> anyhow::Result<Burst> {
        for slower in BURST_TRIES {
            if let Some(burst) = self.try_burst(tasks, pace / slower).await? {
                return Ok(burst);
            }
        }
        bail!("{tasks} tasks were not registered in time");
    }

    /// Runs a burst. Returns none when a task was due before all were registered.
    async fn try_burst(&mut self, tasks: u64, pace: f64) -> anyhow::Result<Option<Burst>> {
        let second = Duration::from_secs(1);
        let first = self.due_behind(tasks, pace).ceil_to_grid(Millis(0), second);
        let plan = self.plan(tasks, self.best_manner());
        // Where due times are rounded up to whole seconds, the rounding spreads them over the same second.
        let spread = u64::from(self.setting.step < second) * 1000;
        let due = move |index: u64| {
            let offset = index.checked_rem(spread).unwrap_or(0);
            first.after(Duration::from_millis(offset))
        };
        self.load(plan, due).await?;
        if self.time.now() >= first {
            let check = self.drain(first).await?.0.check;
            let (lost, early) = (check.lost, check.early);
            ensure!(lost + early == 0, "{lost} were lost, {early} early");
            return Ok(None);
        }
        let meter = Meter::start(&*self.peer, self.time)?;
        let (verdict, seen) = self.drain(first).await?;
        let used = meter.stop(&*self.peer, tasks)?;
        let took_us = (seen.settled.last_us - first.0 * 1000).max(1);
        Ok(Some(Burst {
            per_second: tasks as f64 * 1e6 / took_us as f64,
            check: verdict.check,
            used,
        }))
    }

    /// Measures lateness at a rate.
    async fn steady(&mut self, rate: u64, report: &mut Report) -> anyhow::Result<()> {
        let (case, manner) = (Case::Steady(rate), self.best_manner());
        let span = WARM_UP + Duration::from_secs(self.setup.seconds);
        let mut plan = self.plan(rate * span.as_secs(), manner);
        plan.lanes.chunk = STEADY_CHUNK;
        plan.lanes.producers = STEADY_PRODUCERS;
        plan.interval = Some(Duration::from_secs(STEADY_CHUNK as u64).div_f64(rate as f64));
        let producers = load::producers(&mut *self.peer, plan.lanes.producers).await?;
        let consumers = self.peer.consumers().await?;
        let meter = Meter::start(&*self.peer, self.time)?;
        let first = self.time.now().after(STEADY_LEAD);
        let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
        let wait = Wait {
            tasks: plan.tasks,
            due: STEADY_LEAD + span,
            quiet: PATIENCE,
            late: STEADY_LATE_MAX,
        };
        // A peer that delivers too late ends the measurement, even if tasks are still to be registered.
        let (loaded, seen) = tokio::try_join!(
            load::register(producers, self.time, plan, due),
            load::work(consumers, self.time, wait)
        )?;
        let used = meter.stop(&*self.peer, plan.tasks)?;
        let name = self.setting.name;
        if loaded.behind > 0 {
            let behind = loaded.behind;
            report.note(format!(
                "{case}, {name}: {behind} were due before they were acknowledged"
            ));
        }
        let verdict = verdict(loaded.registered, seen.arrivals, first.after(WARM_UP))?;
        let value = Value::lateness(&verdict.lateness);
        self.report(case, value, verdict.check, report);
        report.costs(format!("{case}, {name}"), used);
        Ok(())
    }

    /// Measures the costs of waiting tasks.
    async fn pending(&mut self, report: &mut Report) -> anyhow::Result<()> {
        let manner = self.best_manner();
        let first = self.time.now().after(PENDING_LEAD);
        let due = move |index: u64| first.after(Duration::from_millis(index * 7919 % HALF_DAY_MS));
        // The peer has grown to its working size, and is warm.
        let plan = self.plan(WARM_TASKS, manner);
        let pace = self.load(plan, due).await?.per_second();
        let tasks = Self::within_reach(self.setup.tasks, pace);
        self.time.sleep(CALM).await;
        let before = process::usage(&self.peer.servers())?;
        let disk_before = disk_bytes(&*self.peer);
        let plan = self.plan(tasks, manner);
        self.load(plan, due).await?;
        self.time.sleep(CALM).await;
        let after = process::usage(&self.peer.servers())?;
        let disk = disk_bytes(&*self.peer).saturating_sub(disk_before);
        let all = tasks + WARM_TASKS;
        let check = self.check_pending(all).await?;
        let grown = after.memory_bytes.saturating_sub(before.memory_bytes);
        let value = Value::Pending {
            memory_bytes: grown as f64 / tasks as f64,
            disk_bytes: disk as f64 / tasks as f64,
            process_mib: after.memory_bytes as f64 / f64::from(1 << 20),
        };
        self.report(Case::Pending, value, check, report);
        Ok(())
    }

    /// Checks pending tasks: one that comes out now is early, one that the peer does not know is lost.
    async fn check_pending(&mut self, tasks: u64) -> anyhow::Result<Check> {
        let known = self.peer.pending().await?;
        let consumers = self.peer.consumers().await?;
        let wait = Wait {
            tasks: 1,
            due: Duration::ZERO,
            quiet: Duration::from_secs(1),
            late: LATE_MAX,
        };
        let seen = load::work(consumers, self.time, wait).await?;
        Ok(Check {
            tasks,
            lost: known.map_or(0, |known| tasks.saturating_sub(known)),
            early: seen.arrivals.len() as u64,
            duplicates: 0,
        })
    }
}

/// The result of a burst.
struct Burst {
    per_second: f64,
    check: Check,
    used: Costs,
}

/// A measurement under way: time on the processors of the peer, and of the harness with its adapters.
struct Meter<'a> {
    time: &'a TimeSource,
    begun: Moment,
    servers: Usage,
    clients_seconds: f64,
}

impl<'a> Meter<'a> {
    fn start(peer: &dyn Peer, time: &'a TimeSource) -> anyhow::Result<Self> {
        Ok(Self {
            time,
            begun: time.moment(),
            servers: process::usage(&peer.servers())?,
            clients_seconds: clients_seconds(peer)?,
        })
    }

    /// Ends the measurement; the costs are divided by `items`.
    fn stop(self, peer: &dyn Peer, items: u64) -> anyhow::Result<Costs> {
        let servers = process::usage(&peer.servers())?;
        let resident_mib = servers.memory_bytes >> 20;
        Ok(Costs {
            items,
            wall_seconds: self.time.moment().since(self.begun).as_secs_f64(),
            service_cpu_seconds: servers.cpu_seconds - self.servers.cpu_seconds,
            client_cpu_seconds: clients_seconds(peer)? - self.clients_seconds,
            resident_mib,
            peak_mib: resident_mib.max(self.servers.memory_bytes >> 20),
            load: load_average(),
        })
    }
}

fn clients_seconds(peer: &dyn Peer) -> anyhow::Result<f64> {
    let adapters = process::usage(&peer.adapters())?;
    Ok(own_usage()?.cpu_seconds + adapters.cpu_seconds)
}

fn disk_bytes(peer: &dyn Peer) -> u64 {
    bytes_below(&peer.directory())
}
