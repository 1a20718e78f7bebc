//! Has the database's own threads stand back for everything else.
//!
//! They write buffers out and merge, in bursts of seconds that take whole cores, while claims and settles wait for
//! milliseconds. The scheduler of the system decides between them by their niceness: behind, not starved, so that buffers
//! are written out in time. Where nothing else runs they are as fast as ever.

#[cfg(target_os = "linux")]
use std::{fs, path::Path};

/// A fourth of what another busy thread gets.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// What fjall calls them.
#[cfg(target_os = "linux")]
const NAME: &str = "fjall:worker";

/// Sets the threads of this process that the database has started back, and returns how many.
///
/// What does not work out is left as it is: it costs nothing but some lateness.
#[cfg(target_os = "linux")]
pub(super) fn stand_back() -> usize {
    use rustix::process::{Pid, getpriority_process, setpriority_process};

    let is_ours = |thread: &Path| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim_end() == NAME)
    };
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let threads = threads.flatten().map(|thread| thread.path());
    let number = |thread: &Path| thread.file_name()?.to_str()?.parse().ok();
    threads
        .filter(|thread| is_ours(thread))
        .filter_map(|thread| number(&thread).and_then(Pid::from_raw))
        // A process that stands back further as a whole keeps to that.
        .filter(|thread| getpriority_process(Some(*thread)).is_ok_and(|nice| nice < NICENESS))
        .filter(|thread| setpriority_process(Some(*thread), NICENESS).is_ok())
        .count()
}

/// Does nothing where threads have no niceness of their own.
#[cfg(not(target_os = "linux"))]
pub(super) fn stand_back() -> usize {
    0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{Pid, getpriority_process};
    use tempfile::TempDir;

    use super::*;
    use crate::store::embedded::{
        database::{create, open},
        tests::shape,
    };

    #[test]
    fn the_threads_of_an_open_database_stand_back_and_ours_do_not() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("store");
        create(&path, &shape(2)).unwrap();
        let ours = getpriority_process(None).unwrap();
        let _open = open(&path, &shape(2)).unwrap();
        let nice = |thread: &Path| {
            let id = thread
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .parse()
                .unwrap();
            getpriority_process(Pid::from_raw(id)).unwrap_or(ours)
        };
        let threads = fs::read_dir("/proc/self/task").unwrap();
        let behind = threads
            .map(|thread| thread.unwrap().path())
            .filter(|thread| {
                // One of another test may end under our hands.
                let name = fs::read_to_string(thread.join("comm")).unwrap_or_default();
                name.trim_end() == NAME && nice(thread) == ours.max(NICENESS)
            });
        assert!(behind.count() >= 4);
        assert_eq!(getpriority_process(None).unwrap(), ours);
    }
}
