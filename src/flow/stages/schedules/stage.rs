//! The schedule stage has the driver look at schedules in time: it reads the rows of the seconds to come, and holds them until
//! then.
//!
//! Every node with wheels reads all rows, and looks at those schedules that the list of live nodes gives to it. For the others
//! it asks again some seconds later whether the node that should have looked has gone meanwhile. A node that starts, or that was
//! stopped for a while, reads all schedules once instead; one node does so every quarter of an hour, as a repair.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::driver::{Driver, Look};
use crate::{
    flow::{
        base::{
            api::Fault,
            context::Context,
            panics,
            tables::schedules::{Wake, Why, second_of},
        },
        life::late_runs::LateRuns,
        stages::cluster::members::Members,
    },
    limits::{
        RECORDS_PAGE_MAX, SCHEDULE_LOOKS_IN_FLIGHT_MAX, SCHEDULE_RETRY, SWEEP_EVERY, SWEEP_OVERDUE,
        WAKE_AHEAD_MIN, WAKE_ASKED_AGAIN, WAKE_ASKS_MAX, WAKES_LAG_MAX, WAKES_READ_AHEAD,
    },
    model::{
        ids::NodeId,
        schedule::{hash, life::Schedule},
        time::Millis,
        wheel::WheelNumber,
    },
};

/// The rows of a second are read each second.
const REST_MAX: Duration = Duration::from_secs(1);

/// A look that is held until its time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    wake: Wake,
    /// It is this node's, whatever the list of nodes says.
    own: bool,
    /// How often another node was named for it.
    asked: u8,
}

/// The looks that are held, for the stage and for those who want one.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct Agenda {
    held: Arc<Mutex<BTreeSet<Held>>>,
    wake: Arc<Notify>,
    /// All looks that were due by then, in milliseconds, are done; of use where the clock is moved by hand.
    done_until: Arc<AtomicI64>,
}

impl Agenda {
    /// Has this node look at a schedule.
    pub(in crate::flow) fn look(&self, name: &str, at: Millis) {
        let wake = Wake {
            at,
            name: name.to_owned(),
            why: Why::Due,
        };
        self.hold([Held {
            wake,
            own: true,
            asked: 0,
        }]);
        self.wake.notify_one();
    }

    /// Returns up to which time all looks are done.
    pub(super) fn done_until(&self) -> Millis {
        Millis(self.done_until.load(Ordering::SeqCst))
    }

    fn hold(&self, looks: impl IntoIterator<Item = Held>) {
        let mut held = self.held.lock();
        held.extend(looks);
    }

    /// Returns the time of the first look at a schedule that is not being looked at.
    fn next(&self, busy: &BTreeSet<String>) -> Option<Millis> {
        let held = self.held.lock();
        let mut open = held.iter().filter(|one| !busy.contains(&one.wake.name));
        open.next().map(|first| first.wake.at)
    }

    /// Takes the first look whose time has come, of a schedule that is not being looked at.
    fn take(&self, now: Millis, busy: &BTreeSet<String>) -> Option<Held> {
        let mut held = self.held.lock();
        let mut due = held.iter().take_while(|one| one.wake.at <= now);
        let due = due.find(|one| !busy.contains(&one.wake.name))?.clone();
        held.remove(&due);
        Some(due)
    }
}

/// The stage. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Stage {
    ctx: Arc<Context>,
    driver: Driver,
    members: Members,
    agenda: Agenda,
    late: LateRuns,
}

/// The progress of one life of the stage.
struct Progress {
    /// The next second whose rows are to be read.
    second: i64,
    /// Rows that were passed over, or not read yet, may tell of looks: all schedules are to be read instead.
    owes_sweep: bool,
    swept: Option<Millis>,
    looks: JoinSet<String>,
    busy: BTreeSet<String>,
}

impl Stage {
    pub(super) const fn new(
        ctx: Arc<Context>,
        driver: Driver,
        members: Members,
        agenda: Agenda,
        late: LateRuns,
    ) -> Self {
        Self {
            ctx,
            driver,
            members,
            agenda,
            late,
        }
    }

    /// Looks until `stop`; looks under way then come to their end.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let mut at = Progress {
            second: second_of(self.ctx.now()),
            owes_sweep: true,
            swept: None,
            looks: JoinSet::new(),
            busy: BTreeSet::new(),
        };
        let questions = self.late.take_questions();
        while !stop.is_cancelled() {
            let (moves, began) = (self.ctx.time.moves(), self.ctx.now());
            let rest = self.step(&mut at).await.unwrap_or_else(|fault| {
                tracing::debug!(%fault, "schedules cannot be read; trying again");
                SCHEDULE_RETRY
            });
            self.answer(&mut at);
            self.note_done(&at, began);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.agenda.wake.notified() => {}
                () = self.late.asked() => {}
                Some(looked) = at.looks.join_next(), if !at.looks.is_empty() => at.ended(looked),
                () = self.ctx.time.sleep_unless_moved(rest, moves) => {}
            }
        }
        drop(questions);
        while let Some(looked) = at.looks.join_next().await {
            at.ended(looked);
        }
    }

    /// Notes that all looks that were due at `began` are done, if they are.
    fn note_done(&self, at: &Progress, began: Millis) {
        let next = self.agenda.next(&at.busy);
        let is_done = at.busy.is_empty() && !at.owes_sweep && next.is_none_or(|next| next > began);
        if is_done {
            self.agenda.done_until.store(began.0, Ordering::SeqCst);
        }
    }

    /// Begins to answer questions about runs that would go out late. They wait for no other look than one at their schedule.
    fn answer(&self, at: &mut Progress) {
        while at.busy.len() < SCHEDULE_LOOKS_IN_FLIGHT_MAX {
            let Some((name, asked)) = self.late.take(&at.busy) else {
                return;
            };
            at.busy.insert(name.clone());
            let (driver, agenda, ctx) = (
                self.driver.clone(),
                self.agenda.clone(),
                Arc::clone(&self.ctx),
            );
            at.looks.spawn(async move {
                let decided = driver.decide_again(&name, &asked.ids);
                match panics::caught("schedule", decided).await {
                    Ok(withdrawn) => {
                        if !withdrawn.is_empty() {
                            agenda.look(&name, ctx.now());
                        }
                        asked.answer(withdrawn);
                    }
                    // Those who have asked do so again.
                    Err(fault) => {
                        tracing::debug!(schedule = name, %fault, "late runs were not decided on");
                    }
                }
                name
            });
        }
    }

    /// Reads rows, and begins looks; returns how long there is nothing to do.
    async fn step(&self, at: &mut Progress) -> Result<Duration, Fault> {
        let now = self.ctx.now();
        let lags = now.since(Millis(at.second.saturating_mul(1000))) > WAKES_LAG_MAX;
        if lags {
            at.second = second_of(now);
            // The sweep may fail, and this second lags no more then.
            at.owes_sweep = true;
        }
        let is_turn = at.swept.is_some_and(|swept| now.since(swept) > SWEEP_EVERY);
        if at.owes_sweep || (is_turn && self.is_mine("")) {
            self.sweep(at.owes_sweep).await?;
            at.owes_sweep = false;
            at.swept = Some(now);
            self.driver.forget_old();
        }
        let read_until = second_of(now.after(WAKES_READ_AHEAD));
        while at.second <= read_until {
            let wakes = self.driver.wakes.of_second(at.second).await?;
            self.agenda.hold(wakes.into_iter().map(|wake| Held {
                wake,
                own: false,
                asked: 0,
            }));
            at.second += 1;
        }
        self.begin(at);
        let now = self.ctx.now();
        let next_read = Millis(at.second.saturating_mul(1000)).before(WAKES_READ_AHEAD);
        let next_look = self
            .agenda
            .next(&at.busy)
            .filter(|_| at.busy.len() < SCHEDULE_LOOKS_IN_FLIGHT_MAX);
        let until = next_look.map_or(next_read, |look| look.min(next_read));
        // A look of a schedule that is being looked at waits for the end of that. A clock that was set back may be set right at
        // any time, so no rest is longer than one to the next second.
        Ok(now.until(until).clamp(Duration::from_millis(1), REST_MAX))
    }

    /// Begins the looks whose time has come.
    fn begin(&self, at: &mut Progress) {
        while at.busy.len() < SCHEDULE_LOOKS_IN_FLIGHT_MAX {
            let Some(held) = self.agenda.take(self.ctx.now(), &at.busy) else {
                return;
            };
            let look = match held.wake.why {
                Why::Due => Look::IfDue,
                Why::Repair { incarnation, seq } => {
                    if self.driver.has_entered(&held.wake.name, incarnation, seq) {
                        continue;
                    }
                    Look::Surely
                }
            };
            if !held.own && !self.is_mine(&held.wake.name) {
                self.ask_again(held);
                continue;
            }
            let name = held.wake.name.clone();
            at.busy.insert(name.clone());
            let (driver, agenda, ctx) = (
                self.driver.clone(),
                self.agenda.clone(),
                Arc::clone(&self.ctx),
            );
            at.looks.spawn(async move {
                match panics::caught("schedule", driver.look(&name, look)).await {
                    // Its row comes in time, unless it lies too near.
                    Ok(Some(wake)) if wake <= ctx.now().after(WAKE_AHEAD_MIN * 2) => {
                        agenda.look(&name, wake)
                    }
                    Ok(_) => {}
                    Err(fault) => {
                        tracing::debug!(schedule = name, %fault, "a schedule is looked at again");
                        agenda.hold([Held {
                            wake: Wake {
                                at: ctx.now().after(SCHEDULE_RETRY),
                                ..held.wake
                            },
                            own: true,
                            asked: 0,
                        }]);
                    }
                }
                name
            });
        }
    }

    /// Holds a look of another node until it is known whether that node lives. While no node is ready, as when the queue is away,
    /// there is none to ask for, and the look is held on.
    fn ask_again(&self, held: Held) {
        if held.asked < WAKE_ASKS_MAX {
            let at = self.ctx.now().after(WAKE_ASKED_AGAIN);
            let asks = self.preferred(&held.wake.name).is_some();
            self.agenda.hold([Held {
                wake: Wake { at, ..held.wake },
                own: false,
                asked: held.asked + u8::from(asks),
            }]);
        }
    }

    /// Tells whether this node should look at a schedule.
    fn is_mine(&self, name: &str) -> bool {
        self.preferred(name) == Some(self.ctx.me)
    }

    /// Returns the node that should look at a schedule, if any is ready.
    fn preferred(&self, name: &str) -> Option<NodeId> {
        // Wheels are numbers of twelve bits here: any number of them is given to nodes in the same way.
        let bits = u16::try_from(hash(&[name.as_bytes()]) & 0xfff).unwrap_or(0);
        self.members
            .view()
            .preferred(WheelNumber::from_low_bits(bits))
    }

    /// Reads all schedules, and has those looked at that should have been.
    async fn sweep(&self, starts: bool) -> Result<(), Fault> {
        let mut after: Option<String> = None;
        loop {
            let page = self
                .driver
                .schedules
                .page(after.as_deref(), RECORDS_PAGE_MAX);
            let (schedules, next) = page.await?;
            for (name, schedule) in schedules {
                if let Some(wake) = self.overdue(name, &schedule, starts) {
                    // At a start other nodes may be at it: this one looks if it is its own, or theirs are gone.
                    self.agenda.hold([Held {
                        wake,
                        own: !starts,
                        asked: 0,
                    }]);
                }
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the look that a schedule should have had, or will have before its row is read.
    fn overdue(&self, name: String, schedule: &Schedule, starts: bool) -> Option<Wake> {
        let now = self.ctx.now();
        let (old, of_now) = schedule.void_and_valid();
        let until = if starts {
            now.after(WAKE_AHEAD_MIN)
        } else {
            now.before(SWEEP_OVERDUE)
        };
        if let Some(at) = schedule.wake.filter(|wake| *wake <= until) {
            let why = Why::Due;
            return Some(Wake { at, name, why });
        }
        let undone = !old.is_empty() || of_now.iter().any(|run| !run.entered);
        undone.then_some(Wake {
            at: now,
            name,
            why: Why::Repair {
                incarnation: schedule.incarnation,
                seq: schedule.seq,
            },
        })
    }
}

impl Progress {
    fn ended(&mut self, looked: Result<String, tokio::task::JoinError>) {
        match looked {
            Ok(name) => {
                self.busy.remove(&name);
            }
            // It is not known which it was: all may be looked at again.
            Err(error) => {
                tracing::error!(%error, "a look at a schedule failed");
                self.busy.clear();
            }
        }
    }
}
