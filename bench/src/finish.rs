//! The end of a run prints and writes its results, and gives its exit code.

use std::{io::Write as _, path::Path, process::ExitCode};

use crate::report::Report;

/// Prints and writes the results; measurements before a failure are worth keeping.
pub(crate) fn finish(
    report: &Report,
    json: Option<&Path>,
    ran: anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    report.print()?;
    if let Some(path) = json {
        report.write_json(path)?;
    }
    ran?;
    if report.is_sound() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        std::io::stderr().lock(),
        "error: a task was lost or came out early, or a promise was broken: the table says which"
    )?;
    Ok(ExitCode::FAILURE)
}
