//! The file limit tells the server how many files the process may have open, and so how many connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::{FILES_RESERVED, HTTP_CONNECTIONS_MAX};

/// Raises the process's limit of open files as far as it may without special rights, since the usual one is
/// for programs with few connections. Returns how many connections the API may hold.
pub(super) fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, limit = limit.current, "cannot raise the limit of open files");
            limit.current
        }
    };
    of_files(files)
}

/// Returns the connections that so many files allow; none is no limit.
fn of_files(files: Option<u64>) -> usize {
    let Some(files) = files else {
        return HTTP_CONNECTIONS_MAX;
    };
    // Of a very low limit half is for connections, because some have to be served to say what is wrong.
    let left = files.saturating_sub(FILES_RESERVED).max(files / 2).max(1);
    usize::try_from(left).map_or(HTTP_CONNECTIONS_MAX, |left| left.min(HTTP_CONNECTIONS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        assert_eq!(of_files(None), HTTP_CONNECTIONS_MAX);
        assert_eq!(of_files(Some(1_048_576)), HTTP_CONNECTIONS_MAX);
        assert_eq!(of_files(Some(4096)), 2944);
        assert_eq!(of_files(Some(1024)), 512);
        assert_eq!(of_files(Some(0)), 1);
    }
}
