//! The table of settings defines every setting for flags, variables, files and help: name, default, and the
//! default's reason.

use std::{net::SocketAddr, time::Duration};

pub(super) use super::key::{Form, Key};
use super::{
    key::put,
    server_keys as servers,
    text::{
        addresses, duration, endpoint, hosts, log_filter, log_format, names, number, optional,
        prefix, queue, ratio, required, roles, store, switch,
    },
};
use crate::{
    limits::{CONTENT_BYTES_MAX, DURATION_MAX},
    model::{
        email::check_address,
        smtp::{Security, SmtpServer},
    },
};

/// Every setting, in the order of the printed file.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "roles",
        flag: "roles",
        form: Form::List,
        default: "all",
        value: "ROLE,..",
        about: "The work of this node: api, scanner, controller, executor, status, or all.",
        why: "One kind of node is the easiest to run; split roles when one of them needs machines of its own.",
        set: |s, text| put(&mut s.roles, roles(text)),
    },
    Key {
        name: "listen",
        flag: "listen",
        form: Form::Text,
        default: "127.0.0.1:7420",
        value: "ADDR",
        about: "Address and port that the node listens on.",
        why: "Only this machine; any other address needs an API key (`tickwheel api-key create`) or insecure.",
        set: |s, text| {
            let address = text.trim().parse::<SocketAddr>();
            put(
                &mut s.listen,
                address
                    .map_err(|_| format!("{text:?} is not ADDRESS:PORT, such as 127.0.0.1:7420")),
            )
        },
    },
    Key {
        name: "insecure",
        flag: "insecure",
        form: Form::Switch,
        default: "false",
        value: "BOOL",
        about: "Listen beyond this machine also while there is no API key, and ask nobody for one until there is.",
        why: "Whoever reaches the address could read, register and cancel all tasks.",
        set: |s, text| put(&mut s.insecure, switch(text)),
    },
    Key {
        name: "read_only",
        flag: "read-only",
        form: Form::Switch,
        default: "false",
        value: "BOOL",
        about: "Refuse every call of the API that changes something at this node.",
        why: "A node takes tasks; true is for a node that is only looked at.",
        set: |s, text| put(&mut s.read_only, switch(text)),
    },
    Key {
        name: "advertise",
        flag: "advertise",
        form: Form::Text,
        default: "",
        value: "HOST:PORT",
        about: "Where other nodes reach this one.",
        why: "Empty is the address it listens on; set it when that is 0.0.0.0 or behind a translation.",
        set: |s, text| {
            let host = hosts(text).map(|hosts| hosts.into_iter().next());
            put(&mut s.advertise, host)
        },
    },
    Key {
        name: "allowed_hosts",
        flag: "allowed-hosts",
        form: Form::List,
        default: "",
        value: "HOST,..",
        about: "Further names that the API answers to, HOST or HOST:PORT, such as those of a proxy or of a service in a cluster.",
        why: "None: localhost, the address it listens on and the advertised one are always known; any other name may be a web page's, bound to this address.",
        set: |s, text| put(&mut s.allowed_hosts, names(text)),
    },
    Key {
        name: "base_path",
        flag: "base-path",
        form: Form::Text,
        default: "",
        value: "PATH",
        about: "The path under which people find the dashboard, such as /timers, behind a proxy. The API is answered there, too.",
        why: "Empty is the root of its host.",
        set: |s, text| put(&mut s.base_path, prefix(text)),
    },
    Key {
        name: "proxies",
        flag: "proxies",
        form: Form::List,
        default: "",
        value: "ADDR,..",
        about: "Addresses of proxies whose X-Forwarded-Prefix and X-Forwarded-Proto are taken for links and cookies of the dashboard.",
        why: "None: any client can send these headers.",
        set: |s, text| put(&mut s.proxies, addresses(text)),
    },
    Key {
        name: "tls_cert",
        flag: "tls-cert",
        form: Form::Text,
        default: "",
        value: "FILE",
        about: "Certificate in PEM form that the node shows clients, with those between it and its authority; needs tls_key. A changed file is taken over within seconds, or at SIGHUP.",
        why: "Empty is HTTP without TLS: on one machine, or behind a proxy that encrypts.",
        set: |s, text| put(&mut s.tls_cert, Ok(optional(text).map(Into::into))),
    },
    Key {
        name: "tls_key",
        flag: "tls-key",
        form: Form::Text,
        default: "",
        value: "FILE",
        about: "Private key of that certificate in PEM form.",
        why: "It stays in a file that only the service can read.",
        set: |s, text| put(&mut s.tls_key, Ok(optional(text).map(Into::into))),
    },
    Key {
        name: "tls_client_ca",
        flag: "tls-client-ca",
        form: Form::Text,
        default: "",
        value: "FILE",
        about: "Authorities of clients in PEM form: every client then needs a certificate of one of them, also for /livez and /metrics.",
        why: "Empty asks no client for a certificate: API keys say who calls.",
        set: |s, text| put(&mut s.tls_client_ca, Ok(optional(text).map(Into::into))),
    },
    Key {
        name: "http_allow",
        flag: "http-allow",
        form: Form::List,
        default: "",
        value: "CIDR,..",
        about: "Addresses that `http` tasks may go to beside those of the public internet, such as 10.1.0.0/16.",
        why: "None: a URL comes from a client, who must not reach through the service what it cannot reach itself.",
        set: |s, text| {
            let ranges = text
                .split(',')
                .map(str::trim)
                .filter(|range| !range.is_empty());
            put(&mut s.http_allow, ranges.map(str::parse).collect())
        },
    },
    Key {
        name: "smtp_url",
        flag: "smtp-url",
        form: Form::Secret,
        default: "",
        value: "URL",
        about: "Server that e-mails of actions go out by: smtps://USER:PASSWORD@HOST:PORT, or smtp://HOST:PORT?tls=required for STARTTLS. TICKWHEEL_SMTP_URL_FILE names a file with it.",
        why: "Empty is none: tasks that ask for an e-mail are refused.",
        set: |s, text| put(&mut s.smtp_url, smtp(text)),
    },
    Key {
        name: "smtp_from",
        flag: "smtp-from",
        form: Form::Text,
        default: "",
        value: "ADDRESS",
        about: "Address that e-mails of actions come from, such as tickwheel@example.org.",
        why: "Empty goes with an empty smtp_url.",
        set: |s, text| put(&mut s.smtp_from, sender(text)),
    },
    Key {
        name: "smtp_ca",
        flag: "smtp-ca",
        form: Form::Text,
        default: "",
        value: "FILE",
        about: "Authorities in PEM form, one of which signed the certificate of the mail server; those of the machine are not believed then. The certificate must name the host of smtp_url.",
        why: "Empty is the authorities of the machine, which know the servers of the internet.",
        set: |s, text| put(&mut s.smtp_ca, Ok(optional(text).map(Into::into))),
    },
    Key {
        name: "node_name",
        flag: "node-name",
        form: Form::Text,
        default: "",
        value: "NAME",
        about: "Name of this node in logs, metrics and the cluster's list.",
        why: "Empty is the name of the host.",
        set: |s, text| put(&mut s.node_name, Ok(optional(text))),
    },
    Key {
        name: "store",
        flag: "store",
        form: Form::Text,
        default: "embedded",
        value: "KIND",
        about: "Where tasks are kept: embedded (in this process, in data_dir) or cassandra (Cassandra or Scylla).",
        why: "Runs without anything else; a cluster needs cassandra.",
        set: |s, text| put(&mut s.store, store(text)),
    },
    Key {
        name: "queue",
        flag: "queue",
        form: Form::Text,
        default: "auto",
        value: "KIND",
        about: "The queue of due tasks for workers: embedded (this process), kafka, or auto: kafka beside a shared store.",
        why: "Follows from the store: nodes that share one need a queue that they share.",
        set: |s, text| put(&mut s.queue, queue(text)),
    },
    Key {
        name: "data_dir",
        flag: "data-dir",
        form: Form::Text,
        default: "tickwheel-data",
        value: "DIR",
        about: "Directory of the embedded store.",
        why: "Beside where the service is started, so that it is found.",
        set: |s, text| put(&mut s.data_dir, required(text).map(Into::into)),
    },
    servers::CASSANDRA,
    servers::KEYSPACE,
    servers::CASSANDRA_USER,
    servers::CASSANDRA_PASSWORD_FILE,
    servers::CASSANDRA_PASSWORD,
    servers::CASSANDRA_CA,
    servers::CASSANDRA_CERT,
    servers::CASSANDRA_KEY,
    servers::CASSANDRA_DATACENTER,
    servers::CASSANDRA_RACK,
    servers::KAFKA,
    servers::KAFKA_TOPIC_PREFIX,
    servers::KAFKA_SECURITY_PROTOCOL,
    servers::KAFKA_SASL_MECHANISM,
    servers::KAFKA_USER,
    servers::KAFKA_PASSWORD_FILE,
    servers::KAFKA_PASSWORD,
    servers::KAFKA_CA,
    servers::KAFKA_CERT,
    servers::KAFKA_KEY,
    servers::KAFKA_SIGNING_KEY_FILE,
    servers::KAFKA_UNSIGNED,
    Key {
        name: "replication_factor",
        flag: "replication-factor",
        form: Form::Text,
        default: "auto",
        value: "COPIES",
        about: "Copies of every row and of every message that `init` asks for: auto or a number.",
        why: "auto is three, or as many as there are nodes: with three, one may fail.",
        set: |s, text| {
            let copies = match text.trim() {
                "auto" => Ok(None),
                copies => number(copies, 1, 15).map(Some),
            };
            put(&mut s.replication_factor, copies)
        },
    },
    Key {
        name: "wheels",
        flag: "wheels",
        form: Form::Text,
        default: "auto",
        value: "COUNT",
        about: "Wheels that a new store gets: auto or a power of two up to 4096. Fixed afterwards.",
        why: "auto is 16 in a store that nodes share, which keeps a few nodes busy at 16 small writes a tick, and 4 embedded.",
        set: |s, text| {
            let wheels = match text.trim() {
                "auto" => Ok(None),
                wheels => number(wheels, 1, 4096).map(Some),
            };
            put(&mut s.wheels, wheels)
        },
    },
    Key {
        name: "tick",
        flag: "tick",
        form: Form::Text,
        default: "1s",
        value: "DURATION",
        about: "Length of a tick in a new store: 100ms to 60s. Fixed afterwards.",
        why: "Precision does not come from the tick (tasks are read ahead and fired to the millisecond); a shorter one costs more writes.",
        set: |s, text| put(&mut s.tick, duration(text, Duration::from_secs(60))),
    },
    Key {
        name: "slots",
        flag: "slots",
        form: Form::Number,
        default: "100000000",
        value: "COUNT",
        about: "Slots of a wheel in a new store. Fixed afterwards.",
        why: "Three years of ticks before a slot is used again; it bounds no horizon.",
        set: |s, text| put(&mut s.slots, number(text, 2, 1_000_000_000_000)),
    },
    Key {
        name: "partitions",
        flag: "partitions",
        form: Form::Number,
        default: "8",
        value: "COUNT",
        about: "Partitions of a callback's topics: a power of two; never more than there are wheels.",
        why: "At most so many workers share a callback, and each partition costs a broker a little.",
        set: |s, text| put(&mut s.partitions, number(text, 1, 4096)),
    },
    Key {
        name: "poll_feeds_max",
        flag: "poll-feeds-max",
        form: Form::Text,
        default: "auto",
        value: "COUNT",
        about: "Callbacks that workers may poll at this node at once: auto or a number.",
        why: "auto is 1000 with Kafka, where each has a client with threads of its own, and 20000 with the embedded queue, where it bounds what invented names cost.",
        set: |s, text| {
            let feeds = match text.trim() {
                "auto" => Ok(None),
                feeds => number(feeds, 1, 1_000_000).map(Some),
            };
            put(&mut s.poll_feeds_max, feeds)
        },
    },
    Key {
        name: "content_bytes_max",
        flag: "content-bytes-max",
        form: Form::Number,
        default: "1032192",
        value: "BYTES",
        about: "Largest payload of a task, with its headers and labels.",
        why: "An accepted content must fit into a Kafka message, which has 1 MiB by default, with its envelope. It can be lowered \
              only: nodes, brokers and topics that exist already would each have to be raised with it.",
        set: |s, text| put(&mut s.content_bytes_max, number(text, 1, CONTENT_BYTES_MAX)),
    },
    Key {
        name: "time_zones",
        flag: "time-zones",
        form: Form::Text,
        default: "",
        value: "DIR",
        about: "Directory with compiled time zones, such as /usr/share/zoneinfo, instead of those of the program; the same on all nodes.",
        why: "Those of the program are the same on all nodes of one version. A directory has the rules that a government has changed since.",
        set: |s, text| {
            let directory = Some(text).filter(|text| !text.is_empty()).map(Into::into);
            put(&mut s.time_zones, Ok(directory))
        },
    },
    Key {
        name: "drain_delay",
        flag: "drain-delay",
        form: Form::Text,
        default: "0s",
        value: "DURATION",
        about: "How long the node goes on working after SIGTERM while /readyz answers 503, before it stops.",
        why: "A load balancer needs a few seconds to notice; without one nobody asks /readyz, and waiting is of no use.",
        set: |s, text| put(&mut s.drain_delay, duration(text, DURATION_MAX)),
    },
    Key {
        name: "drain_timeout",
        flag: "drain-timeout",
        form: Form::Text,
        default: "20s",
        value: "DURATION",
        about: "How long the node may take to stop: finish requests, hand over its wheels.",
        why: "Below the 30 s that Kubernetes grants before it kills.",
        set: |s, text| put(&mut s.drain_timeout, duration(text, DURATION_MAX)),
    },
    Key {
        name: "log",
        flag: "log",
        form: Form::Text,
        default: "info,scylla=warn,fjall=warn,lsm_tree=warn",
        value: "FILTER",
        about: "Which log lines are written: a level, or levels by module (info,tickwheel=debug).",
        why: "Changes of state and what went wrong; never a line per task. The chatter of driver and database is left out.",
        set: |s, text| put(&mut s.log, log_filter(text)),
    },
    Key {
        name: "log_format",
        flag: "log-format",
        form: Form::Text,
        default: "text",
        value: "FORMAT",
        about: "How log lines are written: text or json.",
        why: "People read first; collectors want json.",
        set: |s, text| put(&mut s.log_format, log_format(text)),
    },
    Key {
        name: "otlp_endpoint",
        flag: "otlp-endpoint",
        form: Form::Text,
        default: "",
        value: "URL",
        about: "Collector of OpenTelemetry that gets a span for each request and attempt, such as http://127.0.0.1:4318.",
        why: "Empty is none, which costs nothing.",
        set: |s, text| put(&mut s.otlp_endpoint, endpoint(text)),
    },
    Key {
        name: "trace_ratio",
        flag: "trace-ratio",
        form: Form::Text,
        default: "1",
        value: "RATIO",
        about: "Part of the traces that begin at this node that is kept, from 0 to 1; a client decides on those that begin there.",
        why: "All of them, until somebody has more than a collector takes.",
        set: |s, text| put(&mut s.trace_ppm, ratio(text)),
    },
];

fn smtp(text: &str) -> Result<Option<SmtpServer>, String> {
    let Some(text) = optional(text) else {
        return Ok(None);
    };
    let server = SmtpServer::read(&text)?;
    if server.security != Security::None && cfg!(not(feature = "tls")) {
        let reason =
            "needs TLS, which this program was built without: build it with the feature `tls`";
        return Err(reason.to_owned());
    }
    Ok(Some(server))
}

fn sender(text: &str) -> Result<Option<String>, String> {
    let address = optional(text);
    address.as_deref().map_or(Ok(()), check_address)?;
    Ok(address)
}
