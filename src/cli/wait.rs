//! The flags of a wait say for the command `task register` which tasks a task waits for.

use clap::Args;

use crate::api::join::{After, AfterCondition};

/// The tasks that a task waits for.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct WaitArgs {
    /// Id of a task that it waits for (docs/joins.md); may be repeated.
    #[arg(long = "after", value_name = "ID", conflicts_with_all = ["topic", "after_parent"])]
    ids: Vec<String>,
    /// The ends that it waits for: all-succeeded, which is the default, or all-ended.
    #[arg(long = "after-condition", value_name = "CONDITION", value_parser = condition, requires = "ids")]
    condition: Option<AfterCondition>,
    /// Lets tasks be among them that are registered later.
    #[arg(long = "after-later", requires_all = ["ids", "deadline"])]
    later: bool,
    /// Until when it waits at most: a time, or how long from now; it fails then.
    #[arg(long = "after-deadline", value_name = "TIME", requires = "ids")]
    deadline: Option<String>,
}

fn condition(text: &str) -> Result<AfterCondition, String> {
    match text {
        "all-succeeded" | "all_succeeded" => Ok(AfterCondition::AllSucceeded),
        "all-ended" | "all_ended" => Ok(AfterCondition::AllEnded),
        _ => Err("expected all-succeeded or all-ended".to_owned()),
    }
}

impl WaitArgs {
    /// Returns the wait; none when no flag names a task.
    pub(super) fn after(self) -> Option<After> {
        (!self.ids.is_empty()).then_some(After {
            ids: self.ids,
            condition: self.condition,
            later: self.later,
            deadline: self.deadline,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Parsed {
        #[arg(long)]
        topic: Option<String>,
        #[arg(long)]
        key: Option<String>,
        #[arg(long)]
        after_parent: bool,
        #[command(flatten)]
        wait: WaitArgs,
    }

    fn read(flags: &[&str]) -> Result<Option<After>, clap::Error> {
        let parsed = Parsed::try_parse_from([&["register"], flags].concat())?;
        Ok(parsed.wait.after())
    }

    #[test]
    fn flags_become_a_wait() {
        assert_eq!(read(&[]).unwrap(), None);
        let after = read(&[
            "--after",
            "a",
            "--after",
            "b",
            "--after-condition",
            "all-ended",
            "--after-later",
            "--after-deadline",
            "30m",
        ]);
        let wanted = After {
            ids: vec!["a".to_owned(), "b".to_owned()],
            condition: Some(AfterCondition::AllEnded),
            later: true,
            deadline: Some("30m".to_owned()),
        };
        assert_eq!(after.unwrap(), Some(wanted));
        for wrong in [
            vec!["--after-later"],
            vec!["--after", "a", "--after-later"],
            vec!["--after-deadline", "1m"],
            vec!["--after", "a", "--after-condition", "some"],
            vec!["--after", "a", "--topic", "t"],
            vec!["--after", "a", "--after-parent"],
        ] {
            assert!(read(&wrong).is_err(), "{wrong:?}");
        }
    }
}
