//! The room of an answer bounds for the claim stage what contents a call returns: as much as a poll is given,
//! and no more than the call has memory for. It takes that from the byte budget of the node first.
//!
//! A content is read and counted before its task is claimed, so that no task is claimed and then left out.
//! Few are read at once, because the size in a message is only what its sender claims: one that turns out larger is dropped
//! unless the call has memory for it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::FutureExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    flow::base::{
        api::{ClaimRequest, Fault},
        budget::Portion,
        context::Context,
        rows::content,
    },
    limits,
    model::task::{Content, Spec},
    schema,
};

/// Contents that one call reads at once: together as large as its answer may be.
const READS_IN_FLIGHT_MAX: usize = limits::POLL_BYTES_MAX / limits::CONTENT_BYTES_MAX_DEFAULT;

/// The memory of the node that a call has for the contents that it reads. Hold it until the answer is made.
#[derive(Debug)]
pub struct Memory {
    bytes: usize,
    _portion: Option<Portion>,
}

impl Memory {
    /// The memory of a call whose caller holds that of all its contents.
    pub(in crate::flow) const fn of_caller() -> Self {
        Self {
            bytes: usize::MAX,
            _portion: None,
        }
    }

    /// Waits for the memory of all contents that a call reads: calls that each held a part and waited for more would wait for
    /// each other. Without any in time it is empty, and the call gets no content that is kept apart.
    pub(in crate::flow) async fn take(
        ctx: &Context,
        requests: impl Iterator<Item = &ClaimRequest>,
    ) -> Self {
        let (mut known, mut unknown) = (0, 0);
        for request in requests.filter(|request| request.with_content) {
            match &request.spec {
                Some(spec) => known += bytes_to_read(spec),
                // Its content may be as large as any, and most have none that is kept apart.
                None => unknown += limits::CONTENT_BYTES_MAX,
            }
        }
        let most = |bytes: usize| bytes.min(limits::POLL_BYTES_MAX);
        let all = most(known + unknown);
        if all == 0 {
            return Self::of(0, None);
        }
        if let Some(portion) = ctx.contents.take(all as u64).now_or_never() {
            return Self::of(all, Some(portion));
        }
        // The first content that is read has room then, and others come with a later call.
        let least = most(known + unknown.min(limits::CONTENT_BYTES_MAX));
        let taken = ctx.contents.take(least as u64);
        let portion = ctx.time.within(limits::CONTENTS_WAIT_MAX, taken).await;
        Self::of(if portion.is_some() { least } else { 0 }, portion)
    }

    const fn of(bytes: usize, portion: Option<Portion>) -> Self {
        Self {
            bytes,
            _portion: portion,
        }
    }

    /// Returns about how many bytes these contents take in the answer.
    #[must_use]
    pub fn bytes_in_answer(&self) -> usize {
        in_answer(self.bytes).min(limits::POLL_BYTES_MAX)
    }
}

/// Returns how many bytes a call reads for a task.
fn bytes_to_read(spec: &Arc<Spec>) -> usize {
    let apart = schema::without_large_content(spec).bytes_apart();
    apart.map_or(0, bytes_apart)
}

fn bytes_apart(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(limits::CONTENT_BYTES_MAX, |bytes| {
        bytes.min(limits::CONTENT_BYTES_MAX)
    })
}

/// As JSON or base64, at worst a third more.
const fn in_answer(bytes: usize) -> usize {
    bytes / 3 * 4
}

/// The room of one answer.
#[derive(Debug)]
pub(in crate::flow) struct Room<'a> {
    memory: &'a Memory,
    read: AtomicUsize,
    used: AtomicUsize,
    reads: Semaphore,
}

/// The room that a task's content takes.
#[derive(Debug)]
pub(in crate::flow) enum Held {
    /// There is room for it; none when the task has none.
    Content(Option<Content>),
    /// It is for another call.
    NoRoom,
}

impl<'a> Room<'a> {
    pub(in crate::flow) fn new(memory: &'a Memory) -> Self {
        Self {
            memory,
            read: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            reads: Semaphore::new(READS_IN_FLIGHT_MAX),
        }
    }

    /// Returns a task's content if it is asked for and there is room for it; the first always fits, if there is memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(in crate::flow) async fn content(
        &self,
        ctx: &Context,
        request: &ClaimRequest,
        spec: &Spec,
    ) -> Result<Held, Fault> {
        if !request.with_content {
            return Ok(Held::Content(None));
        }
        if let Some(content) = spec.content() {
            let fits = self.take(schema::content_bytes(content));
            return Ok(if fits {
                Held::Content(Some(content.clone()))
            } else {
                Held::NoRoom
            });
        }
        let _turn: Option<SemaphorePermit<'_>> = self.reads.acquire().await.ok();
        let expected = spec.bytes_apart().map_or(0, bytes_apart);
        if self.is_full() || !self.expect(expected) {
            return Ok(Held::NoRoom);
        }
        let held = self.read(ctx, request, expected).await;
        if !matches!(held, Ok(Held::Content(Some(_)))) {
            self.read.fetch_sub(expected, Ordering::Relaxed);
        }
        held
    }

    async fn read(
        &self,
        ctx: &Context,
        request: &ClaimRequest,
        expected: usize,
    ) -> Result<Held, Fault> {
        // A damaged one concerns its own task alone: the poll goes on with the messages of others.
        let read = content::read(ctx, request.id).await?;
        let Some(content) = read else {
            return Ok(Held::Content(None));
        };
        let bytes = schema::content_bytes(&content);
        let more = bytes.saturating_sub(expected);
        if more > 0 && !self.expect(more) {
            return Ok(Held::NoRoom);
        }
        if !self.take(bytes) {
            self.read.fetch_sub(more, Ordering::Relaxed);
            return Ok(Held::NoRoom);
        }
        Ok(Held::Content(Some(content)))
    }

    /// Takes some of the answer for what comes with a task beside its content.
    pub(in crate::flow) fn takes(&self, bytes: usize) -> bool {
        bytes == 0 || self.take(bytes)
    }

    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= limits::POLL_BYTES_MAX
    }

    /// Takes some of the call's memory.
    fn expect(&self, bytes: usize) -> bool {
        self.memory.bytes > 0 && add(&self.read, bytes, self.memory.bytes)
    }

    /// Takes some of the answer.
    fn take(&self, bytes: usize) -> bool {
        let bytes = in_answer(bytes) + limits::CLAIMED_ROW_BYTES;
        add(&self.used, bytes, limits::POLL_BYTES_MAX)
    }
}

/// Adds to what is used of `most`, unless it is too much; the first never is.
fn add(used: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let before = used.fetch_add(bytes, Ordering::Relaxed);
    let fits = before == 0 || before.saturating_add(bytes) <= most;
    if !fits {
        used.fetch_sub(bytes, Ordering::Relaxed);
    }
    fits
}
