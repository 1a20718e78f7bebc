//! The private files of a data directory, which hold payloads and secrets, are made for their owner alone, and never through a
//! link.
//!
//! Files that the database makes itself have the rights that the process gives by default (`cli/private.rs`).

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

/// Files of a data directory that hold nothing of a client.
const HARMLESS: [&str; 3] = ["LOCK", "FORMAT", "BALLAST"];

/// Makes a directory, and those above it that lack, for the owner alone.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns how a file is opened that is made for its owner alone if it is not there. A link is refused.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Creates a file. One of its name, or a link, is removed before.
pub(in crate::store::embedded) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    options().create_new(true).open(path)
}

/// Returns the first thing in a data directory that others than its owner can read, or change.
#[must_use]
pub fn open_to_others(directory: &Path) -> Option<PathBuf> {
    let is_open = |path: &Path| {
        let data = fs::symlink_metadata(path).ok();
        data.is_some_and(|data| !data.is_symlink() && data.mode() & 0o077 != 0)
    };
    if !is_open(directory) {
        return None;
    }
    let inside = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut inside = inside.filter(|one| !HARMLESS.iter().any(|name| one.file_name() == *name));
    inside.find_map(|one| Some(one.path()).filter(|path| is_open(path)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn directories_and_files_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a/b");
        create_directory(&directory).unwrap();
        create_directory(&directory).unwrap();
        let mut file = directory.join("f");
        fs::write(&file, "before").unwrap();
        allow(&file, 0o666);
        drop(create_anew(&file).unwrap());
        for (path, mode) in [(&directory, 0o700), (&file, 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, mode);
        }
        assert_eq!(open_to_others(&directory), None);
        allow(&directory, 0o755);
        assert_eq!(open_to_others(&directory), None);
        allow(&file, 0o640);
        assert_eq!(open_to_others(&directory), Some(file.clone()));
        for name in HARMLESS {
            fs::rename(&file, directory.join(name)).unwrap();
            file = directory.join(name);
            assert_eq!(open_to_others(&directory), None, "{name}");
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, other) = (folder.path().join("link"), folder.path().join("other"));
        fs::write(&other, "theirs").unwrap();
        symlink(&other, &link).unwrap();
        assert!(options().create(true).open(&link).is_err());
        drop(create_anew(&link).unwrap());
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(&link).unwrap(), "");
    }
}
