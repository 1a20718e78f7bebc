//! The server: accepts connections, bounds them in number and time, and stops without cutting anyone off.

use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::files;
use crate::{
    limits::{HTTP_ACCEPT_PAUSE, HTTP_DRAIN_MAX, HTTP_HEAD_WAIT_MAX},
    time_source::TimeSource,
};

/// Serves until `shutdown`, then lets requests in flight finish, for [`HTTP_DRAIN_MAX`] at most.
///
/// Not `axum::serve`: it has no limit for the time in which a request's head must arrive, so that clients who send
/// nothing would hold connections for ever.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let time = TimeSource::real();
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(files::connections_max()));
    let abandoned = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let serving = serve_connection(stream, router.clone(), shutdown.clone());
                let abandoned = abandoned.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = abandoned.cancelled() => {}
                    }
                    drop(permit);
                });
            }
            // Out of file descriptors, mostly: trying at once would spin.
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                time.sleep(HTTP_ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if time
        .within(HTTP_DRAIN_MAX, connections.wait())
        .await
        .is_none()
    {
        tracing::warn!(
            open = connections.len(),
            "closed connections with requests in flight"
        );
        abandoned.cancel();
        connections.wait().await;
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room)
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Answers are small; waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

async fn serve_connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEAD_WAIT_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
