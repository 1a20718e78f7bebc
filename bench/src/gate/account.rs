//! The account tells the gate how much CPU a process has used, by the scheduler's account of each of its threads.
//!
//! It is exact to the nanosecond for threads that sleep. `/proc/PID/stat` has steps of 10 ms, a tenth of a slice. A
//! thread that ends takes along what it has used since the last look.

use std::{collections::HashMap, fs, io, path::PathBuf, time::Duration};

use anyhow::Context as _;

/// The CPU of a process.
#[derive(Debug)]
pub(super) struct Account {
    threads: PathBuf,
    /// Nanoseconds of each thread at the last look.
    seen: HashMap<String, u64>,
    total: u64,
}

impl Account {
    pub(super) fn new(process: u32) -> Self {
        Self {
            threads: PathBuf::from(format!("/proc/{process}/task")),
            seen: HashMap::new(),
            total: 0,
        }
    }

    /// Returns what all threads have used so far.
    pub(super) fn spent(&mut self) -> anyhow::Result<Duration> {
        let threads = fs::read_dir(&self.threads)
            .with_context(|| format!("cannot read {}", self.threads.display()))?;
        for thread in threads {
            let Ok(name) = thread?.file_name().into_string() else {
                continue;
            };
            match fs::read_to_string(self.threads.join(&name).join("schedstat")) {
                Ok(text) => self.note(name, on_cpu(&text)?),
                // It has ended meanwhile.
                Err(gone) if gone.kind() == io::ErrorKind::NotFound || is_no_process(&gone) => {}
                Err(error) => return Err(error).context("cannot read schedstat of a thread"),
            }
        }
        Ok(Duration::from_nanos(self.total))
    }

    /// Adds what a thread has used since the last look. A number that is used again counts from zero.
    fn note(&mut self, thread: String, used: u64) {
        let before = self.seen.insert(thread, used).unwrap_or(0);
        self.total += used.checked_sub(before).unwrap_or(used);
    }
}

fn is_no_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Reads the first figure of `schedstat`: nanoseconds on a core.
fn on_cpu(text: &str) -> anyhow::Result<u64> {
    let figure = text.split_whitespace().next().context("empty schedstat")?;
    Ok(figure.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_once_and_a_number_that_is_used_again_counts_anew() {
        let mut account = Account::new(1);
        account.note("7".to_owned(), 100);
        account.note("7".to_owned(), 130);
        account.note("8".to_owned(), 5);
        assert_eq!(account.total, 135);
        account.note("7".to_owned(), 20);
        assert_eq!(account.total, 155);
        assert_eq!(on_cpu("90677 2950578 2\n").unwrap(), 90_677);
        assert!(on_cpu("").is_err());
    }

    #[test]
    fn work_of_a_thread_that_was_seen_and_has_ended_stays_in_the_account() {
        let mut account = Account::new(std::process::id());
        let (ready, wait) = std::sync::mpsc::channel();
        let (go_on, end) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            let text = (0..200_000_u64).fold(0, |sum, number| sum ^ number.rotate_left(7));
            ready.send(text).unwrap();
            end.recv().unwrap_err();
        });
        wait.recv().unwrap();
        let during = account.spent().unwrap();
        drop(go_on);
        busy.join().unwrap();
        assert!(during > Duration::ZERO);
        assert!(account.spent().unwrap() >= during);
    }
}
