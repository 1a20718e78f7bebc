//! The failpoints end a process at named places, so that tests can kill it exactly there.
//!
//! `TICKWHEEL_DIE_AT=published:40` ends the process, as `kill -9` does, when it passes `published` for the
//! fortieth time. This works in debug builds only: in a release build [`pass`] does nothing, and the variable
//! is not read. Release builds compile this code all the same, so that no part of it can be missing there.
//!
//! - `committed`: the store has synced a group and has not answered yet.
//! - `publishing`: looks are written, nothing is published.
//! - `published`: the queue has acknowledged, `fired` has not moved.
//! - `swapped`: a conditional write of a task is done, and its caller does not know it yet.
//! - `merging`: the embedded database merges tables, and has written some of the rows.
//!
//! `TICKWHEEL_BUFFER_BYTES=16384` gives a database that is created small buffers, so that it writes and
//! merges tables all the time.

mod armed {
    use std::{
        io::Write as _,
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
    };

    use rustix::process::{Signal, getpid, kill_process};

    struct Armed {
        place: String,
        left: AtomicU64,
    }

    fn armed() -> Option<&'static Armed> {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let read = || {
            let text = std::env::var("TICKWHEEL_DIE_AT").ok()?;
            let (place, count) = text.split_once(':')?;
            Some(Armed {
                place: place.to_owned(),
                left: AtomicU64::new(count.parse().ok()?),
            })
        };
        ARMED.get_or_init(read).as_ref()
    }

    pub(super) fn pass(place: &str) {
        let Some(armed) = armed().filter(|armed| armed.place == place) else {
            return;
        };
        if armed.left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        // No later line could say it.
        let said = writeln!(std::io::stderr().lock(), "dies at {place}");
        if let Err(error) = said.and_then(|()| Ok(kill_process(getpid(), Signal::KILL)?)) {
            tracing::error!(%error, place, "could not die");
        }
    }

    pub(super) fn is_armed_at(place: &str) -> bool {
        armed().is_some_and(|armed| armed.place == place)
    }

    pub(super) fn buffer_bytes() -> Option<u64> {
        std::env::var("TICKWHEEL_BUFFER_BYTES").ok()?.parse().ok()
    }
}

/// Passes a place.
#[inline]
pub fn pass(place: &str) {
    if cfg!(debug_assertions) {
        armed::pass(place);
    }
}

/// Returns whether the process is to die at a place.
#[must_use]
pub fn is_armed_at(place: &str) -> bool {
    cfg!(debug_assertions) && armed::is_armed_at(place)
}

/// Returns the size of buffers that a test has asked for.
#[must_use]
pub fn buffer_bytes() -> Option<u64> {
    if cfg!(debug_assertions) {
        armed::buffer_bytes()
    } else {
        None
    }
}
