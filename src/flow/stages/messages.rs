//! The calls of the service that read what workers told with their heartbeats.

use crate::{
    flow::{
        base::{api::Fault, rows::messages},
        stages::service::Service,
    },
    model::{ids::TaskId, messages::Message},
};

impl Service {
    /// Reads the messages of attempts of a task, in their order; none of an attempt that told nothing.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn messages(&self, id: TaskId, attempts: &[u32]) -> Result<Vec<Vec<Message>>, Fault> {
        if attempts.is_empty() {
            return Ok(Vec::new());
        }
        let attempts: Vec<(TaskId, u32)> = attempts.iter().map(|attempt| (id, *attempt)).collect();
        messages::read(&self.ctx, &attempts).await
    }
}
