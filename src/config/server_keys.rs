//! The keys of servers define for the table of settings how Cassandra and Kafka are reached, and as whom.

use super::{
    key::{Form, Key, put},
    text::{hosts, keyspace, mechanism, optional, protocol, secret, unsigned},
};
use crate::model::topic_names::TopicNames;

pub(super) const CASSANDRA: Key = Key {
    name: "cassandra",
    flag: "cassandra",
    form: Form::List,
    default: "",
    value: "HOST:PORT,..",
    about: "Contact points of Cassandra or Scylla.",
    why: "None: there is no address to guess.",
    set: |s, text| put(&mut s.cassandra, hosts(text)),
};

pub(super) const KEYSPACE: Key = Key {
    name: "keyspace",
    flag: "keyspace",
    form: Form::Text,
    default: "tickwheel",
    value: "NAME",
    about: "Keyspace of the tables.",
    why: "One keyspace is one service; name another to run two on one cluster.",
    set: |s, text| put(&mut s.keyspace, keyspace(text)),
};

pub(super) const CASSANDRA_USER: Key = Key {
    name: "cassandra_user",
    flag: "cassandra-user",
    form: Form::Text,
    default: "",
    value: "NAME",
    about: "User that Cassandra or Scylla knows this node by; needs cassandra_password_file.",
    why: "Empty logs nobody in: servers with authenticator AllowAllAuthenticator.",
    set: |s, text| put(&mut s.cassandra_credentials.user, Ok(optional(text))),
};

pub(super) const CASSANDRA_PASSWORD_FILE: Key = Key {
    name: "cassandra_password_file",
    flag: "cassandra-password-file",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "File with the password of that user; a line break at its end does not count.",
    why: "A flag with the password would show it to every user of the machine.",
    set: |s, text| {
        put(
            &mut s.cassandra_credentials.password_file,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const CASSANDRA_PASSWORD: Key = Key {
    name: "cassandra_password",
    flag: "cassandra-password",
    form: Form::Password,
    default: "",
    value: "PASSWORD",
    about: "The password itself, for an environment or a file of settings that only the service can read.",
    why: "Empty goes with an empty cassandra_user, or with cassandra_password_file.",
    set: |s, text| put(&mut s.cassandra_credentials.password, Ok(secret(text))),
};

pub(super) const CASSANDRA_CA: Key = Key {
    name: "cassandra_ca",
    flag: "cassandra-ca",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "Authorities in PEM form that signed the certificates of the servers; with it all connections to Cassandra or Scylla are encrypted. A certificate must name the address of its server, or a host of cassandra.",
    why: "Empty is no TLS, as servers are by default. Servers of a public authority: name the file of the machine, such as /etc/ssl/certs/ca-certificates.crt.",
    set: |s, text| {
        put(
            &mut s.cassandra_credentials.ca,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const CASSANDRA_CERT: Key = Key {
    name: "cassandra_cert",
    flag: "cassandra-cert",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "Certificate in PEM form for servers that ask their clients for one; needs cassandra_key and cassandra_ca.",
    why: "Empty shows none: servers with require_client_auth false.",
    set: |s, text| {
        put(
            &mut s.cassandra_credentials.cert,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const CASSANDRA_KEY: Key = Key {
    name: "cassandra_key",
    flag: "cassandra-key",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "Private key of that certificate in PEM form, not encrypted.",
    why: "It stays in a file that only the service can read.",
    set: |s, text| {
        put(
            &mut s.cassandra_credentials.key,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const CASSANDRA_DATACENTER: Key = Key {
    name: "cassandra_datacenter",
    flag: "cassandra-datacenter",
    form: Form::Text,
    default: "",
    value: "NAME",
    about: "Datacenter of the store that this node is near to.",
    why: "Empty is no preference; it never changes who must agree: a quorum of all copies.",
    set: |s, text| put(&mut s.cassandra_datacenter, Ok(optional(text))),
};

pub(super) const CASSANDRA_RACK: Key = Key {
    name: "cassandra_rack",
    flag: "cassandra-rack",
    form: Form::Text,
    default: "",
    value: "NAME",
    about: "Rack of that datacenter whose servers are asked first; needs cassandra_datacenter.",
    why: "Empty is any rack. As for the datacenter, the copies that must agree are the same.",
    set: |s, text| put(&mut s.cassandra_rack, Ok(optional(text))),
};

pub(super) const KAFKA: Key = Key {
    name: "kafka",
    flag: "kafka",
    form: Form::List,
    default: "",
    value: "HOST:PORT,..",
    about: "Bootstrap servers of Kafka.",
    why: "None: there is no address to guess.",
    set: |s, text| put(&mut s.kafka, hosts(text)),
};

pub(super) const KAFKA_TOPIC_PREFIX: Key = Key {
    name: "kafka_topic_prefix",
    flag: "kafka-topic-prefix",
    form: Form::Text,
    default: "tickwheel",
    value: "NAME",
    about: "Begins the names of this service's topics and consumer groups: NAME.<callback>.<priority>.",
    why: "One prefix is one service; name another to run two on one Kafka. They would lose messages to each other otherwise.",
    set: |s, text| put(&mut s.kafka_names, TopicNames::new(text.trim())),
};

pub(super) const KAFKA_SECURITY_PROTOCOL: Key = Key {
    name: "kafka_security_protocol",
    flag: "kafka-security-protocol",
    form: Form::Text,
    default: "auto",
    value: "PROTOCOL",
    about: "How connections to the brokers begin: plaintext, ssl, sasl_plaintext, sasl_ssl, or auto: encrypted if kafka_ca or kafka_cert is set, with a login if kafka_user is.",
    why: "auto follows from the rest. Brokers of a public authority need ssl or sasl_ssl, and no kafka_ca.",
    set: |s, text| put(&mut s.kafka_security_protocol, protocol(text)),
};

pub(super) const KAFKA_SASL_MECHANISM: Key = Key {
    name: "kafka_sasl_mechanism",
    flag: "kafka-sasl-mechanism",
    form: Form::Text,
    default: "SCRAM-SHA-512",
    value: "NAME",
    about: "How the brokers learn the password: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
    why: "The strongest that every broker has: the password itself is never sent.",
    set: |s, text| put(&mut s.kafka_sasl_mechanism, mechanism(text)),
};

pub(super) const KAFKA_USER: Key = Key {
    name: "kafka_user",
    flag: "kafka-user",
    form: Form::Text,
    default: "",
    value: "NAME",
    about: "User that the brokers know this node by; needs kafka_password_file.",
    why: "Empty logs nobody in.",
    set: |s, text| put(&mut s.kafka_credentials.user, Ok(optional(text))),
};

pub(super) const KAFKA_PASSWORD_FILE: Key = Key {
    name: "kafka_password_file",
    flag: "kafka-password-file",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "File with the password of that user; a line break at its end does not count.",
    why: "A flag with the password would show it to every user of the machine.",
    set: |s, text| {
        put(
            &mut s.kafka_credentials.password_file,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const KAFKA_PASSWORD: Key = Key {
    name: "kafka_password",
    flag: "kafka-password",
    form: Form::Password,
    default: "",
    value: "PASSWORD",
    about: "The password itself, for an environment or a file of settings that only the service can read.",
    why: "Empty goes with an empty kafka_user, or with kafka_password_file.",
    set: |s, text| put(&mut s.kafka_credentials.password, Ok(secret(text))),
};

pub(super) const KAFKA_CA: Key = Key {
    name: "kafka_ca",
    flag: "kafka-ca",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "Authorities in PEM form that signed the certificates of the brokers.",
    why: "Empty is no TLS with kafka_security_protocol auto, and the authorities of the machine with ssl and sasl_ssl.",
    set: |s, text| {
        put(
            &mut s.kafka_credentials.ca,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const KAFKA_CERT: Key = Key {
    name: "kafka_cert",
    flag: "kafka-cert",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "Certificate in PEM form for brokers that ask their clients for one; needs kafka_key.",
    why: "Empty shows none.",
    set: |s, text| {
        put(
            &mut s.kafka_credentials.cert,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const KAFKA_KEY: Key = Key {
    name: "kafka_key",
    flag: "kafka-key",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "Private key of that certificate in PEM form, not encrypted.",
    why: "It stays in a file that only the service can read.",
    set: |s, text| {
        put(
            &mut s.kafka_credentials.key,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const KAFKA_SIGNING_KEY_FILE: Key = Key {
    name: "kafka_signing_key_file",
    flag: "kafka-signing-key-file",
    form: Form::Text,
    default: "",
    value: "FILE",
    about: "File with keys, one on a line, that sign every message to Kafka; the first one signs, all are believed.",
    why: "Empty signs nothing: who may write to the topics is believed.",
    set: |s, text| {
        put(
            &mut s.kafka_signing.key_file,
            Ok(optional(text).map(Into::into)),
        )
    },
};

pub(super) const KAFKA_UNSIGNED: Key = Key {
    name: "kafka_unsigned",
    flag: "kafka-unsigned",
    form: Form::Text,
    default: "refuse",
    value: "refuse|take",
    about: "The fate of messages to workers that no key has signed, when there are keys.",
    why: "refuse is why one has keys. take is for the time until every node signs.",
    set: |s, text| put(&mut s.kafka_signing.signing.unsigned, unsigned(text)),
};
