//! The contradictions tell operators which settings cannot stand together, and what to do.

use super::{Invalid, Problem, QueueKind, Role, Settings, StoreKind, credentials};
use crate::model::smtp::{Security, SmtpServer};

/// The answer of a program that has one machine in it to settings that name Cassandra or Kafka.
pub const NEEDS_CLUSTER: &str = "Cassandra and Kafka need the feature `cluster`, which this program was built without: build it \
with `cargo build --features cluster`, or use a package, an archive or the image, which have it";

fn problem(origin: &str, reason: &str) -> Problem {
    Problem {
        origin: origin.to_owned(),
        reason: reason.to_owned(),
    }
}

impl Settings {
    /// Returns the settings that contradict each other.
    pub(super) fn contradictions(&self) -> Vec<Problem> {
        let mut problems = self.of_store_and_queue();
        problems.extend(self.of_listener());
        problems.extend(credentials::of_cassandra(
            &self.cassandra_credentials,
            self.cassandra_datacenter.as_deref(),
            self.cassandra_rack.as_deref(),
        ));
        problems.extend(credentials::of_kafka(
            &self.kafka_credentials,
            self.kafka_security_protocol,
            self.kafka_sasl_mechanism,
        ));
        if !self.partitions.is_power_of_two() {
            problems.push(problem("partitions", "must be a power of two"));
        }
        if let Err(Invalid(more)) = self.shape() {
            problems.extend(more);
        }
        problems
    }

    fn of_store_and_queue(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut needs = |origin, reason| problems.push(problem(origin, reason));
        let (on_cassandra, on_kafka) = (
            self.store == StoreKind::Cassandra,
            self.queue_kind() == QueueKind::Kafka,
        );
        let reaches_servers = cfg!(feature = "cluster");
        if !reaches_servers && (on_cassandra || on_kafka) {
            needs(if on_cassandra { "store" } else { "queue" }, NEEDS_CLUSTER);
        }
        if reaches_servers && on_cassandra && self.cassandra.is_empty() {
            needs(
                "cassandra",
                "store = \"cassandra\" needs its addresses, such as \"10.0.0.1:9042\"",
            );
        }
        if reaches_servers && on_kafka && self.kafka.is_empty() {
            needs(
                "kafka",
                "queue = \"kafka\" needs its addresses, such as \"10.0.0.2:9092\"",
            );
        }
        if self.smtp_url.is_some() != self.smtp_from.is_some() {
            needs(
                "smtp_from",
                "smtp_url and smtp_from need each other: give the server and the address that e-mails come from",
            );
        }
        let has_tls = |server: &SmtpServer| server.security != Security::None;
        if self.smtp_ca.is_some() && !self.smtp_url.as_ref().is_some_and(has_tls) {
            needs(
                "smtp_ca",
                "a mail server shows a certificate over TLS alone: let smtp_url be smtps://HOST, or smtp://HOST?tls=required",
            );
        }
        if on_cassandra && self.queue == QueueKind::Embedded {
            needs(
                "queue",
                "store = \"cassandra\" is shared by nodes, an embedded queue is not: use \"kafka\"",
            );
        }
        if self.store == StoreKind::Embedded && !self.roles.contains(&Role::Scanner) {
            needs(
                "roles",
                "store = \"embedded\" has no other node: without the role scanner nobody fires its tasks; add scanner, or use all",
            );
        }
        problems
    }

    fn of_listener(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            problems.push(problem(
                "tls_cert, tls_key",
                "TLS needs both: the certificate, and its private key",
            ));
        }
        if self.tls_client_ca.is_some() && self.tls_cert.is_none() {
            problems.push(problem(
                "tls_client_ca",
                "clients show certificates over TLS alone: set tls_cert and tls_key as well",
            ));
        }
        problems
    }
}
