//! These tests check the bound on registrations for services of several speeds.

use std::collections::VecDeque;

use super::*;
use crate::{model::time::Millis, time_source::TimeSource};

const STEP: Duration = Duration::from_millis(1);

/// A service that completes so many a millisecond, none in less than its least time.
struct Service {
    time: TimeSource,
    pace: Pace,
    under_way: VecDeque<Moment>,
    per_step: usize,
    least: Duration,
    done: usize,
    longest: Duration,
}

impl Service {
    fn new(per_step: usize, least: Duration) -> Self {
        Self::with(Tolerance::NEAR, per_step, least)
    }

    fn with(tolerance: Tolerance, per_step: usize, least: Duration) -> Self {
        let time = TimeSource::simulated(Millis(0), 1);
        Self {
            pace: Pace::new(tolerance, time.moment()),
            time,
            under_way: VecDeque::new(),
            per_step,
            least,
            done: 0,
            longest: Duration::ZERO,
        }
    }

    /// Works for a while on at most so many at once; each client comes again when it is done or refused.
    async fn work(&mut self, span: Duration, clients: usize) {
        (self.done, self.longest) = (0, Duration::ZERO);
        let until = self.time.moment().after(span);
        while self.time.moment() < until {
            let now = self.time.moment();
            while self.under_way.len() < clients.min(self.pace.max()) {
                self.pace.comes(now, false);
                self.under_way.push_back(now);
            }
            // A refused client comes again, too.
            self.pace.comes(now, false);
            self.time.sleep(STEP).await;
            self.answer();
        }
    }

    /// Answers until nothing is under way.
    async fn drain(&mut self) {
        while !self.under_way.is_empty() {
            self.time.sleep(STEP).await;
            self.answer();
        }
    }

    fn answer(&mut self) {
        let now = self.time.moment();
        for _ in 0..self.per_step {
            let ready = |began: &&Moment| now.since(**began) >= self.least;
            let Some(began) = self.under_way.front().filter(ready).copied() else {
                break;
            };
            let took = now.since(began);
            let under_way = self.under_way.len();
            self.pace.note(now, took, under_way, true);
            self.under_way.pop_front();
            self.done += 1;
            self.longest = self.longest.max(took);
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.pace.phase, Phase::Open { .. })
    }
}

const fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_stands_is_brought_down_and_stays_down_and_the_service_is_used() {
    let (near, far) = (Tolerance::NEAR, Tolerance::FAR);
    for (tolerance, per_step, least) in [
        (near, 10, ms(5)),
        (near, 4, ms(100)),
        (near, 2, ms(20)),
        (far, 20, ms(2)),
    ] {
        let mut service = Service::with(tolerance, per_step, least);
        service.work(ms(2000), 10).await;
        assert!(service.is_open(), "ten at once are no overload");
        service.work(ms(4000), 10_000).await;
        assert!(!service.is_open());
        let target = least * 2 + tolerance.slack_overloaded;
        service.work(ms(70_000), 10_000).await;
        // After a look, as many as the bound allows may come at once.
        assert!(
            service.longest <= (target + least) * 11 / 10 + STEP,
            "{:?}, {least:?}",
            service.longest
        );
        let could = per_step * 70_000;
        assert!(
            service.done * 100 >= could * 97,
            "{} of {could}, {least:?}",
            service.done
        );
        service.work(ms(2500), 10).await;
        assert!(service.is_open(), "and it is over");
    }
}

#[tokio::test(start_paused = true)]
async fn bursts_pass_and_silence_opens() {
    let mut service = Service::new(10, ms(5));
    for _ in 0..20 {
        service.work(ms(500), 10).await;
        // Of 1,500 at once the last has waited for 150 ms.
        service.work(STEP, 1500).await;
        service.drain().await;
        service.time.sleep(CALM * 5).await;
    }
    assert!(service.is_open());
    service.work(ms(4000), 10_000).await;
    assert!(!service.is_open());
    service.time.sleep(CALM).await;
    let now = service.time.moment();
    service.pace.comes(now, true);
    assert!(service.is_open(), "batches notice it, too");
}

#[tokio::test(start_paused = true)]
async fn fewer_on_a_service_that_has_become_slow_are_no_overload() {
    let mut service = Service::new(10, ms(5));
    service.work(ms(2000), 10).await;
    service.work(ms(4000), 10_000).await;
    assert!(!service.is_open());
    service.least = ms(400);
    service.work(ms(4000), 40).await;
    assert!(service.is_open());
    // A slow service is no queue.
    service.work(MEMORY * 3, 40).await;
    service.work(ms(4000), 1000).await;
    assert!(service.is_open());
}

/// Lets hardly anything through for a while, as a server does while it collects garbage.
async fn pause(service: &mut Service, steps: usize) {
    for _ in 0..steps {
        service.time.sleep(ms(100)).await;
        let now = service.time.moment();
        service.pace.comes(now, false);
        service.answer();
    }
}

#[tokio::test(start_paused = true)]
async fn a_few_hundred_clients_of_servers_that_pause_now_and_then_are_no_overload() {
    let mut of_process = Service::with(Tolerance::NEAR, 20, ms(2));
    let mut of_servers = Service::with(Tolerance::FAR, 20, ms(2));
    for service in [&mut of_process, &mut of_servers] {
        service.work(ms(2000), 800).await;
        pause(service, 4).await;
    }
    // Eight hundred clients of a service that does twenty a millisecond are a queue of 40 ms.
    assert!(!of_process.is_open());
    assert!(of_servers.is_open());
    // Seconds with hardly any progress end in a bound, which is wide again two seconds later.
    pause(&mut of_servers, 40).await;
    assert!(of_servers.pace.max() < 200, "{}", of_servers.pace.max());
    of_servers.work(ms(2000), 800).await;
    assert!(of_servers.pace.max() >= 800, "{}", of_servers.pace.max());
}

#[tokio::test(start_paused = true)]
async fn what_fails_at_once_does_not_open_the_door() {
    let mut service = Service::with(Tolerance::FAR, 2, ms(20));
    service.work(ms(8000), 10_000).await;
    assert!(!service.is_open());
    let before = service.pace.max();
    service.drain().await;
    for _ in 0..1000 {
        service.time.sleep(STEP).await;
        let now = service.time.moment();
        let under_way = service.pace.max();
        service.pace.comes(now, false);
        service.pace.note(now, STEP, under_way, false);
    }
    let after = service.pace.max();
    assert!(after <= before * 2, "{before}, {after}");
}

#[tokio::test(start_paused = true)]
async fn what_fails_at_once_is_not_how_long_one_takes() {
    let mut service = Service::new(10, ms(20));
    for _ in 0..5000 {
        service.time.sleep(STEP).await;
        let now = service.time.moment();
        service.pace.note(now, Duration::from_micros(20), 1, false);
    }
    service.work(ms(5000), 100).await;
    assert!(service.is_open());
}
