//! Bounds of what connections may take, for the API: bodies that are slow or not wanted, answers that nobody reads.

use std::time::Duration;

/// A body that is still on its way brings at least [`HTTP_BODY_STEP_BYTES`] in each span of this length: what comes slower holds
/// its share of [`super::BODIES_BYTES_MAX`] for nothing.
pub const HTTP_BODY_STEP: Duration = Duration::from_secs(10);

/// Least bytes of a body in each [`HTTP_BODY_STEP`]: less than any line carries today.
pub const HTTP_BODY_STEP_BYTES: usize = 32 * 1024;

/// Bytes of a body that is refused which are still taken in, and dropped, before the answer: ordinary clients send all of a body
/// before they read, and a connection that is closed on them loses the answer.
pub const HTTP_LEFTOVER_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Longest wait for the next piece of such a body.
pub const HTTP_LEFTOVER_WAIT_MAX: Duration = Duration::from_secs(2);

/// Largest head of a request over HTTP/1.1: its library would take 400 KiB of each of ten thousand connections.
pub const HTTP1_HEAD_BYTES_MAX: usize = 64 * 1024;

/// Longest time in which nothing of an answer can be written because its reader takes nothing; as long as a head may take.
pub const HTTP_ANSWER_WAIT_MAX: Duration = HTTP_HEAD_WAIT_MAX;

/// The part of [`super::BODIES_BYTES_MAX`] that is kept for calls of workers: registrations must not keep what runs from being
/// settled.
pub const BODIES_BYTES_WORKERS: usize = 64 * 1024 * 1024;

/// Bytes of requests that are read and wait for the store, by the length of their text. The embedded store holds them once more,
/// encoded: together half of what bodies on their way may take. A disk of 50 MB/s works them off in about a second, which is as
/// long as a registration should take.
pub const REGISTERING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The part of [`REGISTERING_BYTES_MAX`] that requests above [`REGISTRATION_BYTES_LARGE`] leave to others.
pub const REGISTERING_BYTES_KEPT: usize = 16 * 1024 * 1024;

/// A request above this is large: a batch of a thousand tasks without large payloads is not.
pub const REGISTRATION_BYTES_LARGE: usize = 1024 * 1024;

/// Requests up to this are not counted in [`REGISTERING_BYTES_MAX`], so that large ones never keep them out: the bounds of their
/// number hold them to 16 MiB.
pub const REGISTRATION_BYTES_UNCOUNTED: usize = 4 * 1024;

/// Bytes of all answers that wait at a node for their readers: as much as bodies may take.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// About how much a task takes in an answer, without its payload: labels, an error, the framing.
pub const ANSWER_TASK_BYTES: usize = 4 * 1024;

/// The part of [`ANSWERS_BYTES_MAX`] that is kept for calls that have an effect: reads may be repeated.
pub const ANSWERS_BYTES_CALLS: usize = 64 * 1024 * 1024;

/// Answers below this are not counted: those of all connections together are some 160 MiB, and hardly any is as large.
pub const ANSWER_BYTES_COUNTED: usize = 16 * 1024;

/// Longest wait for the head of a request, and longest idle time of a connection: above the 60 s of usual load
/// balancers, so that it is they who close first.
pub const HTTP_HEAD_WAIT_MAX: Duration = Duration::from_secs(75);

/// Longest time in which a request's body must have arrived.
pub const HTTP_BODY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Requests of one connection over HTTP/2 that are under way at once: more than a client's pool of connections over HTTP/1.1
/// has, few enough that no one connection fills the node.
pub const HTTP2_STREAMS_MAX: u32 = 128;

/// Requests over HTTP/2 that are under way at a node, answers that wait for room to be sent among them: as many as its
/// connections over HTTP/1.1 could have.
pub const HTTP2_REQUESTS_MAX: usize = HTTP_CONNECTIONS_MAX;

/// Largest head of a request over HTTP/2, counted as the protocol counts: our callers send a few short headers, and a
/// connection's requests may all be at their heads.
pub const HTTP2_HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Bytes of a request's body over HTTP/2 that may be on their way unread: 5 MB/s at a distance of 50 ms.
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// The same over all requests of a connection: about what a connection over HTTP/1.1 may have read ahead.
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;

/// Largest frame over HTTP/2: the least that the protocol allows, so that a large body does not hold up small ones.
pub const HTTP2_FRAME_BYTES_MAX: u32 = 16 * 1024;

/// Bytes of an answer over HTTP/2 that are copied for sending while its reader is slow: a few frames.
pub const HTTP2_SEND_BYTES_MAX: usize = 64 * 1024;

/// Requests over HTTP/2 that their sender has taken back before the node looked at them: beyond it the connection is
/// closed, as it is a flood (CVE-2023-44487).
pub const HTTP2_RESETS_PENDING_MAX: usize = 20;

/// Requests of a connection over HTTP/2 that the node takes back because they break the protocol: beyond it it is closed.
pub const HTTP2_ERRORS_MAX: usize = 128;

/// How often a connection over HTTP/2 is asked whether its other end is there.
pub const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);

/// Longest wait for the answer to that: a pause of a process, not a death.
pub const HTTP2_PING_WAIT_MAX: Duration = Duration::from_secs(20);

/// How long an idle connection over HTTP/2 that was told to go may take to do so: its other end may still be reading, and
/// requests that crossed with that count anew.
pub const HTTP2_CLOSE_WAIT_MAX: Duration = HTTP_HEAD_WAIT_MAX;

/// Connections that a node serves at once; further ones wait in the listener's backlog.
pub const HTTP_CONNECTIONS_MAX: usize = 10_000;

/// Largest body of a single-task request: the payload as base64 (4/3) and as much again for everything else.
pub const REQUEST_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Slowest copy of the store that a client may ask for, in bytes a second: its pieces follow each other within seconds, so that
/// a connection that has died is noticed.
pub const BACKUP_RATE_MIN: u64 = 64 * 1024;

/// How many times as long as a piece of such a copy has taken is the rest behind it, where the client names no rate: the copy has
/// a quarter of one core.
pub const BACKUP_RESTS: u32 = 3;

/// Bytes a second of such a copy at most: a slow disk writes four times as many, and the journals of the service have the rest.
pub const BACKUP_RATE_USUAL: u64 = 8 * 1024 * 1024;

/// Longest of the rests for the core: a disk that stood still for a minute is no reason to wait for three.
pub const BACKUP_REST_MAX: Duration = Duration::from_secs(2);

/// Largest body of a batch request.
pub const BATCH_REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest time for a handshake of TLS: a dozen round trips of the slowest lines.
pub const TLS_HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Handshakes of TLS that are under way at once, at most a quarter of all connections. With one more the oldest is ended: an
/// honest client is done within a second, so it takes a thousand connections a second to push it out.
pub const TLS_HANDSHAKES_MAX: usize = 1000;

/// How often the files of TLS are looked at; they are small and in the cache of the system.
pub const TLS_FILES_LOOK: Duration = Duration::from_secs(3);

/// Largest file of a certificate, a key or authorities: a bundle of all public authorities has a quarter of it.
pub const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How long before its end a certificate is warned of, once a day: tools that renew have done so long before.
pub const TLS_CERTIFICATE_END_WARN: Duration = Duration::from_secs(14 * 24 * 3600);

/// Largest form of the dashboard: 1,000 ids of tasks, or a payload of a schedule, with room for their escapes.
pub const PAGE_FORM_BYTES_MAX: usize = 256 * 1024;

/// Largest payload, result or error that a page shows: a browser lays it out in a moment. The rest is a download.
pub const PAGE_TEXT_BYTES_MAX: usize = 300 * 1024;

/// Bytes of a payload that is no text which a page shows as hex: a screenful.
pub const PAGE_HEX_BYTES_MAX: usize = 1024;

/// Rows of a list in a page: two screens of a large display.
pub const PAGE_LIST_ROWS_MAX: usize = 50;

/// Callbacks in which a bare word of the search box is looked for as a key: each is a read of one record.
pub const PAGE_KEY_CALLBACKS_MAX: usize = 100;

/// How often a live page is made anew: people read no faster.
pub const PAGE_LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Pages that one stream of a browser watches: its visible tabs.
pub const PAGE_LIVE_PAGES_MAX: usize = 16;

/// Streams of live pages that a node serves at once. Beyond it, pages ask by themselves.
pub const PAGE_LIVE_STREAMS_MAX: usize = 500;
