//! The exporter sends spans to a collector for operators, by OTLP over HTTP.
//!
//! Spans are sent in batches by a thread of the library, of which at most 2,048 spans wait. When the collector is slow or away,
//! further ones are dropped: the service neither waits nor grows because of it.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::{KeyValue, global};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use tokio::runtime::Handle;

use super::traces;

/// How long one batch may take.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of the process waits for the last batch.
const LAST_TIMEOUT: Duration = Duration::from_secs(3);

/// The path of spans at a collector.
const PATH: &str = "v1/traces";

/// The traces of a process. Dropped, it sends nothing more.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no HTTP client.
    #[error("traces: {0}")]
    Client(#[from] reqwest::Error),
    /// The exporter cannot be made.
    #[error("traces: {0}")]
    Exporter(#[from] ExporterBuildError),
}

impl Traces {
    /// Begins to send spans to a collector, `ratio` of the traces that begin here. It must be called on the runtime.
    ///
    /// # Errors
    /// When the program has no HTTP client, or the endpoint is none.
    pub fn start(endpoint: &str, ratio: f64, node: &str) -> Result<Self, Error> {
        let builder = || {
            reqwest::Client::builder()
                .no_proxy()
                .timeout(EXPORT_TIMEOUT)
        };
        let client = Client {
            // A machine without certificates of authorities reaches collectors without TLS all the same.
            client: builder()
                .build()
                .or_else(|_| builder().tls_certs_only([]).build())?,
            runtime: Handle::current(),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/{PATH}", endpoint.trim_end_matches('/')))
            .with_timeout(EXPORT_TIMEOUT)
            .build()?;
        let resource = Resource::builder()
            .with_service_name("tickwheel")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("service.instance.id", node.to_owned()))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                ratio,
            ))))
            .with_resource(resource)
            .build();
        global::set_tracer_provider(provider.clone());
        traces::turn_on();
        Ok(Self(provider))
    }

    /// Sends what is left, for three seconds at most.
    pub async fn stop(self) {
        let stopping = move || self.0.shutdown_with_timeout(LAST_TIMEOUT);
        match tokio::task::spawn_blocking(stopping).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the last spans were not sent"),
            Err(error) => tracing::debug!(%error, "the last spans were not sent"),
        }
    }
}

/// The HTTP client of the process, for a thread without a runtime.
#[derive(Debug)]
struct Client {
    client: reqwest::Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sending = self.runtime.spawn(async move {
            let request = reqwest::Request::try_from(request)?;
            let response = client.execute(request).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = response.bytes().await?;
            Ok::<_, reqwest::Error>((status, headers, body))
        });
        let (status, headers, body) = sending.await??;
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
