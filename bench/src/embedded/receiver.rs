//! The receiver plays the hosts of HTTP deliveries for a measurement: it notes each task when its request has come, and answers.
//!
//! It runs in this process, on as many addresses of the loopback as there are hosts. It can hold still: then it takes requests
//! and answers none.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::Context as _;
use hyper::{
    Request, Response, StatusCode,
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tickwheel::time_source::TimeSource;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use uuid::Uuid;

use super::{check::Arrival, log::Log};
use crate::payload;

/// The state that all connections share.
#[derive(Debug)]
struct Shared {
    time: TimeSource,
    arrivals: Mutex<Log<Arrival>>,
    count: AtomicU64,
    /// Requests whose payload was not the one of a task.
    changed: AtomicU64,
    holds_still: AtomicBool,
}

/// Hosts on the loopback; they end when it is dropped.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    _listening: JoinSet<()>,
}

impl Receiver {
    /// Opens so many hosts: 127.0.`net`.1 and so on, each with a port of its own.
    pub(super) async fn open(net: u8, hosts: u8, time: &TimeSource) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            time: time.clone(),
            arrivals: Mutex::default(),
            count: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            holds_still: AtomicBool::new(false),
        });
        let (mut addresses, mut listening) = (Vec::new(), JoinSet::new());
        for host in 1..=hosts {
            let listener = TcpListener::bind((Ipv4Addr::new(127, 0, net, host), 0)).await?;
            addresses.push(listener.local_addr()?);
            listening.spawn(listen(listener, Arc::clone(&shared)));
        }
        Ok(Self {
            addresses,
            shared,
            _listening: listening,
        })
    }

    /// Makes it answer no more, or again.
    pub(super) fn hold_still(&self, still: bool) {
        self.shared.holds_still.store(still, Ordering::Relaxed);
    }

    /// Returns how many requests it has taken.
    pub(super) fn count(&self) -> u64 {
        self.shared.count.load(Ordering::Relaxed)
    }

    /// Returns how many of them had a payload that was changed.
    pub(super) fn changed(&self) -> u64 {
        self.shared.changed.load(Ordering::Relaxed)
    }

    /// Returns the requests that were answered since the last call.
    pub(super) fn take(&self) -> Vec<Arrival> {
        let mut arrivals = self
            .shared
            .arrivals
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *arrivals).into_vec()
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    // A fault of the listener ends the host: its tasks are then seen to be lost.
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let answer = service_fn(|request| answer(request, &shared));
    // A caller may hang up whenever it wants.
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    drop(served.await);
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> anyhow::Result<Response<String>> {
    let seen_us = shared.time.stamp();
    shared.count.fetch_add(1, Ordering::Relaxed);
    if shared.holds_still.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    let id = request.headers().get("webhook-id").context("no id")?;
    let id: Uuid = id.to_str()?.parse()?;
    let body = read(request.into_body()).await?;
    if payload::number(&body).is_err() {
        shared.changed.fetch_add(1, Ordering::Relaxed);
    }
    let arrival = Arrival {
        id: id.as_u128(),
        seen_us,
    };
    let mut arrivals = shared
        .arrivals
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    arrivals.push(arrival);
    drop(arrivals);
    let answer = Response::builder().status(StatusCode::NO_CONTENT);
    Ok(answer.body(String::new())?)
}

async fn read(mut body: Incoming) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(payload::BYTES);
    while let Some(frame) =
        std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await
    {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::http::Connection;

    async fn post(address: SocketAddr, id: u128, payload: &str) -> anyhow::Result<()> {
        let mut connection = Connection::open(address).await?;
        // The lean client has no further headers: the key's is where the id goes.
        let path = format!("/ HTTP/1.1\r\nwebhook-id: {}\r\nx:", Uuid::from_u128(id));
        connection.offer(&path, payload.as_bytes()).await.map(drop)
    }

    #[tokio::test]
    async fn requests_are_noted_and_changed_payloads_counted() {
        let time = TimeSource::real();
        let receiver = Receiver::open(77, 2, &time).await.unwrap();
        for (address, payload) in receiver
            .addresses
            .iter()
            .zip([payload::of(1), "{}".to_owned()])
        {
            // An answer of 204 has no length, which the lean client refuses after it was sent.
            drop(post(*address, 7, &payload).await);
        }
        let arrivals = receiver.take();
        assert_eq!(
            arrivals
                .iter()
                .map(|arrival| arrival.id)
                .collect::<Vec<_>>(),
            [7, 7]
        );
        assert_eq!((receiver.count(), receiver.changed()), (2, 1));
        assert!(receiver.take().is_empty());
    }
}
