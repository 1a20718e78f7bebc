//! The private files of a command hold payloads and secrets: they are made for their owner alone, and never through a link.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::AsFd as _,
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{fs::Mode, process::umask};

/// The rights of all others than the owner, in the mode of a file.
const OTHERS: u32 = 0o077;

/// Makes all files and directories of this process private from now on. Processes that it starts make theirs so, too.
pub(super) fn by_default() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Warns when standard output is a file that others than its owner can read: the shell made it.
pub(super) fn warn_of_open_output(holds: &str) {
    let output = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    if output.is_ok_and(|file| is_open(&file)) {
        let told = "warning: others than you can read the file that standard output goes to";
        // When standard error is closed, nobody reads it.
        writeln!(io::stderr(), "{told}: chmod go= it, it holds {holds}").unwrap_or_default();
    }
}

/// Tells whether others than the owner have rights to a file that was opened.
pub(super) fn is_open(file: &File) -> bool {
    let data = file.metadata().ok().filter(fs::Metadata::is_file);
    data.is_some_and(|data| data.mode() & OTHERS != 0)
}

/// A file on its way, called `FILE.part`, that gets its name once it is whole. It is removed when this is dropped before.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    whole: PathBuf,
    file: File,
}

impl Part {
    /// Creates the file anew. A file that a broken command left there is removed, and so is a link: it is not followed.
    pub(super) fn create(whole: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(whole).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut path = whole.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        Ok(Self {
            file: options.open(&path)?,
            whole: whole.to_owned(),
            path,
        })
    }

    /// Returns the name that it has so far.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name. Fails where another one has come meanwhile.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        let (own, there) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        if (own.dev(), own.ino()) != (there.dev(), there.ino()) {
            return Err(io::Error::other("another command writes the same file"));
        }
        match fs::hard_link(&self.path, &self.whole) {
            // A file system without links.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                fs::rename(&self.path, &self.whole)
            }
            linked => linked,
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The outcome of the command matters more than a rest.
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_link_or_an_open_file_in_its_place_is_replaced_and_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, part) = (folder.path().join("copy"), folder.path().join("copy.part"));
        let other = folder.path().join("other");
        fs::write(&other, "theirs").unwrap();
        symlink(&other, &part).unwrap();
        let file = Part::create(&whole).unwrap();
        file.file().write_all(b"ours").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(&whole).unwrap(), "ours");
        assert!(mode(&whole) == 0o600 && !part.exists());
        let second = folder.path().join("second");
        let open = folder.path().join("second.part");
        fs::write(&open, "x").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        Part::create(&second).unwrap().finish().unwrap();
        assert_eq!(
            (mode(&second), fs::read(&second).unwrap().len()),
            (0o600, 0)
        );
    }

    #[test]
    fn no_file_is_overwritten_and_no_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("copy");
        symlink("nowhere", &whole).unwrap();
        let refused = Part::create(&whole).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&whole).unwrap();
        let part = Part::create(&whole).unwrap();
        fs::write(&whole, "came meanwhile").unwrap();
        assert!(part.finish().is_err());
        assert_eq!(fs::read_to_string(&whole).unwrap(), "came meanwhile");
        fs::remove_file(&whole).unwrap();
        let first = Part::create(&whole).unwrap();
        let second = Part::create(&whole).unwrap();
        assert!(first.finish().is_err() && !whole.exists());
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_open_when_others_have_rights() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_open(file.as_file()));
        let open = fs::Permissions::from_mode(0o640);
        fs::set_permissions(file.path(), open).unwrap();
        assert!(is_open(file.as_file()));
    }
}
