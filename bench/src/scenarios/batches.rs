//! The batches register tasks over REST for scenarios, so many a request.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tickwheel::{model::time::Millis, time_source::TimeSource};

use super::rest::Rest;
use crate::{
    generator::{self, Load, Outcome},
    observer::Registered,
    servers::Server,
    tasks::Kind,
};

/// The tasks to register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batches<'a> {
    pub(super) kind: Kind,
    pub(super) name: &'a str,
    /// Tasks of a request.
    pub(super) size: u64,
}

impl Batches<'_> {
    /// Sends the load's requests. `due` gives the due time of a task by its number. Fails when a request is
    /// refused.
    pub(super) async fn register(
        self,
        time: &TimeSource,
        server: &Server,
        load: Load,
        due: impl Fn(u64) -> Millis + Copy + Send + 'static,
    ) -> anyhow::Result<(Registered, Outcome)> {
        let rest = Arc::new(Rest::to(server, self.kind, self.name)?);
        let registered = Arc::new(Mutex::new(Registered::new()));
        let outcome = generator::send(time, load, |index| {
            let (rest, registered) = (Arc::clone(&rest), Arc::clone(&registered));
            let starts: Vec<Millis> = (0..self.size)
                .map(|place| due(index * self.size + place))
                .collect();
            async move {
                let ids = rest.register_batch(&starts).await?;
                let mut registered = registered.lock().unwrap_or_else(PoisonError::into_inner);
                registered.extend(ids.into_iter().zip(starts));
                Ok(())
            }
        })
        .await?;
        let registered = Arc::into_inner(registered).context("a registration is under way")?;
        let registered = registered
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Ok((registered, outcome))
    }
}
