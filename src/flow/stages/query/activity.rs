//! The activity tells people and the API what is going on with a callback.

use super::pollers::Polled;
use crate::{flow::base::figures::second::Lateness, model::time::Millis};

/// The present activity of a callback on all nodes, as they have told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Workers that polled lately, by name.
    pub workers: Vec<Polled>,
    /// Due tasks that no worker has taken.
    pub ready: u64,
    /// Since when the oldest of them is due.
    pub oldest: Option<Millis>,
    /// Attempts that the nodes watch.
    pub running: u64,
    /// Tasks that wait for their next attempt, as the nodes know.
    pub retrying: u64,
    /// Tasks that gates hold.
    pub held: u64,
    /// Tasks that are dead and kept.
    pub dead: u64,
    /// How late tasks were handed over in the last five minutes.
    pub lateness: Option<Lateness>,
    /// Other nodes may know of more.
    pub partial: bool,
}

impl Activity {
    /// Tells whether this node knows of nothing that goes on.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        let tasks = self.ready + self.running + self.retrying + self.held + self.dead;
        tasks == 0 && self.workers.is_empty() && self.lateness.is_none()
    }
}
