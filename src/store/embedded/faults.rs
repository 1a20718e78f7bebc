//! The faults tell callers of the store what a failure of the disk or of the database is to them.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use fjall::Error as Cause;

use crate::store::{Error, row::Undecodable};

/// Returns the fault that an error of fjall is to callers.
pub(super) fn fault(operation: &'static str, cause: &Cause) -> Error {
    match cause {
        Cause::Io(error) | Cause::Storage(fjall::LsmError::Io(error))
            if matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            ) =>
        {
            Error::Unavailable {
                operation,
                reason: format!(
                    "the disk is full: free some space; it goes on by itself ({error})"
                ),
            }
        }
        Cause::Io(_) | Cause::Storage(fjall::LsmError::Io(_)) | Cause::Poisoned | Cause::Locked => {
            Error::Unavailable {
                operation,
                reason: format!("the disk failed: {cause:?}"),
            }
        }
        _ => Error::Corrupt {
            operation,
            reason: format!("{cause:?}"),
        },
    }
}

/// Says what to do about a file that cannot be used.
pub(super) fn refused(path: &Path, error: &io::Error) -> Error {
    let shown = path.display();
    let reason = match error.kind() {
        // There may be room later, and a starting process waits for it.
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            return Error::Full {
                reason: format!("there is no space left for {shown}: free some ({error})"),
            };
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => format!(
            "{shown} is not a directory, or lies below something that is none: choose another data directory"
        ),
        ErrorKind::PermissionDenied => format!(
            "{shown} must be readable and writable for this user: change its owner or its mode ({error})"
        ),
        ErrorKind::ReadOnlyFilesystem => {
            format!("{shown} is on a file system that is mounted read-only: mount it writable")
        }
        _ => format!("{shown} cannot be used: {error}"),
    };
    Error::Unsuitable { reason }
}

/// Returns the fault that a wheel without a clock is.
pub(super) fn no_clock() -> Error {
    Error::Unsuitable {
        reason: "a wheel has no clock: is the shape that the store was set up with configured?"
            .to_owned(),
    }
}

/// Returns the fault that a row is which cannot be read.
pub(super) fn corrupt(operation: &'static str, cause: &Undecodable) -> Error {
    Error::Corrupt {
        operation,
        reason: cause.to_string(),
    }
}
