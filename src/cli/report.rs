//! The report counts for the user what an import has done, and names the first thing that it could not do.

use std::io::{self, Write as _};

use super::{Exit, Failure, output::printable};
use crate::client::{ImportOutcome, Problem};

/// The work of an import so far, beside what it has set.
#[derive(Debug, Default)]
pub(super) struct Report {
    unchanged: u64,
    refused: u64,
    /// The first thing that was refused, and the reason.
    first: Option<String>,
}

impl Report {
    /// Notes the result of a thing, which standard error names when it was refused. Tells whether the thing was set.
    pub(super) fn note(
        &mut self,
        name: &str,
        outcome: Option<ImportOutcome>,
        error: Option<Problem>,
    ) -> bool {
        match outcome {
            Some(ImportOutcome::Unchanged) => self.unchanged += 1,
            Some(_) => return true,
            None => {
                let detail = error.map(|error| error.detail).unwrap_or_default();
                let told = printable(&format!("{name}: {detail}"));
                // A reader of errors that has gone must not end the import.
                drop(writeln!(io::stderr(), "{told}"));
                self.refused += 1;
                self.first.get_or_insert(told);
            }
        }
        false
    }

    /// Says what was done: `set` counts what was set. Fails with it when the import broke off or something was refused.
    pub(super) fn end(
        self,
        set: &str,
        ended: Result<(), Failure>,
        refused: Exit,
    ) -> Result<String, Failure> {
        let mut told = set.to_owned();
        if self.unchanged > 0 {
            told.push_str(&format!(", {} were so already", self.unchanged));
        }
        if let Some(first) = &self.first {
            told.push_str(&format!(", {} refused, the first: {first}", self.refused));
        }
        if let Err(Failure { exit, text }) = ended {
            let text =
                format!("{text}; until then: {told}; the same file again leaves alone what is set");
            return Err(Failure { exit, text });
        }
        if self.refused > 0 {
            return Err(Failure {
                exit: refused,
                text: told,
            });
        }
        Ok(told)
    }
}

/// Returns the failure of the call whose first thing is named.
pub(super) fn broke_off(first: &str, error: impl Into<Failure>) -> Failure {
    let Failure { exit, text } = error.into();
    let text = format!("broke off at {first}: {text}");
    Failure { exit, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_and_names_the_first_that_was_refused() {
        let mut report = Report::default();
        assert!(report.note("a", Some(ImportOutcome::Created), None));
        assert!(!report.note("b", Some(ImportOutcome::Unchanged), None));
        assert!(!report.note("c", None, None) && !report.note("d", None, None));
        let failed = report.end("1 schedule set", Ok(()), Exit::Usage);
        let told = failed.unwrap_err().text;
        assert_eq!(
            told,
            "1 schedule set, 1 were so already, 2 refused, the first: c: "
        );
    }

    #[test]
    fn a_broken_import_says_what_was_done_before() {
        let mut report = Report::default();
        report.note("b", Some(ImportOutcome::Unchanged), None);
        let broken = Err(Failure::failed("line 3: no answer"));
        let Failure { exit, text } = report.end("2 set", broken, Exit::Usage).unwrap_err();
        assert_eq!(exit, Exit::Failed);
        assert!(
            text.starts_with("line 3: no answer; until then: 2 set, 1 were so already;"),
            "{text}"
        );
    }
}
