//! The schedule desk creates, changes, pauses, deletes and lists schedules for people, and starts runs at their wish.
//!
//! A change is answered when no run of an older generation can begin any more. It has the id of its request: a repetition of the
//! request finds its own change, withdraws again what may be left, and gets the answer of the first.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use super::{
    driver::Driver,
    plans,
    records::Written,
    stage::{Agenda, Stage},
    tasks::RunTasks,
};
use crate::{
    flow::{
        base::{
            api::{Fault, NewTask, TaskView, View},
            context::Context,
            documents,
            read::find::Finder,
            tables::schedules::{self, Why},
            zones::Zones,
        },
        life::{
            asked::{Answer, AskedTask, Asker, RequestMark},
            late_runs::LateRuns,
        },
        stages::cluster::members::Members,
    },
    limits::{JOB_ITEMS_IN_FLIGHT_MAX, RECORDS_PAGE_MAX, RUNS_PAGE_MAX, SCHEDULE_RACES_MAX},
    model::{
        draft::Defaults,
        key::OnConflict,
        look_step::LookStep,
        schedule::{
            life::{ChangeMark, Pause, Schedule, ScheduleSpec},
            plan::Plan,
            run::{Cause, Listed, Run},
        },
        task::Scheduled,
        time::Millis,
    },
};

/// A schedule after a change, and what the change did to its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The schedule.
    pub schedule: Schedule,
    /// Runs that were withdrawn before they began.
    pub withdrawn: u64,
    /// Runs of before that have begun, and go on.
    pub started: u64,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// There was none; now there is.
    Created(Outcome),
    /// It is so now.
    Now(Outcome),
    /// It was so already.
    Same(Schedule),
    /// There is no such schedule.
    Absent,
    /// The same change was asked for before, with other settings.
    OtherRequest,
    /// The precondition does not hold.
    Mismatch(Option<Schedule>),
    /// Its times or its limit are used up: it cannot be paused.
    Ended(Schedule),
}

/// A change that a person makes of a schedule that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// It starts no runs.
    Pause {
        /// A text for people.
        reason: String,
        /// The person.
        who: String,
    },
    /// It goes on.
    Resume,
    /// It is deleted.
    Delete,
}

/// Decides whether a schedule is still as the requester believes; none is one that is not there.
pub type Precondition<'a> = &'a (dyn Fn(Option<&Schedule>) -> bool + Send + Sync);

/// The decision about a schedule that was read.
enum Decided {
    Write(Box<Schedule>, bool),
    Answer(Box<Changed>),
}

/// A run as it is listed, with its task.
#[derive(Debug, Clone)]
pub struct ListedRun {
    /// The run.
    pub listed: Listed,
    /// Its task; none where it has none, or none any more.
    pub task: Option<TaskView>,
}

/// The desk. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Desk {
    ctx: Arc<Context>,
    driver: Driver,
    agenda: Agenda,
    asker: Asker,
    finder: Finder,
}

impl Desk {
    /// Keeps schedules whose runs are made by `tasks`.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        tasks: RunTasks,
        asker: Asker,
        finder: Finder,
    ) -> Self {
        Self {
            driver: Driver::new(Arc::clone(&ctx), tasks),
            agenda: Agenda::default(),
            ctx,
            asker,
            finder,
        }
    }

    /// Returns the stage that looks at the schedules.
    pub(in crate::flow) fn stage(&self, members: Members, late: LateRuns) -> Stage {
        let (driver, agenda) = (self.driver.clone(), self.agenda.clone());
        Stage::new(Arc::clone(&self.ctx), driver, members, agenda, late)
    }

    /// Tells whether looks at schedules that are due at `at` are not done yet.
    pub(in crate::flow) fn is_behind(&self, at: Millis) -> bool {
        self.agenda.done_until() < at
    }

    /// Returns when the next look at a schedule is due.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn next_look(&self) -> Result<Option<Millis>, Fault> {
        let (mut next, mut after) = (None, None);
        loop {
            let schedules = &self.driver.schedules;
            let (page, more) = schedules.page(after.as_deref(), RECORDS_PAGE_MAX).await?;
            let looks = page.iter().filter_map(|(_, schedule)| schedule.wake);
            next = looks.chain(next).min();
            after = more;
            if after.is_none() {
                return Ok(next);
            }
        }
    }

    /// Returns the data about time zones.
    #[must_use]
    pub fn zones(&self) -> Zones {
        self.ctx.settings.zones
    }

    /// Returns the times of a schedule, by the data of this node.
    ///
    /// # Errors
    /// When a later version, or other data about zones, is needed to read it.
    pub fn plan(&self, name: &str, schedule: &Schedule) -> Result<Plan, Fault> {
        self.driver.plan(name, schedule)
    }

    /// Returns the times of what was set for a schedule, by the data of this node.
    ///
    /// # Errors
    /// When a later version, or other data about zones, is needed to read it.
    pub fn plan_of(&self, name: &str, spec: &ScheduleSpec, anchor: Millis) -> Result<Plan, Fault> {
        plans::plan(self.zones(), name, spec, anchor)
    }

    /// Returns a schedule as it would be, if it were created now.
    #[must_use]
    pub fn draft(&self, spec: ScheduleSpec) -> Schedule {
        let mark = self.mark(0);
        Schedule::created(spec, None, 0, LookStep::MIN, mark)
    }

    const fn mark_at(id: u128, at: Millis) -> ChangeMark {
        ChangeMark { id, at }
    }

    fn mark(&self, id: u128) -> ChangeMark {
        Self::mark_at(id, self.ctx.now())
    }

    /// Creates a schedule, or replaces what is set. With `paused` a new one waits for a person.
    ///
    /// # Errors
    /// When it is not known whether it was done; repeating it with the same id is safe.
    pub async fn put(
        &self,
        name: &str,
        spec: ScheduleSpec,
        paused: Option<Pause>,
        id: u128,
        holds: Precondition<'_>,
    ) -> Result<Changed, Fault> {
        let step = self.look_step(name, &spec).await?;
        let incarnation = self.ctx.time.random_uuid().as_u128();
        let changed = self
            .change(name, id, |old, mark| {
                let there = old.filter(|old| old.is_there());
                if !holds(there) {
                    return Ok(Decided::Answer(Box::new(Changed::Mismatch(there.cloned()))));
                }
                let new = match there {
                    Some(there) if there.spec == spec => {
                        return Ok(Decided::Answer(Box::new(Changed::Same(there.clone()))));
                    }
                    Some(there) => there.with_spec(spec.clone(), step, mark),
                    None => {
                        let new = Schedule::created(spec.clone(), old, incarnation, step, mark);
                        match &paused {
                            Some(pause) => new.begun_paused(pause.clone()),
                            None => new,
                        }
                    }
                };
                Ok(Decided::Write(
                    Box::new(self.going_on(name, new, mark.at)?),
                    there.is_none(),
                ))
            })
            .await?;
        Ok(match changed {
            // It was changed by the same request, and not to this.
            Changed::Now(there) if there.schedule.spec != spec => Changed::OtherRequest,
            Changed::Same(there) if there.spec != spec => Changed::OtherRequest,
            changed => changed,
        })
    }

    /// Pauses, resumes or deletes a schedule.
    ///
    /// # Errors
    /// When it is not known whether it was done; repeating it with the same id is safe.
    pub async fn order(
        &self,
        name: &str,
        order: &Order,
        id: u128,
        holds: Precondition<'_>,
    ) -> Result<Changed, Fault> {
        self.change(name, id, |old, mark| {
            let Some(there) = old.filter(|old| old.is_there()) else {
                return Ok(Decided::Answer(Box::new(Changed::Absent)));
            };
            if !holds(Some(there)) {
                return Ok(Decided::Answer(Box::new(Changed::Mismatch(Some(
                    there.clone(),
                )))));
            }
            let changed = match order {
                Order::Pause { reason, who } => {
                    let pause = Pause {
                        reason: reason.clone(),
                        who: who.clone(),
                        since: mark.at,
                    };
                    there.paused(pause, mark)
                }
                Order::Resume => there.resumed(mark),
                Order::Delete => Some(there.deleted(mark)),
            };
            let Some(new) = changed else {
                let is_over = matches!(order, Order::Pause { .. }) && there.has_ended(mark.at);
                return Ok(Decided::Answer(Box::new(if is_over {
                    Changed::Ended(there.clone())
                } else {
                    Changed::Same(there.clone())
                })));
            };
            Ok(Decided::Write(
                Box::new(self.going_on(name, new, mark.at)?),
                false,
            ))
        })
        .await
    }

    /// Gives a live schedule the time from which it goes on.
    fn going_on(&self, name: &str, new: Schedule, now: Millis) -> Result<Schedule, Fault> {
        if !new.is_live() {
            return Ok(new);
        }
        let plan = self.driver.plan(name, &new)?;
        let next = plan.next(now);
        Ok(new.going_on(next, self.zones().version().to_owned()))
    }

    async fn change(
        &self,
        name: &str,
        id: u128,
        decide: impl Fn(Option<&Schedule>, ChangeMark) -> Result<Decided, Fault>,
    ) -> Result<Changed, Fault> {
        let (mut record, mut there) = self.driver.read(name).await?;
        for race in 0..SCHEDULE_RACES_MAX {
            if let Some(there) = there.as_ref().filter(|there| there.change == id) {
                // This request was here before.
                return self.done(name, there.clone(), false).await;
            }
            let (new, creates) = match decide(there.as_ref(), self.mark(id))? {
                Decided::Answer(answer) => return Ok(*answer),
                Decided::Write(new, creates) => (*new, creates),
            };
            if race == 0 {
                self.driver
                    .wakes
                    .put(name, self.ctx.now(), Why::Due)
                    .await?;
            }
            match self
                .driver
                .schedules
                .write(name, record.as_ref(), &new)
                .await?
            {
                Written::To(_) => return self.done(name, new, creates).await,
                Written::Lost(is) => (record, there) = *is,
            }
        }
        Err(documents::raced(format_args!("the schedule {name}")))
    }

    /// Withdraws what a change has made void, and answers.
    async fn done(&self, name: &str, new: Schedule, created: bool) -> Result<Changed, Fault> {
        let (withdrawn, started) = self.driver.withdraw_old(name, &new).await?;
        self.agenda.look(name, self.ctx.now());
        let outcome = Outcome {
            schedule: new,
            withdrawn,
            started,
        };
        Ok(if created {
            Changed::Created(outcome)
        } else {
            Changed::Now(outcome)
        })
    }

    /// The look step of the tasks: that of their claim timeout, as it is now.
    async fn look_step(&self, name: &str, spec: &ScheduleSpec) -> Result<LookStep, Fault> {
        let id = crate::model::ids::TaskId::FIRST.with_look_step(LookStep::covering(Duration::MAX));
        let made = self
            .driver
            .tasks
            .make(name, spec, (id, Millis::EPOCH))
            .await?;
        let timeout = made.spec.claim_timeout.max(Defaults::SERVICE.claim_timeout);
        Ok(LookStep::covering(timeout))
    }

    /// Reads a schedule.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(&self, name: &str) -> Result<Option<Schedule>, Fault> {
        let (_, schedule) = self.driver.read(name).await?;
        Ok(schedule.filter(Schedule::is_there))
    }

    /// Lists schedules by name, behind `after`; also the name behind which there may be more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(
        &self,
        after: Option<&str>,
        max: usize,
    ) -> Result<(Vec<(String, Schedule)>, Option<String>), Fault> {
        let (mut page, next) = self.driver.schedules.page(after, max).await?;
        page.retain(|(_, schedule)| schedule.is_there());
        Ok((page, next))
    }

    /// Lists the runs of a schedule, the newest first; also the place behind which there may be more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn runs(
        &self,
        name: &str,
        after: Option<Bytes>,
        max: usize,
    ) -> Result<(Vec<ListedRun>, Option<Bytes>), Fault> {
        let (listed, next) = self.driver.runs.page(name, after, max).await?;
        let read = stream::iter(listed)
            .map(|listed| async move {
                let task = if listed.skipped {
                    None
                } else {
                    self.finder.get(listed.run.id, View::Basic).await?
                };
                Ok(ListedRun { listed, task })
            })
            .buffered(JOB_ITEMS_IN_FLIGHT_MAX);
        let runs: Vec<Result<ListedRun, Fault>> = read.collect().await;
        Ok((runs.into_iter().collect::<Result<_, _>>()?, next))
    }

    /// Returns the runs that are listed at one time of a schedule.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn runs_at(&self, name: &str, time: Millis) -> Result<Vec<Listed>, Fault> {
        let before = schedules::before_runs_of(time);
        let (mut listed, _) = self
            .driver
            .runs
            .page(name, Some(before), RUNS_PAGE_MAX)
            .await?;
        listed.retain(|listed| listed.run.time == time);
        Ok(listed)
    }

    /// Starts a run now, whatever its schedule says. Requests with one mark start one run.
    ///
    /// # Errors
    /// When it is not known whether it was started; repeating it with the same mark is safe.
    pub async fn trigger(
        &self,
        name: &str,
        schedule: &Schedule,
        request: Option<RequestMark>,
    ) -> Result<Answer, Fault> {
        let now = self.ctx.now();
        let mut draft = schedule.spec.task.clone();
        draft.create_time = now;
        draft.scheduled = Some(Box::new(Scheduled {
            schedule: name.to_owned(),
            time: now,
        }));
        let asked = AskedTask {
            task: NewTask { start: now, draft },
            id: None,
            request,
            on_conflict: OnConflict::default(),
        };
        let answer = self.asker.register(vec![asked]).await.pop();
        let answer =
            answer.unwrap_or_else(|| Err(documents::raced(format_args!("the schedule {name}"))))?;
        if let Answer::Created(task) | Answer::Existing(task) = &answer {
            let listed = Listed {
                run: Run {
                    id: task.id,
                    generation: schedule.generation,
                    seq: 0,
                    time: task.id.first_start(),
                    entered: true,
                    late: false,
                },
                cause: Cause::Trigger,
                skipped: false,
            };
            self.driver.runs.put(name, &[listed]).await?;
        }
        Ok(answer)
    }
}
