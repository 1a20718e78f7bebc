//! The walk moves the wall clock of a service forward for tests of users: from one due time to the next, never past one.
//!
//! At each stop it waits until what came due is done: handed over, run and settled, held, or asked for by no worker. So nothing
//! is late or missed because the clock was moved, and what handlers register on the way takes part. An attempt that does not
//! end in time, and a task that its worker does not take in time, are counted and waited for no more.
//!
//! The walk writes nothing. It reads what the stages of a node hold in memory, and the entries and schedules of the store, so it
//! is right only where one node has all of it: on one machine.

mod next;
mod standing;

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::sync::Mutex;

use self::standing::Attempt;
use super::{query::remembered::Remembered, service::Service, wheel::terms::Terms};
use crate::{
    flow::{
        base::{api::Fault, context::Context},
        life::near::Near,
    },
    limits::{WALK_BUSY_MAX, WALK_CALL_MAX, WALK_FIRST_POLL, WALK_LOOK_EVERY, WALK_STOPS_MAX},
    model::time::Millis,
    time_source::Moment,
};

/// How a walk went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// The time that the clock shows now.
    pub reached: Millis,
    /// Tasks that were handed over for the first time.
    pub fired: u64,
    /// Attempts that did not end in time, and tasks that their workers did not take in time.
    pub unsettled: u64,
    /// Tasks that are due and that no worker asks for.
    pub waiting: u64,
    /// The clock has come to the time that was asked for. If not, another call goes on.
    pub is_there: bool,
}

/// The walk of a service whose clock is moved by hand.
#[derive(Debug)]
pub struct Walk {
    ctx: Arc<Context>,
    service: Arc<Service>,
    known: Remembered,
    near: Near,
    terms: Terms,
    /// The attempts that are waited for no more; one call at a time moves the clock.
    passed: Mutex<HashSet<Attempt>>,
}

impl Walk {
    /// Walks with the clock of this node.
    pub(super) fn new(
        ctx: Arc<Context>,
        service: Arc<Service>,
        known: Remembered,
        near: Near,
        terms: Terms,
    ) -> Self {
        Self {
            ctx,
            service,
            known,
            near,
            terms,
            passed: Mutex::default(),
        }
    }

    /// Returns the time that the clock shows.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.ctx.now()
    }

    /// Moves the clock to `to` at once, as if no part of the service had run meanwhile.
    pub async fn jump(&self, to: Millis) {
        let _alone = self.passed.lock().await;
        self.ctx.time.move_to(to);
    }

    /// Walks to `to`, and waits at each stop for workers for `settle_within` at most. It ends before if it takes longer than a
    /// call may, or has more stops. A caller that goes away ends it at the stop where it is.
    ///
    /// # Errors
    /// When the store is away; the clock is at some stop then.
    pub async fn advance(&self, to: Millis, settle_within: Duration) -> Result<Walked, Fault> {
        let mut passed = self.passed.lock().await;
        let (time, began) = (&self.ctx.time, self.ctx.time.moment());
        let fired = self.known.pulse.fired_ever();
        let mut walking = Walking {
            began,
            settle_within,
            passed: &mut passed,
            unsettled: 0,
            waiting: 0,
        };
        // Tasks that are due already come first.
        self.settle(&mut walking).await;
        for _ in 0..WALK_STOPS_MAX {
            let now = time.now();
            if now >= to || time.moment().since(began) >= WALK_CALL_MAX {
                break;
            }
            time.move_to(self.next(now, to).await?);
            self.settle(&mut walking).await;
        }
        let (unsettled, waiting) = (walking.unsettled, walking.waiting);
        let reached = time.now();
        Ok(Walked {
            reached,
            fired: self.known.pulse.fired_ever() - fired,
            unsettled,
            waiting,
            is_there: reached >= to,
        })
    }

    /// Waits until all that is due by now is done, or is waited for no more.
    async fn settle(&self, walking: &mut Walking<'_>) {
        let (time, at, began) = (&self.ctx.time, self.ctx.now(), self.ctx.time.moment());
        let (mut was_done, mut waits_since) = (false, None);
        loop {
            let moment = time.moment();
            let asks = moment.since(walking.began) < WALK_FIRST_POLL;
            let standing = standing::of(self, at, asks);
            walking.waiting = standing.waiting;
            let open = standing.open_but(walking.passed);
            let is_busy = standing.is_busy && moment.since(began) < WALK_BUSY_MAX;
            let is_late = !is_busy && {
                let since: Moment = *waits_since.get_or_insert(moment);
                moment.since(since) >= walking.settle_within
            };
            let is_done = !is_busy && (open.is_empty() || is_late);
            // A task that one stage hands to another is seen by the second look.
            if is_done && (was_done || is_late) {
                walking.unsettled += open.len() as u64;
                standing.forget_ended(walking.passed);
                walking.passed.extend(open);
                return;
            }
            was_done = is_done;
            time.sleep(WALK_LOOK_EVERY).await;
        }
    }
}

/// The state of one call.
#[derive(Debug)]
struct Walking<'a> {
    began: Moment,
    settle_within: Duration,
    passed: &'a mut HashSet<Attempt>,
    unsettled: u64,
    waiting: u64,
}
