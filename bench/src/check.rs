//! The check of a measurement counts for the report the tasks that went wrong.

use serde::Serialize;

/// The result of the check of all tasks of a measurement. A lost or early task fails the run.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Check {
    pub(crate) tasks: u64,
    pub(crate) lost: u64,
    pub(crate) early: u64,
    pub(crate) duplicates: u64,
}
