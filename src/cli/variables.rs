//! The warning of variables tells operators of environment variables that look like settings and are none: a mistyped one has no
//! effect, and nobody would notice.

use std::io::Write as _;

use super::output::printable;
use crate::config::{self, Problem};

/// Returns the unknown variables of this process.
pub(super) fn unknown() -> Vec<Problem> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    config::unknown_variables(names)
}

/// Says on standard error which variables of this process are unknown, for a command without a log.
pub(super) fn warn() {
    for Problem { origin, reason } in unknown() {
        // When standard error is closed, nobody reads it.
        writeln!(
            std::io::stderr(),
            "warning: {}",
            printable(&format!("{origin}: {reason}"))
        )
        .unwrap_or_default();
    }
}
