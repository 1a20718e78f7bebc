//! Lets the database's own threads step back: what they do has time, a claim has not.
//!
//! On a machine with few cores a merge takes a whole one for a second, and whoever wakes meanwhile waits for a time slice:
//! milliseconds. Threads of less weight give way at once. They still get their share when all cores are busy, and when
//! that is too little the writer waits for them ([`super::database::Open::has_room`]), which frees the cores.

use std::thread;

use rustix::process::setpriority_process;

/// How nice they are: a tenth of the weight of the others (a step of nice is a factor of 1.25).
const NICE: i32 = 10;

/// Runs something on a thread that is nice, as are all threads that it starts: a thread's own niceness is what new ones
/// begin with, and an ordinary user cannot take it back. None when it panicked.
pub(super) fn stepped_back<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let nice = scope.spawn(|| {
            // For the system the calling thread is a process; others of this one stay as they are.
            if let Err(error) = setpriority_process(None, NICE) {
                tracing::debug!(%error, "merges run at the usual priority");
            }
            act()
        });
        nice.join().ok()
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn what_is_started_there_is_nice_and_who_asked_is_not() {
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        let started = stepped_back(|| thread::spawn(nice).join().unwrap());
        assert_eq!((started, nice()), (Some(NICE), before));
    }
}
