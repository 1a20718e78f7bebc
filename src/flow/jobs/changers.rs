//! The changers are the stages of the node that jobs find and change tasks through.

use crate::flow::{
    dead_letters::desk,
    query::find::Finder,
    records::callbacks::Callbacks,
    schedules::tasks::RunTasks,
    tasks::{cancel::Canceller, erase::Eraser, reschedule::Changer},
};

/// The stages.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Changers {
    pub(in crate::flow) finder: Finder,
    pub(in crate::flow) canceller: Canceller,
    pub(in crate::flow) changer: Changer,
    pub(in crate::flow) letters: desk::Desk,
    pub(in crate::flow) eraser: Eraser,
    pub(in crate::flow) runs: RunTasks,
    pub(in crate::flow) callbacks: Callbacks,
}
