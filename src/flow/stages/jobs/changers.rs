//! The changers are the stages of the node that jobs find and change tasks through.

use crate::flow::{
    base::{read::find::Finder, records::callbacks::Callbacks},
    life::{cancel::Canceller, erase::Eraser, reschedule::Rescheduler},
    stages::{letters::desk, schedules::tasks::RunTasks, tree::retry::Retrier},
};

/// The stages.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Changers {
    pub(in crate::flow) finder: Finder,
    pub(in crate::flow) canceller: Canceller,
    pub(in crate::flow) rescheduler: Rescheduler,
    pub(in crate::flow) letters: desk::Desk,
    pub(in crate::flow) eraser: Eraser,
    pub(in crate::flow) retrier: Retrier,
    pub(in crate::flow) runs: RunTasks,
    pub(in crate::flow) callbacks: Callbacks,
}
