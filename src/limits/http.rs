//! Bounds of what connections may take, for the API: bodies that are slow or not wanted, answers that nobody reads.

use std::time::Duration;

use super::HTTP_HEAD_WAIT_MAX;

/// A body that is still on its way brings at least [`HTTP_BODY_STEP_BYTES`] in each span of this length: what comes slower holds
/// its share of [`super::BODIES_BYTES_MAX`] for nothing.
pub const HTTP_BODY_STEP: Duration = Duration::from_secs(10);

/// Least bytes of a body in each [`HTTP_BODY_STEP`]: less than any line carries today.
pub const HTTP_BODY_STEP_BYTES: usize = 32 * 1024;

/// Bytes of a body that is refused which are still taken in, and dropped, before the answer: ordinary clients send all of a body
/// before they read, and a connection that is closed on them loses the answer.
pub const HTTP_LEFTOVER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Longest wait for the next piece of such a body.
pub const HTTP_LEFTOVER_WAIT_MAX: Duration = Duration::from_secs(2);

/// Largest head of a request over HTTP/1.1: its library would take 400 KiB of each of ten thousand connections.
pub const HTTP1_HEAD_BYTES_MAX: usize = 64 * 1024;

/// Longest time in which nothing of an answer can be written because its reader takes nothing; as long as a head may take.
pub const HTTP_ANSWER_WAIT_MAX: Duration = HTTP_HEAD_WAIT_MAX;

/// The part of [`super::BODIES_BYTES_MAX`] that is kept for calls of workers: registrations must not keep what runs from being
/// settled.
pub const BODIES_BYTES_WORKERS: usize = 64 * 1024 * 1024;

/// Bytes of all answers that wait at a node for their readers: as much as bodies may take.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The part of [`ANSWERS_BYTES_MAX`] that is kept for calls that have an effect: reads may be repeated.
pub const ANSWERS_BYTES_CALLS: usize = 64 * 1024 * 1024;

/// Answers below this are not counted: those of all connections together are some 160 MiB, and hardly any is as large.
pub const ANSWER_BYTES_COUNTED: usize = 16 * 1024;
