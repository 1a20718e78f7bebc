//! The clock stage proposes the next value of a wheel's clock row for a node, and follows the outcome. Every
//! scanner node has one for each wheel.
//!
//! `step` considers the row once: [`crate::model::clock::next`] decides, one conditional write swaps, and the
//! outcome begins, continues or ends the node's term. A serial read settles an unknown outcome before
//! anything is believed. If that read fails, the term goes on only as long as its lease. The lease is counted
//! on the monotonic clock from before the last swap that is known to be applied.
//!
//! Crash points: before the swap, nothing happened. After it, the row says that this (dead) node owns the
//! wheel until its lease ends. `fired` has not passed anything unacknowledged, and the next owner goes on
//! from there.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    stages::Stages,
    term::{Still, Term},
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{context::Context, entries::watermarks::Watermarks},
        stages::cluster::members::Members,
    },
    limits,
    model::{
        clock::{self, ClockRow, Move, Reason, Rest, Situation},
        stalls::AVOID,
        time::Millis,
        wheel::WheelNumber,
    },
    store::{Error, Freshness, Swapped},
    time_source::Moment,
};

/// The outcome of a step of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticked {
    /// The row was swapped.
    Swapped(Reason),
    /// Somebody else had swapped it.
    Lost,
    /// It was left alone.
    Rested(Rest),
}

/// The clock stage of one wheel.
#[derive(Debug)]
pub struct Clock {
    ctx: Arc<Context>,
    watermarks: Watermarks,
    members: Members,
    stages: Stages,
    wheel: WheelNumber,
    /// The row as it is known to be in the store, while this node owns the wheel.
    owned: Option<ClockRow>,
    /// The row that a quorum shows may be older than the row that a swap was lost to.
    doubted: bool,
    term: Option<Arc<Term>>,
    free_since: Option<Moment>,
    avoid_until: Option<Millis>,
    /// When the wheel was last held still to be given away and something remained under way.
    held_in_vain: Option<Moment>,
    /// Since when another node should own the wheel.
    wanted_since: Option<Moment>,
}

impl Drop for Clock {
    /// A clock that is gone, after a panic, must not leave a term behind that nobody renews or ends.
    fn drop(&mut self) {
        self.end("its clock ended");
    }
}

impl Clock {
    /// Watches a wheel.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        members: Members,
        stages: Stages,
        wheel: WheelNumber,
    ) -> Self {
        Self {
            ctx,
            watermarks,
            members,
            stages,
            wheel,
            owned: None,
            doubted: false,
            term: None,
            free_since: None,
            avoid_until: None,
            held_in_vain: None,
            wanted_since: None,
        }
    }

    /// Considers the row once.
    ///
    /// # Errors
    /// When the store cannot be read or written; the term, if any, goes on until its lease ends.
    pub async fn step(&mut self) -> Result<Ticked, Error> {
        self.end_if_lapsed();
        let row = match self.owned {
            Some(row) => row,
            None => self.read().await?,
        };
        self.watermarks.learn(self.wheel, &row);
        if row.owner != self.ctx.me {
            self.end("lost");
        }
        self.note_free(&row, self.ctx.time.moment());
        let _still = self.hold_still(&row).await;
        let now = self.ctx.time.moment();
        let (to, reason) = match clock::next(&row, &self.ctx.rules, &self.situation(now)) {
            Move::Swap { to, reason } => (to, reason),
            Move::Rest(rest) => return Ok(Ticked::Rested(rest)),
        };
        match self.ctx.store.swap_clock(self.wheel, &row, &to).await? {
            Swapped::Applied => {
                self.adopt(to, now, reason);
                Ok(Ticked::Swapped(reason))
            }
            Swapped::Conflict(current) => {
                self.doubted = true;
                self.lose(&current);
                Ok(Ticked::Lost)
            }
            Swapped::Unknown => self.settle_unknown(&to, now, reason).await,
        }
    }

    /// Before a wheel is given away, lets tasks under way be acknowledged, and examines looks that wait for
    /// their phase. No further task begins until the row that gives the wheel away is written: a task that
    /// went out meanwhile would not be in that row, and the next owner would hand it over once more. This
    /// happens at whole seconds, when most tasks are due.
    ///
    /// Under steady load a wheel is never idle by itself. So it is held still as soon as another node should
    /// own it, and moves if it is idle then. If it is not, its tasks were late for nothing, and the next
    /// attempt waits for a while.
    async fn hold_still(&mut self, row: &ClockRow) -> Option<Still> {
        let term = self.term.clone()?;
        let began = self.ctx.time.moment();
        let mut situation = self.situation(began);
        let tried = self
            .held_in_vain
            .is_some_and(|at| began.since(at) < limits::HAND_OVER_AGAIN);
        if situation.preferred == Some(self.ctx.me) {
            self.wanted_since = None;
        }
        if let Some(progress) = &mut situation.progress {
            progress.idle |= !tried;
        }
        let reason = match clock::next(row, &self.ctx.rules, &situation) {
            Move::Swap { reason, .. } => Some(reason),
            Move::Rest(_) => None,
        };
        if reason == Some(Reason::HandOver) {
            self.wanted_since = self.wanted_since.or(Some(began));
            if self.stays_for_flood(began) {
                return None;
            }
        }
        let given_away = matches!(reason, Some(Reason::HandOver | Reason::Resign));
        if !given_away || flaw::is(Flaw::PublishesWhileGivenAway) {
            return None;
        }
        let still = term.hold_still(self.ctx.now());
        while term.is_busy() && self.ctx.time.moment().since(began) < limits::HAND_OVER_WAIT_MAX {
            self.ctx.time.sleep(limits::HAND_OVER_STEP).await;
        }
        self.held_in_vain = term.is_busy().then(|| self.ctx.time.moment());
        Some(still)
    }

    /// Tells whether the wheel is not to be given to another node yet, because of a flood that its reader passes over.
    fn stays_for_flood(&self, now: Moment) -> bool {
        let is_held_back = self.term.as_ref().is_some_and(|term| term.is_held_back());
        let lately = |since| now.since(since) < limits::HAND_OVER_FLOOD_MAX;
        is_held_back && self.wanted_since.is_none_or(lately)
    }

    /// Reads the row. The read is serial after a lost condition or an unknown outcome: the row that won may
    /// be decided and not yet learned by a quorum, and a lesser read could show the same old row for ever.
    async fn read(&mut self) -> Result<ClockRow, Error> {
        let freshness = if self.doubted {
            Freshness::Serial
        } else {
            Freshness::Quorum
        };
        let row = self.ctx.store.clock(self.wheel, freshness).await?;
        self.doubted = false;
        Ok(row)
    }

    /// Finds out what became of a swap whose outcome is unknown.
    async fn settle_unknown(
        &mut self,
        to: &ClockRow,
        sent: Moment,
        reason: Reason,
    ) -> Result<Ticked, Error> {
        let row = match self.ctx.store.clock(self.wheel, Freshness::Serial).await {
            Ok(row) => row,
            Err(error) => {
                // It is not known whether our row is the one in the store: read it before the next proposal.
                self.owned = None;
                self.doubted = true;
                return Err(error);
            }
        };
        if row.version >= to.version && row.owner == to.owner && row.owner == self.ctx.me {
            // Only this node writes its own id: the row is ours and committed, even if it is not the one
            // proposed.
            self.adopt(row, sent, reason);
            return Ok(Ticked::Swapped(reason));
        }
        if row.owner == self.ctx.me && self.term.is_some() {
            // The swap was not applied; the term stands on the row before it.
            self.owned = Some(row);
            return Ok(Ticked::Lost);
        }
        self.lose(&row);
        Ok(Ticked::Lost)
    }

    /// Takes a row that is known to be in the store.
    fn adopt(&mut self, row: ClockRow, sent: Moment, reason: Reason) {
        self.watermarks.learn(self.wheel, &row);
        let result = reason_name(reason);
        metrics::counter!("tickwheel_ticks_total", "result" => result).increment(1);
        if row.owner != self.ctx.me {
            if reason == Reason::GiveUp {
                self.avoid_until = Some(self.ctx.now().after(AVOID));
            }
            self.end(result);
            return;
        }
        self.owned = Some(row);
        self.free_since = None;
        let lease_end = sent.after(self.ctx.rules.lease);
        if let Some(term) = &self.term {
            {
                let mut state = term.lock();
                state.row = row;
                state.lease_end = lease_end;
                state.done_since_swap = 0;
            }
            term.readable.notify_one();
            return;
        }
        tracing::info!(
            wheel = self.wheel.get(),
            version = row.version,
            "took over a wheel"
        );
        metrics::counter!("tickwheel_wheel_takeovers_total", "reason" => result).increment(1);
        metrics::gauge!("tickwheel_wheels_owned").increment(1.0);
        let now = self.ctx.time.moment();
        let term = Arc::new(Term::new(self.wheel, row, lease_end, now, self.ctx.shape()));
        self.stages.begin(&term);
        self.term = Some(term);
    }

    /// Takes notice that another row than ours is in the store.
    fn lose(&mut self, current: &ClockRow) {
        self.watermarks.learn(self.wheel, current);
        metrics::counter!("tickwheel_ticks_total", "result" => "lost").increment(1);
        self.end("lost");
    }

    fn end_if_lapsed(&mut self) {
        let lapsed = self
            .term
            .as_ref()
            .is_some_and(|term| !term.is_live(self.ctx.time.moment()));
        if lapsed {
            self.end("lapsed");
        }
    }

    fn end(&mut self, why: &'static str) {
        self.owned = None;
        if let Some(term) = self.term.take() {
            term.ended.cancel();
            let wheel = self.wheel.get().to_string();
            metrics::gauge!("tickwheel_due_unfired_age_seconds", "wheel" => wheel).set(0.0);
            metrics::gauge!("tickwheel_wheels_owned").decrement(1.0);
            self.wanted_since = None;
            tracing::info!(wheel = self.wheel.get(), why, "left a wheel");
        }
    }

    fn note_free(&mut self, row: &ClockRow, now: Moment) {
        let free = row.owner != self.ctx.me && clock::is_free(row, &self.ctx.rules, self.ctx.now());
        self.free_since = if free {
            Some(self.free_since.unwrap_or(now))
        } else {
            None
        };
    }

    /// Records how long the oldest due entry of an owned wheel has waited, which is what an operator alerts on, and takes
    /// notice of a wheel that stands still.
    fn observe(&self) {
        let Some(term) = &self.term else { return };
        let now = self.ctx.now();
        let stalled = term.progress(self.ctx.time.moment(), now).stalled_since;
        if stalled.is_some_and(|since| now.since(since) >= self.ctx.rules.stall_max) {
            self.members.note_stalled();
        }
        let age = term
            .lock()
            .oldest()
            .map_or(Duration::ZERO, |oldest| now.since(oldest.due));
        let wheel = self.wheel.get().to_string();
        metrics::gauge!("tickwheel_due_unfired_age_seconds", "wheel" => wheel)
            .set(age.as_secs_f64());
    }

    fn situation(&self, moment: Moment) -> Situation {
        let now = self.ctx.now();
        let view = self.members.view();
        Situation {
            me: self.ctx.me,
            now,
            median_wall: view.median_wall(now, moment),
            preferred: view.preferred(self.wheel),
            leaving: self.members.is_leaving(),
            free_since: self.free_since.map(|since| now.before(moment.since(since))),
            avoid_until: self.avoid_until,
            progress: self.term.as_ref().map(|term| {
                let mut progress = term.progress(moment, now);
                progress.idle &= !self.stays_for_flood(moment);
                progress
            }),
        }
    }

    /// Steps each tick, and sooner when much was done, until `stop`; then leaves the wheel.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let moves = self.ctx.time.moves();
            let pause = match self.step().await {
                Ok(ticked) => self.pause_after(ticked),
                Err(error) => {
                    if let Some(others) = self.ctx.failed_steps.say(self.ctx.time.moment()) {
                        let wheel = self.wheel.get();
                        tracing::warn!(wheel, %error, others, "could not advance the clock");
                    }
                    limits::STEP_PAUSE
                }
            };
            self.observe();
            if stop.is_cancelled() {
                break;
            }
            let term = self.term.clone();
            let reportable = async {
                match &term {
                    Some(term) => term.reportable.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = reportable => {}
                () = self.ctx.time.sleep_unless_moved(pause, moves) => {}
            }
        }
        self.end("stopped");
    }

    /// Returns the time until the next tick ends, or less, so that a lease is renewed long before it ends
    /// however long ticks are. The time is shorter while the wheel is free, so that it is not free for long.
    fn pause_after(&self, ticked: Ticked) -> Duration {
        const FREE: Duration = Duration::from_millis(250);
        let tick = self.ctx.tick();
        let now = self.ctx.now();
        let next = tick.end_of(tick.last_ended(now).plus(1));
        let until = now.until(next).min(self.ctx.rules.lease / 3);
        let until = until.max(Duration::from_millis(1));
        let expected = self.members.view().preferred(self.wheel) == Some(self.ctx.me);
        match ticked {
            // The wheel is about to be handed to this node.
            Ticked::Rested(Rest::Held) if expected => until.min(FREE),
            Ticked::Rested(Rest::LeftToPreferred) | Ticked::Lost => until.min(FREE),
            Ticked::Swapped(Reason::HandOver | Reason::GiveUp | Reason::Resign)
            | Ticked::Swapped(Reason::Advance | Reason::TakeOver)
            | Ticked::Rested(_) => until,
        }
    }
}

const fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Advance => "advanced",
        Reason::TakeOver => "took_over",
        Reason::HandOver => "handed_over",
        Reason::GiveUp => "gave_up",
        Reason::Resign => "resigned",
    }
}
