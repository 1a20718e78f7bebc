//! The generator sends all load of the harness as an open loop, so that waiting is not hidden.
//!
//! At a rate, the send times are fixed beforehand, and a request's latency counts from its scheduled time,
//! whether or not it could be sent then. A service that stalls for a second shows that second in every
//! request that it held up. Flat out, there is no schedule. A request waits for one of `in_flight` places,
//! its latency counts from there, and the measured value is how many come through.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use tickwheel::time_source::{Moment, TimeSource};
use tokio::{sync::Semaphore, task::JoinSet};

/// Requests that may be under way at a fixed rate: far more than a service that keeps up ever has.
const OPEN_LOOP_IN_FLIGHT_MAX: usize = 4096;

/// The requests to send, and their times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    count: u64,
    interval: Option<Duration>,
    in_flight: usize,
}

impl Load {
    /// Returns a load of so many requests, one every `interval`.
    pub(crate) const fn at_rate(count: u64, interval: Duration) -> Self {
        Self {
            count,
            interval: Some(interval),
            in_flight: OPEN_LOOP_IN_FLIGHT_MAX,
        }
    }

    /// Returns a load of so many requests, as fast as they come through.
    pub(crate) const fn flat_out(count: u64, in_flight: usize) -> Self {
        Self {
            count,
            interval: None,
            in_flight,
        }
    }
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Latencies in microseconds.
    pub(crate) latency: Histogram<u64>,
    /// From the first scheduled time to the last answer.
    pub(crate) took: Duration,
}

/// Returns a histogram of microseconds, three digits, up to ten minutes.
pub(crate) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 600_000_000, 3).context("bounds of a histogram")
}

/// Sends a load; the first failed request ends it.
pub(crate) async fn send<F>(
    time: &TimeSource,
    load: Load,
    request: impl Fn(u64) -> F,
) -> anyhow::Result<Outcome>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let latency = Arc::new(Mutex::new(histogram()?));
    let places = Arc::new(Semaphore::new(load.in_flight));
    let mut running = JoinSet::new();
    let start = time.moment();
    for index in 0..load.count {
        let scheduled = match load.interval {
            Some(interval) => Some(at(time, start, interval, index).await),
            None => None,
        };
        let place = Arc::clone(&places).acquire_owned().await?;
        let from = scheduled.unwrap_or_else(|| time.moment());
        let (time, latency, request) = (time.clone(), Arc::clone(&latency), request(index));
        running.spawn(async move {
            let answered = request.await;
            let took = micros(time.moment().since(from));
            latency
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .saturating_record(took);
            drop(place);
            answered
        });
        while let Some(ended) = running.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let took = time.moment().since(start);
    let latency = Arc::into_inner(latency).context("a request is still under way")?;
    Ok(Outcome {
        latency: latency.into_inner().unwrap_or_else(PoisonError::into_inner),
        took,
    })
}

/// Waits for the scheduled time of a request and returns it; returns at once when it has passed.
async fn at(time: &TimeSource, start: Moment, interval: Duration, index: u64) -> Moment {
    let nanos = interval.as_nanos().saturating_mul(u128::from(index));
    let offset = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    let scheduled = start.after(offset);
    time.sleep_until(scheduled).await;
    scheduled
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
