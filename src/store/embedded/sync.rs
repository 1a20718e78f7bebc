//! The syncs make files and their names durable for everything that writes beside the database.

use std::{fs::File, io, path::Path};

/// Makes names in a directory durable.
pub(in crate::store::embedded) fn sync_directory(path: &Path) -> io::Result<()> {
    sync(&File::open(path)?)
}

/// Waits until a file is on the disk.
pub(in crate::store::embedded) fn sync(file: &File) -> io::Result<()> {
    file.sync_all()?;
    #[cfg(test)]
    SYNCS.set(SYNCS.get() + 1);
    Ok(())
}

#[cfg(test)]
thread_local! {
    /// Number of files and directories that this thread has waited for.
    pub(super) static SYNCS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
