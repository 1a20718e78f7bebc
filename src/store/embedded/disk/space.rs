//! The space check tells operators and the store how much room is free, and how long a write takes to be safe
//! there.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    time::Duration,
};

use crate::{
    store::{
        Error,
        embedded::{faults::refused, private},
    },
    time_source::TimeSource,
};

/// Writes of a probe: enough for a median and an idea of the worst, done in a second on a slow disk.
const PROBE_WRITES: usize = 32;

/// Bytes of a probe's write: a block.
const PROBE_BYTES: usize = 4096;

/// The results of a probe of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probed {
    /// The usual time until a small write is safe.
    pub sync_p50: Duration,
    /// The longest time until a small write is safe.
    pub sync_max: Duration,
    /// Bytes that this process may still write.
    pub free_bytes: u64,
}

/// Measures how well a directory would serve as a data directory. It may be in use. Blocks for as long as the
/// disk does.
///
/// # Errors
/// [`Error::Unsuitable`] when it cannot be written to; the reason says what to do.
pub fn probe(directory: &Path, time: &TimeSource) -> Result<Probed, Error> {
    private::create_directory(directory).map_err(|error| refused(directory, &error))?;
    let path = directory.join(format!("probe-{}", std::process::id()));
    let opened = private::create_anew(&path);
    let mut file = opened.map_err(|error| refused(&path, &error))?;
    let measured = measure(&mut file, time);
    drop(file);
    let removed = fs::remove_file(&path);
    let mut times = measured
        .and_then(|times| removed.map(|()| times))
        .map_err(|error| refused(&path, &error))?;
    times.sort_unstable();
    Ok(Probed {
        sync_p50: times.get(times.len() / 2).copied().unwrap_or_default(),
        sync_max: times.last().copied().unwrap_or_default(),
        free_bytes: free_bytes(directory).map_err(|error| refused(directory, &error))?,
    })
}

fn measure(file: &mut File, time: &TimeSource) -> io::Result<Vec<Duration>> {
    let block = [0; PROBE_BYTES];
    let mut times = Vec::with_capacity(PROBE_WRITES);
    for _ in 0..PROBE_WRITES {
        let started = time.moment();
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(time.moment().since(started));
    }
    Ok(times)
}

/// Returns how many bytes an ordinary user may still write to the file system of a path.
pub(in crate::store::embedded) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
