//! The driver looks at a schedule for the stage and the desk: it withdraws what a change has made void, enters what was decided
//! on, and decides on more.
//!
//! Any node may look at any schedule at any time; two that do so at once differ in which of their writes is first. The loser
//! begins anew on what is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    plans,
    records::{Read, Schedules, Written},
    runs::Runs,
    tasks::{RunTasks, Unentered},
    wakes::Wakes,
};
use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, context::Context, documents, tables::schedules::Why},
    limits::{ENTERED_REMEMBERED, REPAIR_AFTER, SCHEDULE_RACES_MAX, SCHEDULE_WRITES_A_LOOK_MAX},
    model::{
        ids::TaskId,
        record::Record,
        schedule::{
            advance::{Advanced, Around, Seen, advance},
            again::again,
            hash,
            life::{Schedule, State},
            plan::Plan,
            run::{Cause, Listed, Namer, Run},
        },
        time::Millis,
    },
};

/// The driver. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Driver {
    ctx: Arc<Context>,
    pub(super) schedules: Schedules,
    pub(super) tasks: RunTasks,
    pub(super) runs: Runs,
    pub(super) wakes: Wakes,
    /// The runs that this node has entered lately: up to which run of which incarnation, and when.
    entered: Arc<Mutex<BTreeMap<String, Entered>>>,
}

/// The incarnation of a schedule, the number of its last run that was entered, and when that was.
type Entered = (u128, u64, Millis);

/// The reason for which a look does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Only if the record says that it is time.
    IfDue,
    /// In any case.
    Surely,
}

impl Driver {
    pub(super) fn new(ctx: Arc<Context>, tasks: RunTasks) -> Self {
        Self {
            schedules: Schedules::new(Arc::clone(&ctx)),
            runs: Runs::new(Arc::clone(&ctx)),
            wakes: Wakes::new(Arc::clone(&ctx)),
            entered: Arc::default(),
            tasks,
            ctx,
        }
    }

    /// Looks at a schedule; returns when to look again.
    pub(super) async fn look(&self, name: &str, look: Look) -> Result<Option<Millis>, Fault> {
        let (Some(mut record), Some(mut schedule)) = self.schedules.read(name).await? else {
            return Ok(None);
        };
        if look == Look::IfDue && schedule.wake.is_none_or(|wake| wake > self.ctx.now()) {
            return Ok(None);
        }
        for _ in 0..SCHEDULE_WRITES_A_LOOK_MAX {
            let (seen, unentered) = self.settle(name, &schedule).await?;
            let again = self.again(name, &schedule, &seen, &unentered.late)?;
            let advanced = match again {
                Some(again) => Some(again),
                None => {
                    self.enter(name, &schedule, &seen, &unentered).await?;
                    self.advanced(name, &schedule, &seen, &unentered)?
                }
            };
            let Some(advanced) = advanced else {
                return Ok(schedule.wake);
            };
            match self.write(name, (&record, &schedule), &advanced).await? {
                Written::To(written) => (record, schedule) = (written, advanced.schedule),
                Written::Lost(there) => {
                    let (Some(there), Some(is)) = *there else {
                        return Ok(None);
                    };
                    (record, schedule) = (there, is);
                    continue;
                }
            }
            if !advanced.more && schedule.ahead.iter().all(|run| run.entered) {
                return Ok(schedule.wake);
            }
            if !advanced.more {
                self.enter(name, &schedule, &seen, &unentered).await?;
                if schedule.spec.task.target.is_tracked() || !unentered.unsure.is_empty() {
                    return Ok(schedule.wake);
                }
                // Nothing tells the next look, which may be far, that a record has gone out: the write that follows does.
            }
        }
        Ok(Some(self.ctx.now()))
    }

    /// Decides again on runs that would go out late; returns those that it has withdrawn. The next look counts them.
    pub(super) async fn decide_again(
        &self,
        name: &str,
        held: &BTreeSet<TaskId>,
    ) -> Result<BTreeSet<TaskId>, Fault> {
        let mut withdrawn = BTreeSet::new();
        for _ in 0..SCHEDULE_RACES_MAX {
            let (Some(record), Some(schedule)) = self.schedules.read(name).await? else {
                return Ok(withdrawn);
            };
            let (mut void, mut valid) = schedule.void_and_valid();
            void.retain(|run| held.contains(&run.id));
            let ended = self
                .tasks
                .withdraw(name, &schedule, void)
                .await?
                .into_iter();
            withdrawn
                .extend(ended.filter_map(|(id, seen)| (seen == Seen::Withdrawn).then_some(id)));
            valid.retain(|run| held.contains(&run.id));
            let seen = self.tasks.seen(&schedule, &valid).await?;
            let seen = seen.into_iter().collect();
            let Some(again) = self.again(name, &schedule, &seen, held)? else {
                return Ok(withdrawn);
            };
            if flaw::is(Flaw::WithdrawnBeforeMarked) {
                let (void, _) = again.schedule.void_and_valid();
                self.tasks.withdraw(name, &schedule, void).await?;
            }
            self.write(name, (&record, &schedule), &again).await?;
        }
        Err(documents::raced(format_args!("the schedule {name}")))
    }

    /// Withdraws the runs that are void, and reads how the others stand.
    async fn settle(
        &self,
        name: &str,
        schedule: &Schedule,
    ) -> Result<(BTreeMap<TaskId, Seen>, Unentered), Fault> {
        let (void, mut valid) = schedule.void_and_valid();
        let mut seen: BTreeMap<TaskId, Seen> = BTreeMap::new();
        seen.extend(self.tasks.withdraw(name, schedule, void).await?);
        seen.extend(self.tasks.seen(schedule, &valid).await?);
        let now = self.ctx.now();
        valid.retain(|run| self.is_open(name, schedule, run, &seen));
        valid.retain(|run| run.id.first_start() <= now);
        let unentered = self.tasks.unentered(&valid).await?;
        Ok((seen, unentered))
    }

    /// Enters the valid runs that are not known to be entered and have not begun.
    async fn enter(
        &self,
        name: &str,
        schedule: &Schedule,
        seen: &BTreeMap<TaskId, Seen>,
        unentered: &Unentered,
    ) -> Result<(), Fault> {
        let (_, mut open) = schedule.void_and_valid();
        open.retain(|run| self.is_open(name, schedule, run, seen));
        let Unentered {
            standing, unsure, ..
        } = unentered;
        open.retain(|run| !standing.contains(&run.id) && !unsure.contains(&run.id));
        if !open.is_empty() {
            let listed: Vec<Listed> = open.iter().map(|run| listed(*run, false)).collect();
            self.runs.put(name, &listed).await?;
            let mut tasks = Vec::with_capacity(open.len());
            for run in &open {
                let task = self.tasks.make(name, &schedule.spec, (run.id, run.time));
                tasks.push(task.await?);
            }
            self.tasks.enter(tasks).await?;
            metrics::counter!("tickwheel_schedule_runs_total", "outcome" => "started")
                .increment(open.len() as u64);
        }
        let (_, valid) = schedule.void_and_valid();
        let left_out = valid.iter().filter(|run| unsure.contains(&run.id));
        self.remember(name, schedule, left_out.map(|run| run.seq).min());
        Ok(())
    }

    /// Tells whether a run is not known to be entered and has not begun.
    fn is_open(
        &self,
        name: &str,
        schedule: &Schedule,
        run: &Run,
        seen: &BTreeMap<TaskId, Seen>,
    ) -> bool {
        let seen = seen.get(&run.id).copied().unwrap_or(Seen::Unstarted);
        let is_entered = run.entered || self.has_entered(name, schedule.incarnation, run.seq);
        !is_entered && seen == Seen::Unstarted
    }

    /// Notes that the runs before `left_out` were entered, or all of them. A run that was left out is looked for again.
    fn remember(&self, name: &str, schedule: &Schedule, left_out: Option<u64>) {
        let now = self.ctx.now();
        let decided = schedule.decided_to_run();
        let Some(up_to) = left_out.map_or(Some(decided), |seq| seq.checked_sub(1)) else {
            return;
        };
        let mut entered = self.entered.lock();
        entered.insert(name.to_owned(), (schedule.incarnation, up_to, now));
    }

    /// Tells whether this node has entered the runs up to a number itself.
    pub(super) fn has_entered(&self, name: &str, incarnation: u128, seq: u64) -> bool {
        let entered = self.entered.lock();
        let known = entered.get(name);
        known.is_some_and(|(of, up_to, _)| *of == incarnation && *up_to >= seq)
    }

    /// Forgets what was entered a while ago.
    pub(super) fn forget_old(&self) {
        let since = self.ctx.now().before(ENTERED_REMEMBERED);
        let mut entered = self.entered.lock();
        entered.retain(|_, (_, _, at)| *at >= since);
    }

    fn advanced(
        &self,
        name: &str,
        schedule: &Schedule,
        seen: &BTreeMap<TaskId, Seen>,
        unentered: &Unentered,
    ) -> Result<Option<Advanced>, Fault> {
        let plan = self.plan(name, schedule)?;
        let around = self.around(name, schedule, &plan, (seen, &unentered.unsure));
        Ok(advance(schedule, &around))
    }

    fn again(
        &self,
        name: &str,
        schedule: &Schedule,
        seen: &BTreeMap<TaskId, Seen>,
        held: &BTreeSet<TaskId>,
    ) -> Result<Option<Advanced>, Fault> {
        if held.is_empty() {
            return Ok(None);
        }
        let plan = self.plan(name, schedule)?;
        let unsure = BTreeSet::new();
        let around = self.around(name, schedule, &plan, (seen, &unsure));
        Ok(again(schedule, &around, held))
    }

    fn around<'a>(
        &'a self,
        name: &'a str,
        schedule: &Schedule,
        plan: &'a Plan,
        (seen, unsure): (&'a BTreeMap<TaskId, Seen>, &'a BTreeSet<TaskId>),
    ) -> Around<'a> {
        let failed = schedule.seq.to_be_bytes();
        Around {
            plan,
            zone_data: self.ctx.settings.zones.version(),
            namer: Namer {
                name,
                incarnation: schedule.incarnation,
                step: schedule.step,
                shape: self.ctx.shape(),
            },
            seen,
            unsure,
            now: self.ctx.now(),
            mark: hash(&[name.as_bytes(), b"failed", &failed]).into(),
        }
    }

    /// Returns the times of a schedule, by the zone data of this node.
    pub(super) fn plan(&self, name: &str, schedule: &Schedule) -> Result<Plan, Fault> {
        let data = self.ctx.settings.zones.version();
        if !schedule.zone_data.is_empty() && schedule.zone_data != data {
            tracing::debug!(
                schedule = name,
                data,
                theirs = schedule.zone_data,
                "a schedule was computed with other data about time zones; its next time stands"
            );
        }
        let zones = self.ctx.settings.zones;
        plans::plan(zones, name, &schedule.spec, schedule.anchor())
    }

    /// Writes the rows of the next looks, then the record.
    async fn write(
        &self,
        name: &str,
        (record, old): (&Record, &Schedule),
        advanced: &Advanced,
    ) -> Result<Written, Fault> {
        let new = &advanced.schedule;
        if !advanced.stopped.is_empty() {
            self.tasks.stop(&advanced.stopped).await?;
        }
        let skipped: Vec<Listed> = advanced
            .skipped
            .iter()
            .map(|run| listed(*run, true))
            .collect();
        self.runs.put(name, &skipped).await?;
        let now = self.ctx.now();
        let adds = new.ahead.iter().any(|run| !run.entered);
        let repaired_by_next = new.wake.is_some_and(|wake| wake <= now.after(REPAIR_AFTER));
        if let Some(wake) = new.wake.filter(|_| new.wake != old.wake || adds) {
            self.wakes.put(name, wake, Why::Due).await?;
        }
        if adds && !repaired_by_next {
            let why = Why::Repair {
                incarnation: new.incarnation,
                seq: new.seq,
            };
            self.wakes.put(name, now.after(REPAIR_AFTER), why).await?;
        }
        let written = self.schedules.write(name, Some(record), new).await?;
        if matches!(written, Written::To(_)) {
            tell(name, old, new);
        }
        Ok(written)
    }

    /// Withdraws the runs of older generations that have not begun; returns how many were withdrawn, and how many had begun.
    pub(super) async fn withdraw_old(
        &self,
        name: &str,
        schedule: &Schedule,
    ) -> Result<(u64, u64), Fault> {
        let (old, _) = schedule.void_and_valid();
        let seen = self.tasks.withdraw(name, schedule, old).await?;
        let count = |wanted: Seen| seen.iter().filter(|(_, seen)| *seen == wanted).count() as u64;
        Ok((count(Seen::Withdrawn), count(Seen::Active)))
    }

    /// Reads a schedule as users see it.
    pub(super) async fn read(&self, name: &str) -> Result<Read, Fault> {
        self.schedules.read(name).await
    }
}

const fn listed(run: Run, skipped: bool) -> Listed {
    Listed {
        run,
        cause: Cause::Schedule,
        skipped,
    }
}

/// Counts and logs what a write has decided on.
fn tell(name: &str, before: &Schedule, after: &Schedule) {
    for (outcome, count) in [
        ("missed", after.missed.saturating_sub(before.missed)),
        ("skipped", after.skipped.saturating_sub(before.skipped)),
    ] {
        if count > 0 {
            metrics::counter!("tickwheel_schedule_runs_total", "outcome" => outcome)
                .increment(count);
        }
    }
    if before.state == after.state {
        return;
    }
    match &after.state {
        State::Paused(pause) => {
            tracing::warn!(
                schedule = name,
                reason = pause.reason,
                "a schedule has paused itself"
            );
        }
        State::Ended => tracing::info!(schedule = name, "a schedule has ended"),
        State::Live | State::Deleted => {}
    }
}
