//! This module gives tests a real server without other servers: a node on the store in memory and the
//! embedded queue, with a real socket and the real clock. It shows what virtual time cannot: other processes,
//! broken connections, latency.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    app::executor::{Executor, mail::Mailer},
    client::Client,
    model::address::Allowed,
    testing::TestService,
    time_source::TimeSource,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Local {
    pub(crate) url: String,
    pub(crate) client: Client,
    service: TestService,
    executor: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Local {
    pub(crate) async fn start() -> Self {
        let service = TestService::start().await.unwrap();
        Self {
            url: service.url().to_owned(),
            client: service.client().clone(),
            executor: None,
            service,
        }
    }

    /// A server that runs the service's own tasks, and delivers also to these addresses.
    pub(crate) async fn executing(allowed: &[&str]) -> Self {
        Self::executing_with(allowed, None).await
    }

    /// A server that runs the service's own tasks, and sends e-mails.
    pub(crate) async fn executing_with(allowed: &[&str], mail: Option<Arc<dyn Mailer>>) -> Self {
        let local = Self::start().await;
        let ranges = allowed.iter().map(|range| range.parse().unwrap());
        let executor = Executor {
            service: local.service.service(),
            node: "local".to_owned(),
            time: TimeSource::real(),
            drain_limit: Duration::from_secs(1),
            allowed: Allowed::these(ranges.collect()),
            mail,
        };
        let stop = CancellationToken::new();
        let running = tokio::spawn(executor.run(stop.clone()));
        Self {
            executor: Some((stop, running)),
            ..local
        }
    }

    /// Stops as the program does on SIGTERM.
    pub(crate) async fn stop(self) {
        if let Some((stop, running)) = self.executor {
            stop.cancel();
            running.await.unwrap();
        }
        self.service.stop().await;
    }
}
