//! The catch-up turns hold back reads of missed ticks, to fire them or to erase them, for tasks that can be
//! in time.
//!
//! Missed tasks are late already, and tasks that are due now are not. Both are served by the same store, the
//! same queue and often the same cores. So the wheels of a node take turns. [`Allowance`] lets as many read
//! at once as leave those tasks in time that can be. It sees how long after its time such a task is handed
//! over, not how long the store took to take it. Reads ahead of the clock never wait here. Fired ticks that
//! are to be erased are read by one wheel at a time.
//!
//! No reader waits longer than its [`Patience`] for all reads of a tick. A reader that has waited so long
//! goes on without a turn, even if that delays others. So a wheel catches up wherever it reads its ticks in
//! less than half of their length.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::allowance::{Allowance, Underway};
use crate::{limits::MISSED_READ_PATIENCE, model::time::Tick, time_source::TimeSource};

/// The turns of one node.
#[derive(Debug)]
pub(in crate::flow) struct CatchUp {
    time: TimeSource,
    turns: Semaphore,
    /// The turn of all that erase: nobody waits for them.
    eraser: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    allowance: Allowance,
    /// How many turns there are, taken and free. More than are allowed for as long as some are not given back.
    turns: usize,
    underway: Underway,
}

/// A turn to read; it ends when it is dropped.
#[derive(Debug)]
pub(in crate::flow) struct Turn<'a> {
    of: &'a CatchUp,
    permit: Option<SemaphorePermit<'a>>,
}

/// A reader that waits, until it is dropped.
struct Waiting<'a> {
    of: &'a CatchUp,
}

/// How long a reader of a wheel may still wait for turns to read a tick; none waits longer than its term lasts.
#[derive(Debug)]
pub(in crate::flow) struct Patience {
    of_a_tick: Duration,
    tick: Option<Tick>,
    left: Duration,
    ended: CancellationToken,
}

/// Tasks that can be in time, from here until it is dropped.
#[derive(Debug)]
pub(in crate::flow) struct Handing<'a> {
    of: &'a CatchUp,
    count: usize,
}

impl CatchUp {
    pub(in crate::flow) fn new(time: TimeSource) -> Self {
        let allowance = Allowance::new(time.moment());
        Self {
            turns: Semaphore::new(allowance.bound()),
            eraser: Semaphore::new(1),
            state: Mutex::new(State {
                turns: allowance.bound(),
                allowance,
                underway: Underway::default(),
            }),
            time,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes what is known, and makes as many turns as are allowed then.
    fn note(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let underway = state.underway;
        state.allowance.pass(self.time.moment(), underway);
        let bound = state.allowance.bound();
        if bound > state.turns {
            self.turns.add_permits(bound - state.turns);
            state.turns = bound;
        } else if bound < state.turns {
            state.turns -= self.turns.forget_permits(state.turns - bound);
        }
        metrics::gauge!("tickwheel_catch_up_reads_max").set(bound as f64);
    }

    /// Waits for a turn to read of a tick that is to be fired, as long as there is patience for that. Cancel-safe.
    pub(in crate::flow) async fn turn(&self, tick: Tick, patience: &mut Patience) -> Turn<'_> {
        let permit = self.turns.try_acquire().ok();
        let has_to_wait = permit.is_none();
        self.note(|state| {
            state.underway.readers += 1;
            state.underway.waiting += usize::from(has_to_wait);
            state.allowance.wanted(state.underway);
        });
        let mut turn = Turn { of: self, permit };
        if has_to_wait {
            let _waiting = Waiting { of: self };
            turn.permit = self.wait(&self.turns, tick, patience).await;
        }
        turn
    }

    /// Waits for the turn to read of a tick that is to be erased, as long as there is patience for that. Cancel-safe.
    pub(in crate::flow) async fn turn_to_erase(
        &self,
        tick: Tick,
        patience: &mut Patience,
    ) -> Option<SemaphorePermit<'_>> {
        self.wait(&self.eraser, tick, patience).await
    }

    async fn wait<'a>(
        &self,
        turns: &'a Semaphore,
        tick: Tick,
        patience: &mut Patience,
    ) -> Option<SemaphorePermit<'a>> {
        let began = self.time.moment();
        let left = patience.left_for(tick);
        let waiting = self.time.within(left, turns.acquire());
        let waited = patience.ended.run_until_cancelled(waiting).await;
        patience.left = left.saturating_sub(self.time.moment().since(began));
        waited.flatten().and_then(Result::ok)
    }

    /// Begins to hand over `count` tasks that can be in time.
    pub(in crate::flow) fn handing(&self, count: usize) -> Handing<'_> {
        if count > 0 {
            self.note(|state| state.underway.tasks += count);
        }
        Handing { of: self, count }
    }
}

impl Handing<'_> {
    /// Takes note of those of them that were acknowledged, by how late they were.
    pub(in crate::flow) fn acknowledged(self, lateness: impl Iterator<Item = Duration>) {
        if self.count > 0 {
            let now = self.of.time.moment();
            self.of.note(|state| {
                lateness.for_each(|lateness| state.allowance.came(now, lateness));
            });
        }
    }
}

impl Patience {
    /// Returns the patience of a reader that reads once in `length`, in a term that ends with `ended`.
    pub(in crate::flow) fn new(length: Duration, ended: CancellationToken) -> Self {
        Self {
            of_a_tick: length / MISSED_READ_PATIENCE,
            tick: None,
            left: Duration::ZERO,
            ended,
        }
    }

    fn left_for(&mut self, tick: Tick) -> Duration {
        if self.tick.replace(tick) != Some(tick) {
            self.left = self.of_a_tick;
        }
        self.left
    }
}

impl Drop for Handing<'_> {
    fn drop(&mut self) {
        self.of.lock().underway.tasks -= self.count;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.of.lock().underway.waiting -= 1;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        state.underway.readers -= 1;
        let Some(permit) = self.permit.take() else {
            return;
        };
        if state.turns > state.allowance.bound() {
            permit.forget();
            state.turns -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        limits::{MISSED_READS_FIRST as FIRST, MISSED_READS_MAX},
        model::time::Millis,
    };

    const LENGTH: Duration = Duration::from_secs(1);
    const WINDOW: Duration = Duration::from_millis(100);

    fn patience() -> Patience {
        Patience::new(LENGTH, CancellationToken::new())
    }

    fn catch_up() -> CatchUp {
        CatchUp::new(TimeSource::simulated(Millis(0), 1))
    }

    fn taken(catch_up: &CatchUp) -> Vec<Turn<'_>> {
        let take = || {
            let mut patience = patience();
            let turn = catch_up.turn(Tick(1), &mut patience);
            turn.now_or_never()
        };
        std::iter::from_fn(take).collect()
    }

    /// Hands over a task that comes as late as a window is long.
    async fn hand_over_late(catch_up: &CatchUp) {
        let handing = catch_up.handing(1);
        tokio::time::advance(WINDOW).await;
        handing.acknowledged(std::iter::once(WINDOW));
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_have_a_turn_as_are_allowed_and_the_next_follows_one_that_ends() {
        let catch_up = catch_up();
        let mut turns = taken(&catch_up);
        assert_eq!(turns.len(), FIRST);
        let mut patience = patience();
        let mut next = std::pin::pin!(catch_up.turn(Tick(1), &mut patience));
        assert!(next.as_mut().now_or_never().is_none());
        drop(turns.pop());
        assert!(next.await.permit.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_for_a_tick_than_his_patience() {
        let catch_up = catch_up();
        let mut patience = patience();
        // So that nothing opens meanwhile.
        let _under_way = catch_up.handing(1);
        let mut turns = taken(&catch_up);
        let began = catch_up.time.moment();
        let waited = || catch_up.time.moment().since(began);
        // A turn is given back in the middle of the wait for it, then none.
        let give_back = async {
            catch_up.time.sleep(WINDOW).await;
            turns.pop();
        };
        let (first, ()) = tokio::join!(catch_up.turn(Tick(1), &mut patience), give_back);
        assert!(first.permit.is_some());
        assert!(catch_up.turn(Tick(1), &mut patience).await.permit.is_none());
        assert_eq!(waited(), LENGTH / 2);
        assert!(catch_up.turn(Tick(1), &mut patience).await.permit.is_none());
        assert_eq!(waited(), LENGTH / 2);
        assert!(catch_up.turn(Tick(2), &mut patience).await.permit.is_none());
        assert_eq!(waited(), LENGTH);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_his_term_lasts_and_who_waits_no_more_is_not_counted() {
        let catch_up = catch_up();
        let turns = taken(&catch_up);
        let ended = CancellationToken::new();
        let mut patience = Patience::new(LENGTH, ended.clone());
        let began = catch_up.time.moment();
        let end = async {
            catch_up.time.sleep(WINDOW).await;
            ended.cancel();
        };
        let (turn, ()) = tokio::join!(catch_up.turn(Tick(1), &mut patience), end);
        assert!(turn.permit.is_none());
        assert_eq!(catch_up.time.moment().since(began), WINDOW);
        drop((turn, turns));
        let underway = catch_up.lock().underway;
        assert_eq!((underway.readers, underway.waiting), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn one_erases_at_a_time_and_takes_no_turn_of_those_who_fire() {
        let catch_up = catch_up();
        let (mut first, mut second) = (patience(), patience());
        let erasing = catch_up.turn_to_erase(Tick(1), &mut first).await;
        assert!(erasing.is_some());
        assert_eq!(taken(&catch_up).len(), FIRST);
        let began = catch_up.time.moment();
        let next = catch_up.turn_to_erase(Tick(1), &mut second).await;
        assert!(next.is_none());
        assert_eq!(catch_up.time.moment().since(began), LENGTH / 2);
        drop(erasing);
        let next = catch_up.turn_to_erase(Tick(1), &mut second).await;
        assert!(next.is_some(), "what is free needs no patience");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_that_are_out_when_tasks_are_late_are_not_given_to_others() {
        let catch_up = catch_up();
        let mut turns = taken(&catch_up);
        hand_over_late(&catch_up).await;
        turns.truncate(FIRST / 2);
        assert!(taken(&catch_up).is_empty());
        turns.clear();
        assert_eq!(taken(&catch_up).len(), FIRST / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn free_turns_go_when_tasks_are_late_and_come_back_while_they_are_wanted() {
        let catch_up = catch_up();
        drop(taken(&catch_up));
        hand_over_late(&catch_up).await;
        assert_eq!(taken(&catch_up).len(), FIRST / 2);
        for _ in 0..2 * MISSED_READS_MAX {
            let _turns = taken(&catch_up);
            let handing = catch_up.handing(1);
            tokio::time::advance(10 * WINDOW).await;
            handing.acknowledged(std::iter::once(Duration::ZERO));
        }
        assert_eq!(taken(&catch_up).len(), MISSED_READS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_slowly_while_tasks_are_under_way_and_none_comes_back() {
        let catch_up = catch_up();
        let handing = catch_up.handing(3);
        for _ in 0..9 {
            let _turns = taken(&catch_up);
            tokio::time::advance(WINDOW).await;
        }
        assert_eq!(taken(&catch_up).len(), FIRST);
        drop(handing);
        for more in 1..3 {
            tokio::time::advance(WINDOW).await;
            assert_eq!(taken(&catch_up).len(), FIRST + more);
        }
    }
}
