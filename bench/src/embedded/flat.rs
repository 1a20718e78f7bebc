//! The flat-out sender posts numbered requests for scenarios whose requests differ, each connection its next one at once.
//!
//! All of it runs in the task of its caller, so that requests and answers may borrow from there.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use futures_util::future::try_join_all;
use hdrhistogram::Histogram;

use tickwheel::time_source::TimeSource;

use super::{http::Connection, service::Host};
use crate::generator::{histogram, micros};

/// The result of the requests.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Of every request, in microseconds from its sending.
    pub(super) latency: Histogram<u64>,
    pub(crate) took: Duration,
}

impl Sent {
    /// Returns how many of so many things came through in a second.
    pub(super) fn rate(&self, of: u64) -> f64 {
        of as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Posts requests 0 to `count` over some connections; the first that is not a success ends it.
///
/// `request` returns path and body of a request, `answered` gets the number of a request and its answer.
pub(super) async fn post(
    host: &impl Host,
    connections: usize,
    count: u64,
    request: impl Fn(u64) -> (String, String),
    answered: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<Sent> {
    let mut open = host.open(connections).await?;
    post_over(host.time(), &mut open, count, request, answered).await
}

/// Posts them over connections that are there.
pub(crate) async fn post_over<P: AsRef<str>, B: AsRef<[u8]>>(
    time: &TimeSource,
    open: &mut [Connection],
    count: u64,
    request: impl Fn(u64) -> (P, B),
    answered: impl FnMut(u64, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<Sent> {
    let next = Cell::new(0);
    let (latency, answered) = (RefCell::new(histogram()?), RefCell::new(answered));
    let begun = time.moment();
    let callers = open.iter_mut().map(async |connection| {
        loop {
            let index = next.get();
            if index >= count {
                return anyhow::Ok(());
            }
            next.set(index + 1);
            let (path, body) = request(index);
            let from = time.moment();
            let answer = connection.post(path.as_ref(), body.as_ref()).await?;
            let took = micros(time.moment().since(from));
            latency.borrow_mut().saturating_record(took);
            (*answered.borrow_mut())(index, answer)?;
        }
    });
    try_join_all(callers).await?;
    Ok(Sent {
        took: time.moment().since(begun),
        latency: latency.into_inner(),
    })
}
