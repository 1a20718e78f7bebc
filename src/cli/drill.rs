//! The drill gives a process a wrong wall clock, for tests and for people who want to see its effects.
//!
//! The option is hidden, since nobody needs it to run the service. The offset applies to one process; the
//! machine's clock, the monotonic clock and every other process stay as they are.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::time_source::TimeSource;

/// How often the file is read.
const READ_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Default, Args)]
pub(super) struct DrillArgs {
    /// For drills: a file with milliseconds that are added to the wall clock; read every 100 ms. A file that
    /// is missing, or has no number, changes nothing.
    #[arg(long, hide = true, value_name = "FILE")]
    clock_offset_file: Option<PathBuf>,
}

impl DrillArgs {
    /// Returns the machine's clocks; in a drill with the offset that the file gives at each moment.
    pub(super) async fn time(&self) -> TimeSource {
        let time = TimeSource::real();
        if let Some(path) = &self.clock_offset_file {
            tracing::warn!(file = %path.display(), "drill: the wall clock follows a file");
            let mut offset_ms = 0;
            // Once before any other code reads the clock.
            follow(path, &time, &mut offset_ms).await;
            let (path, time) = (path.clone(), time.clone());
            tokio::spawn(async move {
                loop {
                    time.sleep(READ_EVERY).await;
                    follow(&path, &time, &mut offset_ms).await;
                }
            });
        }
        time
    }
}

/// Sets the offset when the file has another one.
async fn follow(path: &PathBuf, time: &TimeSource, offset_ms: &mut i64) {
    let read = tokio::fs::read_to_string(path).await.unwrap_or_default();
    if let Ok(new_ms) = read.trim().parse::<i64>()
        && new_ms != *offset_ms
    {
        tracing::warn!(offset_ms = new_ms, "drill: the wall clock is set");
        time.set_wall_error_ms(new_ms);
        *offset_ms = new_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_wall_clock_follows_the_file_and_keeps_its_offset_when_the_file_is_broken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("offset");
        let (time, truth, mut offset_ms) = (TimeSource::real(), TimeSource::real(), 0);
        for (text, hours) in [
            ("", 0),
            ("3600000\n", 1),
            ("soon", 1),
            ("-7200000", -2),
            ("0", 0),
        ] {
            std::fs::write(&path, text).unwrap();
            follow(&path, &time, &mut offset_ms).await;
            let error = time.now().0 - truth.now().0;
            assert!(
                (error - hours * 3_600_000).abs() < 10_000,
                "{text}: {error}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        follow(&path, &time, &mut offset_ms).await;
        assert_eq!(offset_ms, 0);
    }
}
