//! `Process` stands for a node or a worker of a run: its messages pass here, and here it dies,
//! stops and waits.
//!
//! A pause is exact to an await. No event from outside reaches the process until it goes on: answers of the
//! store and the queue, requests, timers ([`TimeSource::hold`]). Its work of that instant ends at the next
//! such await, in no time. A crash is a pause without an end.

use std::{future::Future, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tickwheel::{
    doubles::queue::memory::MemoryPublisher,
    time_source::{Moment, TimeSource},
};

use super::{chance::Chance, world::Sim};

/// One life of a process.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) sim: Arc<Sim>,
    pub(crate) time: TimeSource,
    pub(crate) publisher: MemoryPublisher,
    state: Mutex<State>,
}

struct State {
    dead: bool,
    /// The process dies at its n-th operation from now on, before or after its effect.
    doom: Option<(u64, bool)>,
    chance: Chance,
}

impl Process {
    pub(crate) fn new(sim: &Arc<Sim>, name: String, time: TimeSource, stream: u64) -> Arc<Self> {
        Arc::new(Self {
            name,
            publisher: sim.queue.handle(),
            time,
            state: Mutex::new(State {
                dead: false,
                doom: None,
                chance: Chance::new(sim.seed, stream),
            }),
            sim: Arc::clone(sim),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Dies.
    pub(crate) fn kill(&self) {
        if !std::mem::replace(&mut self.lock().dead, true) {
            self.sim.note(format_args!("{} dies", self.name));
            self.time.hold(None);
            self.publisher.kill();
            self.sim.died(self);
        }
    }

    /// Stops the process until a moment.
    pub(crate) fn pause(&self, until: Moment) {
        let time = &self.sim.time;
        let instant = time.now().after(until.since(time.moment()));
        self.publisher.pause(instant);
        self.time.hold(Some(until));
    }

    /// Makes the process die soon.
    pub(crate) fn doom(&self, operations: u64, effect: bool) {
        self.lock().doom = Some((operations, effect));
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.lock().chance)
    }

    /// Does an operation on the outside: the way there, its effect, and the way back.
    pub(crate) async fn outside<T>(&self, lane: &'static str, act: impl Future<Output = T>) -> T {
        self.time.running().await;
        let dies = {
            let mut state = self.lock();
            match &mut state.doom {
                Some((0, effect)) => Some(*effect),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        };
        if dies == Some(false) {
            self.kill();
            std::future::pending::<()>().await;
        }
        self.travel(self.sim.slowness(lane)).await;
        let out = act.await;
        if dies == Some(true) {
            self.kill();
        }
        self.travel(Duration::ZERO).await;
        self.time.running().await;
        out
    }

    /// The way of a message, in the time of the network, which goes on while the process does not.
    pub(crate) async fn travel(&self, more: Duration) {
        let max = self.sim.latency_ms;
        let wait = self.draw(|chance| {
            if chance.percent(50) {
                0
            } else {
                chance.below(max + 1)
            }
        });
        let wait = Duration::from_millis(wait) + more;
        if !wait.is_zero() {
            self.sim.time.sleep(wait).await;
        }
    }
}
