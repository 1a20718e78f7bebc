//! Tests of the heartbeater: calls that hang, and a thread that gets no processor.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::{super::schedule::STEPS, *};
use crate::{
    api::{
        poll::{LeaveRequest, LeaveResponse, PollRequest, PollResponse},
        worker::{
            ClaimRequest, ClaimResponse, SettleRequest, SettleResponse, SubscribeRequest,
            SubscribeResponse,
        },
    },
    client::Error,
    model::{ids::TaskId, time::Millis, wheel::WheelNumber},
};

/// Answers heartbeats of one attempt at once, and those of others never; or those of all.
#[derive(Debug)]
struct Stuck {
    answered: Option<TaskId>,
    time: TimeSource,
    /// The calls: when they came, and how many heartbeats each has.
    calls: Mutex<Vec<(Moment, usize)>>,
}

fn refused<T>() -> Result<T, Error> {
    Err(Error::Invalid("not asked for here".to_owned()))
}

#[async_trait]
impl Server for Stuck {
    async fn poll(&self, _: &PollRequest, _: Duration) -> Result<PollResponse, Error> {
        refused()
    }
    async fn leave(&self, _: &LeaveRequest) -> Result<LeaveResponse, Error> {
        refused()
    }
    async fn subscribe(&self, _: &SubscribeRequest) -> Result<SubscribeResponse, Error> {
        refused()
    }
    async fn claim(&self, _: &ClaimRequest) -> Result<ClaimResponse, Error> {
        refused()
    }
    async fn settle(&self, _: &SettleRequest) -> Result<SettleResponse, Error> {
        refused()
    }
    async fn heartbeat(
        &self,
        request: &HeartbeatRequest,
        limit: Duration,
    ) -> Result<HeartbeatResponse, Error> {
        let sent = (self.time.moment(), request.tasks.len());
        self.calls.lock().push(sent);
        let answered = self.answered.map(|id| id.to_string());
        let is_other = |task: &HeartbeatItem| answered.as_ref().is_some_and(|id| *id != task.id);
        if request.tasks.iter().any(is_other) {
            self.time.sleep(limit).await;
            return refused();
        }
        let results = request.tasks.iter().map(|_| HeartbeatResult {
            status: HeartbeatStatus::Ok,
            error: None,
            reason: None,
        });
        Ok(HeartbeatResponse {
            results: results.collect(),
        })
    }
}

fn attempt(time: &TimeSource, number: u64, timeout: Duration) -> Arc<Attempt> {
    let id = TaskId::new(Millis(0), WheelNumber::from_low_bits(0), number);
    Arc::new(Attempt::new(Key { id, attempt: 1 }, timeout, time.moment()))
}

#[tokio::test(start_paused = true)]
async fn calls_that_hang_do_not_hold_up_the_heartbeats_of_short_timeouts() {
    let time = TimeSource::simulated(Millis(0), 1);
    let short = attempt(&time, 0, Duration::from_secs(3));
    let server = Arc::new(Stuck {
        answered: Some(short.key.id),
        time: time.clone(),
        calls: Mutex::default(),
    });
    let heart =
        Heartbeater::start(Place::SameRuntime, "w".to_owned(), server, time.clone()).unwrap();
    for number in 1..=40 {
        heart.add(
            &attempt(&time, number, Duration::from_secs(20)),
            time.moment(),
        );
    }
    heart.add(&short, time.moment());
    for _ in 0..240 {
        time.sleep(Duration::from_millis(250)).await;
        assert!(
            time.moment() < short.deadline(),
            "no heartbeat in time after {:?}",
            time.now()
        );
    }
    heart.stop().await;
}

/// The heartbeats of the starved thread.
const ATTEMPTS: u64 = 400;

fn beating(
    place: Place,
    timeout: Duration,
    time: &TimeSource,
) -> (Heartbeater, Arc<Stuck>, Vec<Arc<Attempt>>) {
    let server = Arc::new(Stuck {
        answered: None,
        time: time.clone(),
        calls: Mutex::default(),
    });
    let asked = Arc::clone(&server) as Arc<dyn Server>;
    let heart = Heartbeater::start(place, "w".to_owned(), asked, time.clone()).unwrap();
    let attempts = (0..ATTEMPTS).map(|number| attempt(time, number, timeout));
    let attempts: Vec<Arc<Attempt>> = attempts.collect();
    for attempt in &attempts {
        heart.add(attempt, time.moment());
    }
    (heart, server, attempts)
}

/// About the length of a step of the cycle of a timeout.
fn step(timeout: Duration) -> Duration {
    timeout / 5 / STEPS
}

/// Fails when a lease has ended although its attempt runs.
fn all_live(attempts: &[Arc<Attempt>], time: &TimeSource) {
    let first = attempts.iter().map(|attempt| attempt.deadline()).min();
    let left = first.unwrap().since(time.moment());
    assert!(!left.is_zero(), "a lease has ended after {:?}", time.now());
}

impl Stuck {
    /// Returns how many heartbeats were sent within any time of this length.
    fn most_within(&self, window: Duration) -> usize {
        let calls = self.calls.lock();
        let within = |from: usize| {
            let began = calls[from].0;
            let calls = calls[from..].iter();
            let near = calls.take_while(|(at, _)| at.since(began) < window);
            near.map(|(_, sent)| sent).sum()
        };
        (0..calls.len()).map(within).max().unwrap_or_default()
    }
}

/// The thread gets no processor for up to half of a cycle again and again, and now and then for more than a cycle.
#[tokio::test(start_paused = true)]
async fn a_thread_that_stands_still_loses_no_lease_and_does_not_burst() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    let time = TimeSource::simulated(Millis(0), 1);
    let (heart, server, attempts) = beating(Place::SameRuntime, TIMEOUT, &time);
    let mut number = 7_u64;
    for round in 1..=400 {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let still = if round % 10 == 0 {
            Duration::from_millis(2500)
        } else {
            Duration::from_millis((number >> 33) % 1200)
        };
        // The clock goes on, and nothing runs meanwhile.
        tokio::time::advance(still).await;
        time.sleep(Duration::from_millis(400)).await;
        all_live(&attempts, &time);
    }
    heart.stop().await;
    // The rest of one cycle and the first step of the next one; of a cycle that was missed nothing.
    let most = server.most_within(step(TIMEOUT));
    assert!(
        most <= ATTEMPTS as usize * 5 / 4,
        "{most} heartbeats at once"
    );
}

/// Threads that use all processors until this is dropped.
struct Spinning {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Spinning {
    fn on_every_core() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..cores * 2).map(spin).collect();
        Self { stop, threads }
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_default();
        }
    }
}

/// In real time, since virtual time has no processors.
#[tokio::test]
#[ignore = "takes every processor for nine seconds: make test-all"]
async fn threads_that_spin_on_every_core_cost_no_lease_and_cause_no_burst() {
    const TIMEOUT: Duration = Duration::from_secs(8);
    let time = TimeSource::real();
    let spinning = Spinning::on_every_core();
    let (heart, server, attempts) = beating(Place::OwnThread, TIMEOUT, &time);
    let began = time.moment();
    // Longer than a lease, so that each of them ends unless it was extended.
    while time.moment().since(began) < Duration::from_secs(9) {
        time.sleep(Duration::from_millis(100)).await;
        all_live(&attempts, &time);
    }
    heart.stop().await;
    drop(spinning);
    assert!(attempts.iter().all(|attempt| !attempt.lost.is_cancelled()));
    // An eighth of them is due in each step, more where the thread came late.
    let most = server.most_within(step(TIMEOUT));
    assert!(
        most <= ATTEMPTS as usize * 3 / 4,
        "{most} heartbeats at once"
    );
}
