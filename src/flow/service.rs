//! The service as those above it see it.

use std::{sync::Arc, time::Duration};

use super::api::{
    CancelOutcome, Check, ClaimAnswer, ClaimRequest, Fault, HeartbeatAnswer, HeartbeatRequest,
    NewTask, RescheduleOutcome, SettleAnswer, SettleRequest, TaskView,
};
use crate::{
    model::{ids::TaskId, time::Millis, wheel::Shape},
    time_source::TimeSource,
};

/// The service of one node: everything a request can ask for. Cheap to share.
#[derive(Debug)]
pub struct Service {}

/// Whether a read returns the content, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Without content.
    Basic,
    /// With content.
    Full,
}

impl Service {
    /// Returns the wheel's shape.
    pub fn shape(&self) -> &Shape {
        todo!()
    }
    /// Returns the node's clocks.
    pub fn time(&self) -> &TimeSource {
        todo!()
    }
    /// Registers tasks; one result per task, in order. What is returned is durable and will fire.
    pub async fn register(&self, _tasks: Vec<NewTask>) -> Vec<Result<TaskView, Fault>> {
        todo!()
    }
    /// Reads a task.
    pub async fn get(&self, _id: TaskId, _view: View) -> Result<Option<TaskView>, Fault> {
        todo!()
    }
    /// Reads a task once it is terminal, or as it is when `wait` has passed.
    pub async fn get_when_terminal(
        &self,
        _id: TaskId,
        _view: View,
        _wait: Duration,
    ) -> Result<Option<TaskView>, Fault> {
        todo!()
    }
    /// Cancels; none when there is no such task.
    pub async fn cancel(&self, _id: TaskId) -> Result<Option<(CancelOutcome, TaskView)>, Fault> {
        todo!()
    }
    /// Moves the start; `condition` sees the task as it is and may refuse (`If-Match`); none when there is no such task.
    pub async fn reschedule(
        &self,
        _id: TaskId,
        _start: Millis,
        _condition: Option<Box<dyn Fn(&TaskView) -> bool + Send + Sync>>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        todo!()
    }
    /// Claims messages for a worker; one answer per message, in order.
    pub async fn claim(&self, _worker: &str, _requests: Vec<ClaimRequest>) -> Vec<ClaimAnswer> {
        todo!()
    }
    /// Records signs of life; one answer per attempt, in order.
    pub async fn heartbeat(
        &self,
        _worker: &str,
        _requests: Vec<HeartbeatRequest>,
    ) -> Vec<HeartbeatAnswer> {
        todo!()
    }
    /// Records how attempts ended; one answer per report, in order.
    pub async fn settle(&self, _worker: &str, _requests: Vec<SettleRequest>) -> Vec<SettleAnswer> {
        todo!()
    }
    /// Makes sure that the topics of these callbacks exist, and returns them.
    pub async fn subscribe(&self, _callbacks: &[String]) -> Result<Vec<String>, Fault> {
        todo!()
    }
    /// Tells whether the node can do its work: every condition, held or not.
    pub fn readiness(&self) -> Vec<Check> {
        todo!()
    }
    /// Tells whether the node has been ready once.
    pub fn started(&self) -> bool {
        todo!()
    }
}

const _: fn(Arc<Service>) = |_| {};
