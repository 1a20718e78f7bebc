//! The background priority makes the database's own threads stand back for everything else.
//!
//! They write buffers out and merge, in bursts of seconds that take whole cores, while claims and settles
//! wait for milliseconds. The scheduler of the system decides between them by their niceness. They are behind
//! but not starved, so buffers are written out in time. Where nothing else runs they are as fast as ever.

use std::{panic::resume_unwind, thread};

/// A niceness that gives a third of what another busy thread gets.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// Runs work on a thread that stands back. The threads that it starts stand back too, for as long as they
/// live.
pub(in crate::store::embedded) fn standing_back<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    // A thread that stands back cannot come forward again without privileges, so this work gets a thread that
    // ends.
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            stand_back();
            act()
        });
        thread
            .join()
            .unwrap_or_else(|panicked| resume_unwind(panicked))
    })
}

/// Makes the calling thread stand back. A failure is ignored: it costs only some lateness.
#[cfg(target_os = "linux")]
fn stand_back() {
    use rustix::process::{getpriority_process, setpriority_process};

    // On Linux a thread has a niceness of its own, and "this process" means the thread that asks.
    let is_forward = getpriority_process(None).is_ok_and(|nice| nice < NICENESS);
    if is_forward && let Err(error) = setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the database's threads do not stand back");
    }
}

/// On other systems niceness belongs to whole processes.
#[cfg(not(target_os = "linux"))]
const fn stand_back() {}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    fn nice() -> i32 {
        getpriority_process(None).unwrap()
    }

    #[test]
    fn what_is_started_there_stands_back_and_the_caller_does_not() {
        let ours = nice();
        let started = standing_back(|| thread::spawn(nice).join().unwrap());
        assert_eq!(started, ours.max(NICENESS));
        assert_eq!(nice(), ours);
    }
}
