//! `Fence` is the resource outside the service that the callbacks of a drill change. It refuses an attempt
//! that is lower than the last one it has seen, as `docs/guarantees.md` asks of it.
//!
//! It keeps a folder per task and a file per attempt. It has no locks: a worker may be stopped
//! between any two steps.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

#[derive(Debug, Clone)]
pub(crate) struct Fence {
    directory: PathBuf,
}

impl Fence {
    pub(crate) fn of(root: &Path) -> Self {
        Self {
            directory: root.join("fence"),
        }
    }

    /// Shows an attempt to the resource: from now on lower ones are refused.
    pub(crate) fn show(&self, id: &str, attempt: u32) {
        let folder = self.directory.join(id);
        fs::create_dir_all(&folder).expect("a folder can be made");
        File::create(folder.join(attempt.to_string())).expect("a file can be made");
    }

    /// Tells whether a change by this attempt is let through: no later one has been shown.
    pub(crate) fn lets_through(&self, id: &str, attempt: u32) -> bool {
        let files = fs::read_dir(self.directory.join(id)).expect("it was shown");
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        let seen = names.filter_map(|name| name.parse::<u32>().ok()).max();
        seen.is_none_or(|seen| attempt >= seen)
    }
}
