//! The link logs the connections of a client for operators, one line for each change.
//!
//! librdkafka reports every failed attempt to connect; during an outage that is several a second. A reader of
//! the log needs two lines: when the connection went away and when it came back.

use std::sync::atomic::{AtomicBool, Ordering};

use rdkafka::{
    client::ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
};

/// The state of one client's connections.
#[derive(Debug)]
pub(super) struct Link {
    /// The name of the client, for the log.
    name: String,
    down: AtomicBool,
    spent: AtomicBool,
}

impl Link {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            down: AtomicBool::new(false),
            spent: AtomicBool::new(false),
        }
    }

    /// Notes that a broker answered.
    pub(super) fn answered(&self) {
        if self.down.load(Ordering::Relaxed) && self.down.swap(false, Ordering::Relaxed) {
            tracing::info!(client = self.name, "kafka answers again");
        }
    }

    /// Notes that no broker answered.
    pub(super) fn failed(&self, reason: &str) {
        if self.down.swap(true, Ordering::Relaxed) {
            tracing::debug!(client = self.name, reason, "kafka is still not answering");
        } else {
            tracing::warn!(client = self.name, reason, "kafka does not answer");
        }
    }

    /// Tells whether the client has to be replaced.
    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Marks the client as one that has to be replaced.
    pub(super) fn spend(&self, reason: &str) {
        if self.spent.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.down.load(Ordering::Relaxed) {
            tracing::debug!(client = self.name, reason, "kafka client is replaced");
        } else {
            tracing::warn!(client = self.name, reason, "kafka client is replaced");
        }
    }

    pub(super) fn note(&self, error: &KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AllBrokersDown) => self.failed(reason),
            Some(RDKafkaErrorCode::Fatal) => self.spend(reason),
            _ => {
                tracing::debug!(client = self.name, %error, reason, "kafka client reports an error")
            }
        }
    }

    pub(super) fn write_log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // Connections going and coming are told by `failed` and `answered`.
        tracing::debug!(client = self.name, ?level, facility, message, "librdkafka");
    }
}

impl ClientContext for Link {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.write_log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.note(&error, reason);
    }
}

impl rdkafka::consumer::ConsumerContext for Link {}
