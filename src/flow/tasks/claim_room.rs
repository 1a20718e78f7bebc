//! The room of an answer bounds for the claim stage what contents a call returns: as much as a poll is given.
//!
//! A content is read and counted before its task is claimed, so that no task is claimed and then left out.
//! Few are read at once, because the size in a message is only what its sender claims.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    flow::{
        api::{ClaimRequest, Fault},
        context::Context,
    },
    limits,
    model::task::{Content, Spec},
    schema, store,
};

/// Contents that one call reads at once: together as large as its answer may be.
const READS_IN_FLIGHT_MAX: usize = limits::POLL_BYTES_MAX / limits::CONTENT_BYTES_MAX_DEFAULT;

/// The room of one answer.
#[derive(Debug)]
pub(in crate::flow) struct Room {
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

impl Room {
    pub(in crate::flow) fn new() -> Self {
        Self {
            used: AtomicUsize::new(0),
            reads: Semaphore::new(READS_IN_FLIGHT_MAX),
        }
    }

    /// Returns a task's content if it is asked for and there is room for it; the first always fits.
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
            let fits = self.take(content);
            return Ok(if fits {
                Held::Content(Some(content.clone()))
            } else {
                Held::NoRoom
            });
        }
        let _turn: Option<SemaphorePermit<'_>> = self.reads.acquire().await.ok();
        if self.is_full() {
            return Ok(Held::NoRoom);
        }
        let read = match ctx.store.bodies(&[request.id]).await {
            // It concerns its own task alone: the poll goes on with the messages of others.
            Err(error @ store::Error::Corrupt { .. }) => {
                tracing::error!(task = %request.id, %error, "the content of a due task is damaged");
                None
            }
            read => read?.into_iter().next().flatten(),
        };
        Ok(match read {
            Some(content) if !self.take(&content) => Held::NoRoom,
            content => Held::Content(content),
        })
    }

    fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= limits::POLL_BYTES_MAX
    }

    fn take(&self, content: &Content) -> bool {
        // As JSON or base64, at worst a third more.
        let bytes = schema::content_bytes(content) / 3 * 4 + limits::CLAIMED_ROW_BYTES;
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = before == 0 || before + bytes <= limits::POLL_BYTES_MAX;
        if !fits {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
}
