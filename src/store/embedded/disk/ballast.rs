//! The ballast keeps a little disk for operators' calls, which have to be served when there is not a byte left.
//!
//! The free space that new tasks leave alone (the reserve) is of no use once others have filled the disk: a log, a dump, another
//! service. So a part of it is taken at the start, as a file whose blocks the file system has set aside. It is given back piece
//! by piece, each just before the write that needs it, and taken again once there is room. A file system that sets no blocks
//! aside has no ballast.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{FallocateFlags, fallocate};

use crate::store::embedded::private;

/// The name of the file in the data directory.
const NAME: &str = "BALLAST";

/// See the module.
#[derive(Debug)]
pub(in crate::store::embedded) struct Ballast {
    path: PathBuf,
    /// Its length when it is whole. 0 where the file system sets nothing aside.
    bytes: u64,
    held: u64,
    /// It was set aside once, so what it lacks was given back.
    was_whole: bool,
}

impl Ballast {
    /// Finds the ballast that a directory has. Takes none.
    pub(in crate::store::embedded) fn of(directory: &Path, bytes: u64) -> Self {
        let path = directory.join(NAME);
        let found = fs::symlink_metadata(&path).ok();
        let found = found.filter(fs::Metadata::is_file);
        Self {
            was_whole: found.is_some(),
            // A copy may have the length without the blocks.
            held: found.map_or(0, |found| found.len().min(found.blocks() * 512).min(bytes)),
            path,
            bytes,
        }
    }

    /// Returns how many bytes it holds.
    pub(in crate::store::embedded) const fn held(&self) -> u64 {
        self.held
    }

    /// Returns how many bytes it lacks.
    pub(in crate::store::embedded) const fn missing(&self) -> u64 {
        self.bytes - self.held
    }

    /// Tells whether less than half of it is left.
    pub(in crate::store::embedded) const fn is_low(&self) -> bool {
        self.held < self.bytes / 2
    }

    /// Returns how many bytes it lacks since they were given back.
    pub(in crate::store::embedded) const fn given(&self) -> u64 {
        if self.was_whole { self.missing() } else { 0 }
    }

    /// Takes the bytes that it lacks, and those of a copy that was made without its blocks.
    ///
    /// # Errors
    /// The disk's; a file system that sets nothing aside is none.
    pub(in crate::store::embedded) fn fill(&mut self) -> io::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let file = match self.held {
            0 => private::create_anew(&self.path)?,
            _ => self.file()?,
        };
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Ok(()) => {
                (self.held, self.was_whole) = (self.bytes, true);
                Ok(())
            }
            Err(error) => {
                let error = io::Error::from(error);
                if error.kind() == ErrorKind::Unsupported {
                    tracing::info!(
                        path = %self.path.display(),
                        "the file system sets no space aside: with a full disk no call that writes is served"
                    );
                    self.bytes = 0;
                    self.held = 0;
                    return fs::remove_file(&self.path);
                }
                // The blocks that it took before the disk was full are given back.
                if self.held == 0 && !self.was_whole {
                    fs::remove_file(&self.path)?;
                } else {
                    file.set_len(self.held)?;
                }
                Err(error)
            }
        }
    }

    /// Gives back so many bytes, or as many as it holds. Returns how many.
    ///
    /// # Errors
    /// The disk's.
    pub(in crate::store::embedded) fn give(&mut self, bytes: u64) -> io::Result<u64> {
        let given = bytes.min(self.held);
        if given == 0 {
            return Ok(0);
        }
        match self.file() {
            Ok(file) => file.set_len(self.held - given)?,
            // Somebody has removed it, so its blocks are free. It is made again once there is room.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.held = 0;
                return Ok(0);
            }
            Err(error) => return Err(error),
        }
        self.held -= given;
        Ok(given)
    }

    fn file(&self) -> io::Result<File> {
        private::options().open(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn blocks(directory: &Path) -> u64 {
        fs::metadata(directory.join(NAME)).map_or(0, |found| found.blocks() * 512)
    }

    #[test]
    fn it_holds_blocks_of_the_disk_and_gives_them_back_piece_by_piece() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut ballast = Ballast::of(path, 4 * MIB);
        assert_eq!((ballast.held(), ballast.missing()), (0, 4 * MIB));
        assert_eq!(ballast.given(), 0, "there was none");
        assert_eq!(ballast.give(MIB).unwrap(), 0);
        ballast.fill().unwrap();
        assert_eq!((ballast.held(), ballast.missing()), (4 * MIB, 0));
        assert!(blocks(path) >= 4 * MIB);
        assert_eq!(ballast.give(MIB).unwrap(), MIB);
        assert!(!ballast.is_low());
        assert!(blocks(path) < 4 * MIB && blocks(path) >= 3 * MIB);
        // The next process goes on with what there is.
        let mut ballast = Ballast::of(path, 4 * MIB);
        assert_eq!((ballast.held(), ballast.missing()), (3 * MIB, MIB));
        assert_eq!(ballast.given(), MIB);
        ballast.give(MIB).unwrap();
        assert!(!ballast.is_low());
        ballast.give(1).unwrap();
        assert!(ballast.is_low());
        ballast.fill().unwrap();
        assert!(blocks(path) >= 4 * MIB);
        assert_eq!(ballast.give(u64::MAX).unwrap(), 4 * MIB);
        assert_eq!((ballast.held(), blocks(path)), (0, 0));
        let mut ballast = Ballast::of(path, 4 * MIB);
        assert_eq!((ballast.held(), ballast.given()), (0, 4 * MIB));
        ballast.fill().unwrap();
        assert_eq!(ballast.held(), 4 * MIB);
    }

    #[test]
    fn a_file_that_somebody_removed_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut ballast = Ballast::of(directory.path(), 4 * MIB);
        ballast.fill().unwrap();
        fs::remove_file(directory.path().join(NAME)).unwrap();
        assert_eq!(ballast.give(MIB).unwrap(), 0);
        assert_eq!((ballast.held(), ballast.missing()), (0, 4 * MIB));
        ballast.fill().unwrap();
        assert!(blocks(directory.path()) >= 4 * MIB);
    }

    #[test]
    fn a_copy_without_blocks_gets_them_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        File::create(path.join(NAME))
            .unwrap()
            .set_len(4 * MIB)
            .unwrap();
        let mut ballast = Ballast::of(path, 4 * MIB);
        assert_eq!((blocks(path), ballast.held()), (0, 0));
        ballast.fill().unwrap();
        assert!(blocks(path) >= 4 * MIB);
        let victim = path.join("victim");
        fs::write(&victim, "theirs").unwrap();
        fs::remove_file(path.join(NAME)).unwrap();
        std::os::unix::fs::symlink(&victim, path.join(NAME)).unwrap();
        let mut ballast = Ballast::of(path, 4 * MIB);
        ballast.fill().unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "theirs");
        assert!(blocks(path) >= 4 * MIB);
    }
}
