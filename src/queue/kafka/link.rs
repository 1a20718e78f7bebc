//! The link logs the connections of a client for operators, one line for each change.
//!
//! librdkafka reports every failed attempt to connect; during an outage that is several a second. A reader of
//! the log needs two lines: when the connection went away and when it came back. A refusal, of a password or of a
//! certificate, is told with what to do about it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rdkafka::{
    client::ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
};

use super::access::{advice, is_about_certificate};

/// The state of one client's connections.
#[derive(Debug)]
pub(super) struct Link {
    /// The name of the client, for the log.
    name: String,
    down: AtomicBool,
    spent: AtomicBool,
    refused: Mutex<Option<Refusal>>,
}

/// A connection that did not come about for a reason that people can mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reason, and what to do.
    pub(super) reason: String,
    /// It stays until a person changes something.
    pub(super) is_final: bool,
}

impl Link {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            down: AtomicBool::new(false),
            spent: AtomicBool::new(false),
            refused: Mutex::default(),
        }
    }

    /// Returns why no connection comes about, if people can mend it, since a broker answered last.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refused.lock().clone()
    }

    /// Notes a refusal. One that may pass does not hide one that stays.
    fn refuse(&self, found: Refusal) {
        let mut refused = self.refused.lock();
        if refused.as_ref().is_some_and(|before| before.is_final) {
            return;
        }
        if found.is_final {
            tracing::warn!(
                client = self.name,
                reason = found.reason,
                "kafka refuses this client"
            );
        }
        *refused = Some(found);
    }

    /// Forgets a refusal: a broker has answered.
    pub(super) fn forgive(&self) {
        *self.refused.lock() = None;
    }

    /// Notes that a broker answered.
    pub(super) fn answered(&self) {
        if self.down.load(Ordering::Relaxed) && self.down.swap(false, Ordering::Relaxed) {
            self.forgive();
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
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                let refusal = self.refusal();
                let known = refusal.as_ref().map(|refusal| &*refusal.reason);
                self.failed(known.unwrap_or(reason));
            }
            Some(RDKafkaErrorCode::Fatal) => self.spend(reason),
            code => {
                tracing::debug!(client = self.name, %error, reason, "kafka client reports an error");
                let is_final = matches!(
                    code,
                    Some(
                        RDKafkaErrorCode::Authentication
                            | RDKafkaErrorCode::SaslAuthenticationFailed
                            | RDKafkaErrorCode::SSL
                    )
                ) || is_about_certificate(reason);
                let advice = advice(reason);
                if is_final || !advice.is_empty() {
                    let reason = format!("{reason}{advice}");
                    self.refuse(Refusal { reason, is_final });
                }
            }
        }
    }

    pub(super) fn write_log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // Connections going and coming are told by `failed` and `answered`.
        tracing::debug!(client = self.name, ?level, facility, message, "librdkafka");
        // A broker that hangs up on a client of another protocol is told here alone.
        let advice = advice(message);
        if facility == "FAIL" && !advice.is_empty() {
            self.refuse(Refusal {
                reason: format!("{message}{advice}"),
                is_final: false,
            });
        }
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
