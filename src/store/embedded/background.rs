//! Has the database's own threads stand back for everything else.
//!
//! They write buffers out and merge, in bursts of seconds that take whole cores, while claims and settles wait for
//! milliseconds. The scheduler of the system decides between them by their niceness: behind, not starved, so that buffers
//! are written out in time. Where nothing else runs they are as fast as ever.

use std::{panic::resume_unwind, thread};

/// A third of what another busy thread gets.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// Does something on a thread that stands back, and so do the threads that it starts, for as long as they live.
pub(super) fn standing_back<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    // Who stands back once cannot come forward again without being privileged: so a thread that ends.
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

/// Sets the calling thread back. What does not work out is left as it is: it costs nothing but some lateness.
#[cfg(target_os = "linux")]
fn stand_back() {
    use rustix::process::{getpriority_process, setpriority_process};

    // On Linux a thread has a niceness of its own, and "this process" means the thread that asks.
    let is_forward = getpriority_process(None).is_ok_and(|nice| nice < NICENESS);
    if is_forward && let Err(error) = setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the database's threads do not stand back");
    }
}

/// Elsewhere niceness is of whole processes.
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
