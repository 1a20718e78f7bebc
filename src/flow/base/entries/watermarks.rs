//! The watermarks read the `opened` hand for the writers of entries: one read of a wheel's clock serves all
//! callers that asked before it started.
//!
//! A writer of an entry must learn, from a read that *started after its write was acknowledged*, that the
//! slot is still open. No caller waits to fill a batch: while one read is under way, the callers that ask
//! form the next batch.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    flow::base::{api::Fault, context::Context},
    limits,
    model::{
        clock::ClockRow,
        time::{Millis, Tick},
        wheel::WheelNumber,
    },
    store::Freshness,
};

type Waiter = oneshot::Sender<Result<Tick, Fault>>;

#[derive(Debug, Default)]
struct Waiting {
    reading: bool,
    waiters: Vec<Waiter>,
}

#[derive(Debug)]
struct Hand {
    /// The highest value seen: a lower bound, since the hand never goes back.
    known: AtomicI64,
    /// The latest due time that is known to be fired; as `known` is.
    fired: AtomicI64,
    waiting: Mutex<Waiting>,
}

/// The guard that the reader of a hand holds. When the reader panics, waiting callers are told, and the next
/// caller reads.
struct Serving<'a>(&'a Hand);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        if std::thread::panicking() {
            *waiting = Waiting::default();
        }
    }
}

/// The `opened` hands of all wheels, as this node knows them.
#[derive(Debug, Clone)]
pub struct Watermarks {
    ctx: Arc<Context>,
    watermarks: Arc<[Hand]>,
}

impl Watermarks {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        let watermarks = ctx
            .shape()
            .all_wheels()
            .map(|_| Hand {
                known: AtomicI64::new(i64::MIN),
                fired: AtomicI64::new(i64::MIN),
                waiting: Mutex::default(),
            })
            .collect();
        Self { ctx, watermarks }
    }

    /// Takes notice of a row that was read or written elsewhere.
    pub fn learn(&self, wheel: WheelNumber, row: &ClockRow) {
        if let Some(hand) = self.hand(wheel) {
            hand.known.fetch_max(row.opened.0, Ordering::Relaxed);
            hand.fired.fetch_max(row.fired.due.0, Ordering::Relaxed);
        }
    }

    /// Guesses the hand without reading: good for choosing where to write first, never for acknowledging.
    #[must_use]
    pub fn guess(&self, wheel: WheelNumber) -> Tick {
        let known = self
            .hand(wheel)
            .map_or(i64::MIN, |hand| hand.known.load(Ordering::Relaxed));
        Tick(known).max(self.ctx.opened_by_now())
    }

    /// Guesses up to where slots are closed or about to be. A writer into a slot that is about to be closed
    /// finds out too late that it was closed. It does not know whether its entry was read before, and writes
    /// a second copy that may go out as well.
    #[must_use]
    pub fn closing(&self, wheel: WheelNumber) -> Tick {
        self.guess(wheel).max(self.ctx.opened_soon())
    }

    /// Guesses whether a task that is due at `start` would wait behind those that its wheel is late with. The
    /// later a wheel is, the longer it takes to catch up. The guess is as old as the last look at the wheel's
    /// clock. A wrong guess costs time or memory, but no task.
    #[must_use]
    pub(in crate::flow) fn will_be_late(&self, wheel: WheelNumber, start: Millis) -> bool {
        let Some(hand) = self.hand(wheel) else {
            return false;
        };
        let (now, fired) = (self.ctx.now(), hand.fired.load(Ordering::Relaxed));
        if fired == i64::MIN {
            return false;
        }
        let behind = now.since(Millis(fired));
        behind >= limits::BEHIND_MIN && start < now.after(behind.min(limits::BEHIND_HELD_MAX))
    }

    /// Reads the hand; the read starts after the call.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] when the store cannot be read.
    pub async fn opened(&self, wheel: WheelNumber) -> Result<Tick, Fault> {
        let (sender, receiver) = oneshot::channel();
        let Some(hand) = self.hand(wheel) else {
            return Err(Fault::Unavailable {
                reason: format!("wheel {} does not exist", wheel.get()),
                retry_after: std::time::Duration::from_secs(1),
            });
        };
        let idle = {
            let mut waiting = hand.waiting.lock();
            waiting.waiters.push(sender);
            !std::mem::replace(&mut waiting.reading, true)
        };
        if idle {
            tokio::spawn(self.clone().serve(wheel));
        }
        receiver.await.unwrap_or_else(|_| {
            Err(Fault::Unknown {
                reason: "the read of the wheel's clock ended without an answer".to_owned(),
            })
        })
    }

    /// Reads for waiting callers, as long as there are any.
    async fn serve(self, wheel: WheelNumber) {
        let Some(hand) = self.hand(wheel) else { return };
        let _serving = Serving(hand);
        loop {
            let waiters = {
                let mut waiting = hand.waiting.lock();
                if waiting.waiters.is_empty() {
                    waiting.reading = false;
                    return;
                }
                std::mem::take(&mut waiting.waiters)
            };
            let read = self.ctx.store.clock(wheel, Freshness::Quorum).await;
            if let Ok(row) = &read {
                self.learn(wheel, row);
            }
            let opened = read.map(|row| row.opened).map_err(Fault::from);
            for waiter in waiters {
                // A waiter that has gone away needs no answer.
                drop(waiter.send(opened.clone()));
            }
        }
    }

    fn hand(&self, wheel: WheelNumber) -> Option<&Hand> {
        self.watermarks.get(usize::from(wheel.get()))
    }
}
