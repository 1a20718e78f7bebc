//! The faults of opening tell the operator why the database could not be opened, and what to do.

use std::path::Path;

use fjall::Error as Cause;

use crate::store::{Error, embedded::faults::refused};

/// Why the database could not be opened.
pub(super) enum Failed {
    Fjall(Cause),
    Panicked,
}

fn corrupt(reason: String) -> Error {
    Error::Corrupt {
        operation: "open the store",
        reason,
    }
}

/// Returns the reason for people, and what to do.
pub(super) fn explained(path: &Path, failed: Failed) -> Error {
    let corrupt = |reason: String| {
        let path = path.display();
        corrupt(format!(
            "{path}: {reason}; restore a copy, or begin anew elsewhere"
        ))
    };
    match failed {
        Failed::Panicked => {
            corrupt("its journal or its tables are not what they should be".to_owned())
        }
        Failed::Fjall(Cause::Io(error) | Cause::Storage(fjall::LsmError::Io(error))) => {
            refused(path, &error)
        }
        Failed::Fjall(Cause::Locked) => Error::Unsuitable {
            reason: format!("{} is in use: stop what uses it", path.display()),
        },
        Failed::Fjall(Cause::InvalidVersion(_)) => Error::Unsuitable {
            reason: format!(
                "{} was written by another version of its database: use the program that made it",
                path.display()
            ),
        },
        Failed::Fjall(cause) => corrupt(format!("{cause:?}")),
    }
}
