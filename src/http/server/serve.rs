//! The server accepts connections for the router, bounds them in number and time, and stops without cutting
//! off requests.
//!
//! One port speaks HTTP/1.1, and HTTP/2 to clients that begin with it; with TLS they agree on it in the handshake. A
//! connection over HTTP/2 brings many requests, so these have a bound of their own.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::Version,
    response::{IntoResponse as _, Response},
};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use super::{
    files, form,
    leftover::Leftover,
    stall::Watch,
    tls::{
        Tls,
        door::{Door, HANDSHAKE},
    },
    traffic::{Answer, Open, Traffic},
};
use crate::{
    http::{
        access::Peer,
        error::{Code, Error},
    },
    limits::{self, HTTP_ACCEPT_PAUSE, HTTP_DRAIN_MAX},
    telemetry::repeats::Repeats,
    time_source::TimeSource,
};

/// Serves until `shutdown`, then lets requests in flight finish, for [`HTTP_DRAIN_MAX`] at most.
///
/// It does not use `axum::serve`, which has no limit for the time in which a request's head must arrive:
/// clients that send nothing would hold connections for ever.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    serve_with(listener, None, router, shutdown).await;
}

/// Serves as [`serve`] does, over TLS if there is one.
pub async fn serve_with(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    shutdown: CancellationToken,
) {
    let time = TimeSource::real();
    let connections_max = files::connections_max();
    let door = tls.map(|tls| Arc::new(Door::new(tls, time.clone(), connections_max)));
    let front = Front::new(router, door, time.clone());
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(connections_max));
    let abandoned = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let serving = serve_connection(stream, front.clone(), shutdown.clone());
                let abandoned = abandoned.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = abandoned.cancelled() => {}
                    }
                    drop(permit);
                });
            }
            // Mostly there are no file descriptors left; trying again at once would spin.
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

/// The parts that serve every connection.
#[derive(Clone)]
struct Front {
    router: Router,
    protocols: Arc<auto::Builder<TokioExecutor>>,
    /// Requests over HTTP/2, of all connections.
    requests: Arc<Semaphore>,
    /// TLS, if the port speaks it.
    door: Option<Arc<Door>>,
    told_of_tls: Arc<Repeats>,
    time: TimeSource,
}

impl Front {
    fn new(router: Router, door: Option<Arc<Door>>, time: TimeSource) -> Self {
        let mut protocols = auto::Builder::new(TokioExecutor::new());
        protocols
            .http1()
            .timer(TokioTimer::new())
            .max_buf_size(limits::HTTP1_HEAD_BYTES_MAX)
            .header_read_timeout(limits::HTTP_HEAD_WAIT_MAX);
        protocols
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::HTTP2_STREAMS_MAX)
            .max_header_list_size(limits::HTTP2_HEAD_BYTES_MAX)
            .initial_stream_window_size(limits::HTTP2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limits::HTTP2_CONNECTION_WINDOW_BYTES)
            .max_frame_size(limits::HTTP2_FRAME_BYTES_MAX)
            .max_send_buf_size(limits::HTTP2_SEND_BYTES_MAX)
            .max_pending_accept_reset_streams(limits::HTTP2_RESETS_PENDING_MAX)
            .max_local_error_reset_streams(limits::HTTP2_ERRORS_MAX)
            .keep_alive_interval(limits::HTTP2_PING_INTERVAL)
            .keep_alive_timeout(limits::HTTP2_PING_WAIT_MAX);
        Self {
            router,
            protocols: Arc::new(protocols),
            requests: Arc::new(Semaphore::new(limits::HTTP2_REQUESTS_MAX)),
            door,
            told_of_tls: Arc::default(),
            time,
        }
    }

    /// Answers a request. One over HTTP/2 is answered only if there is room, since a connection brings more
    /// than one.
    async fn answer(self, request: Request, open: Open) -> Result<Response<Answer>, Infallible> {
        let share =
            (request.version() == Version::HTTP_2).then(|| self.requests.try_acquire_owned());
        let (request, leftover) = Leftover::of(request);
        let refused = |request, error: Error| {
            drop(request);
            (error.into_response(), None)
        };
        let (answered, share) = match (form::check(&request), share.transpose()) {
            (Ok(()), Ok(share)) => (self.router.oneshot(request).await?, share),
            (Err(error), _) => refused(request, error),
            (Ok(()), Err(_)) => refused(request, too_many()),
        };
        let answered = leftover.take_in(answered, &self.time).await;
        Ok(answered.map(|body| open.answered(body, share)))
    }
}

fn too_many() -> Error {
    let detail = format!(
        "{} requests over HTTP/2 are under way at this node: it takes on no more; this one had no effect",
        limits::HTTP2_REQUESTS_MAX
    );
    Error {
        retry_after: Some(Duration::from_secs(1)),
        ..Error::new(Code::TooManyRequests, detail)
    }
}

/// Serves a connection, behind a handshake if the port speaks TLS.
async fn serve_connection(stream: TcpStream, front: Front, shutdown: CancellationToken) {
    let peer = stream.peer_addr().ok();
    let Some(door) = front.door.clone() else {
        let (watch, stream) = Watch::over(stream, front.time.clone());
        exchange(stream, &watch, peer, front.clone(), shutdown).await;
        if watch.began_with(HANDSHAKE) && front.told_of_tls.say(front.time.moment()).is_some() {
            tracing::warn!(
                ?peer,
                "a client speaks TLS to this port, which speaks HTTP alone: it needs http://, or the node --tls-cert and --tls-key"
            );
        }
        return;
    };
    let opened = tokio::select! {
        () = shutdown.cancelled() => return,
        opened = door.open(stream) => opened,
    };
    if let Some(opened) = opened {
        let (watch, stream) = *opened;
        exchange(stream, &watch, peer, front, shutdown).await;
    }
}

/// Serves HTTP/1.1, or HTTP/2 if the stream begins with its preface. It ends when the client
/// ends it, when the node stops, when nothing can be written to it for long, or when nothing has been under
/// way on it for as long as a head may take. Answers that are on their way then have as long again.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    watch: &Watch,
    peer: Option<SocketAddr>,
    front: Front,
    shutdown: CancellationToken,
) {
    let traffic = Traffic::new(front.time.clone());
    let protocols = Arc::clone(&front.protocols);
    let service = service_fn(|request: Request<Incoming>| {
        let open = traffic.begin(request.version());
        let mut request = request.map(Body::new);
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer(peer));
        }
        front.clone().answer(request, open)
    });
    let connection = protocols.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let served = async {
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.as_mut().await
            }
            () = traffic.quiet(limits::HTTP_HEAD_WAIT_MAX) => {
                if !traffic.has_served() {
                    tracing::debug!("closed a connection without a request");
                    return Ok(());
                }
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = traffic.quiet(limits::HTTP2_CLOSE_WAIT_MAX) => Ok(()),
                }
            }
        }
    };
    let ended = tokio::select! {
        ended = served => ended,
        () = watch.stalled(limits::HTTP_ANSWER_WAIT_MAX) => {
            metrics::counter!("tickwheel_http_stalled_total").increment(1);
            tracing::debug!("closed a connection whose answer nobody takes");
            Ok(())
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
