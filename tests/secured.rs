//! The service and its workers reach a Cassandra and a Kafka that ask for passwords and certificates and speak TLS alone. A
//! sentence says why they do not. `tests/stack/stack run --secured` starts such servers.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use scylla::client::{session::Session, session_builder::SessionBuilder};
use serde_json::json;
use tempfile::TempDir;
use tickwheel::{
    client::{Client, Task, TaskState},
    time_source::TimeSource,
    worker::{Context, Job, KafkaSettings, Outcome, SaslMechanism, Source, Worker},
};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_util::sync::CancellationToken;

use crate::{cluster::variable, server::Server};

/// A password as people should not choose it, which no log has by chance.
const PASSWORD: &str = "0xca55 \"and\" ra";

const WAIT_MAX: Duration = Duration::from_secs(60);

/// The servers, a keyspace, and what a client of them needs.
struct Site {
    secured: PathBuf,
    kafka_password: String,
    keyspace: String,
    folder: TempDir,
    /// The settings that are right, by the names of their variables without TICKWHEEL_.
    settings: BTreeMap<&'static str, String>,
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

impl Site {
    /// Finds the servers, and makes a keyspace and a user that may do no more than the service needs.
    async fn init() -> Self {
        let stack = PathBuf::from(variable("TICKWHEEL_TEST_STACK_DIR"));
        let secured = stack.join("secured");
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            path(&folder.path().join(name))
        };
        let of_stack = |name: &str| path(&secured.join(name));
        let keyspace = format!("s{:016x}", TimeSource::real().random());
        let settings = BTreeMap::from([
            ("STORE", "cassandra".to_owned()),
            ("QUEUE", "kafka".to_owned()),
            ("KEYSPACE", keyspace.clone()),
            ("WHEELS", "4".to_owned()),
            ("REPLICATION_FACTOR", "1".to_owned()),
            ("CASSANDRA", variable("TICKWHEEL_TEST_CASSANDRA")),
            ("CASSANDRA_USER", "cassandra".to_owned()),
            ("CASSANDRA_PASSWORD_FILE", file("superuser", "cassandra\n")),
            ("CASSANDRA_CA", of_stack("ca.pem")),
            ("CASSANDRA_CERT", of_stack("client.pem")),
            ("CASSANDRA_KEY", of_stack("client.key")),
            ("CASSANDRA_DATACENTER", "datacenter1".to_owned()),
            ("CASSANDRA_RACK", "rack1".to_owned()),
            ("KAFKA", variable("TICKWHEEL_TEST_KAFKA")),
            ("KAFKA_USER", "tickwheel".to_owned()),
            ("KAFKA_PASSWORD_FILE", of_stack("password")),
            ("KAFKA_CA", of_stack("ca.pem")),
        ]);
        let kafka_password = fs::read_to_string(secured.join("password")).unwrap();
        let mut site = Self {
            kafka_password: kafka_password.trim().to_owned(),
            secured,
            keyspace,
            settings,
            folder,
        };
        // The first user of Cassandra comes a moment after the port is open.
        let init = site.run("init", &[]);
        assert!(init.status.success(), "{}", said(&init));
        assert!(said(&init).contains("kafka answers"), "{}", said(&init));
        site.make_user().await;
        let password = path(&site.folder.path().join("password"));
        fs::write(&password, format!("{PASSWORD}\n")).unwrap();
        let user = site.keyspace.clone();
        site.settings.insert("CASSANDRA_USER", user);
        site.settings.insert("CASSANDRA_PASSWORD_FILE", password);
        site
    }

    fn pem(&self, name: &str) -> String {
        fs::read_to_string(self.secured.join(name)).unwrap()
    }

    /// Gives the user of the service, by its first user, what docs/security.md says.
    async fn make_user(&self) {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.pem("ca.pem").as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let chain = CertificateDer::from_pem_slice(self.pem("client.pem").as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.pem("client.key").as_bytes()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![chain], key)
            .unwrap();
        let session: Session = SessionBuilder::new()
            .known_node(&self.settings["CASSANDRA"])
            .user("cassandra", "cassandra")
            .tls_context(Some(Arc::new(config)))
            .build()
            .await
            .unwrap();
        let (user, password) = (&self.keyspace, PASSWORD.replace('\'', "''"));
        for statement in [
            format!("CREATE ROLE {user} WITH PASSWORD = '{password}' AND LOGIN = true"),
            format!("GRANT SELECT ON KEYSPACE {user} TO {user}"),
            format!("GRANT MODIFY ON KEYSPACE {user} TO {user}"),
        ] {
            session.query_unpaged(statement, ()).await.unwrap();
        }
    }

    /// Runs a command with the right settings, but for these; an empty one is left out.
    fn run(&self, verb: &str, other: &[(&'static str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        command.args(verb.split(' ')).stdin(Stdio::null());
        let mut settings = self.settings.clone();
        settings.extend(
            other
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        for (name, value) in settings.iter().filter(|(_, value)| !value.is_empty()) {
            command.env(format!("TICKWHEEL_{name}"), value);
        }
        command.output().unwrap()
    }

    /// Checks that a command is refused in one sentence with these words, which gives no password away.
    fn refuses(&self, other: &[(&'static str, &str)], code: i32, words: &str) {
        let output = self.run("init", other);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{other:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(words), "{other:?}: {text}");
        self.hides_passwords(&text);
    }

    fn hides_passwords(&self, text: &str) {
        for secret in [PASSWORD, "0xca55", &self.kafka_password] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    /// The address of the listener for the mechanism PLAIN.
    fn plain(&self) -> String {
        let text = fs::read_to_string(self.secured.with_file_name("stack.env")).unwrap();
        let port = text
            .lines()
            .find_map(|line| line.strip_prefix("KAFKA_PLAIN_PORT="));
        format!("127.0.0.1:{}", port.unwrap())
    }

    /// A file with an authority that has signed nothing here.
    fn foreign(&self) -> String {
        let mut of_authority = CertificateParams::new(Vec::new()).unwrap();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = of_authority
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap();
        let file = self.folder.path().join("foreign.pem");
        fs::write(&file, certificate.pem()).unwrap();
        path(&file)
    }

    /// A file with a password that is not right.
    fn wrong(&self) -> String {
        let file = self.folder.path().join("wrong");
        fs::write(&file, "guessed").unwrap();
        path(&file)
    }
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs servers with passwords: make test-all"]
async fn a_task_reaches_its_worker_through_servers_with_passwords() {
    let site = Site::init().await;
    let flags: Vec<String> = site
        .settings
        .iter()
        .flat_map(|(name, value)| {
            let flag = name.to_lowercase().replace('_', "-");
            [format!("--{flag}"), value.clone()]
        })
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let node = Server::start(site.folder.path(), &flags).await;
    let kafka = KafkaSettings::new(&site.settings["KAFKA"])
        .ca(site.pem("ca.pem"))
        .login(
            SaslMechanism::ScramSha256,
            "tickwheel",
            site.kafka_password.clone(),
        );
    let stop = CancellationToken::new();
    let worker = Worker::builder()
        .callback("double", |job: Job<u64>, _: Context| async move {
            Outcome::done_with(&(job.payload * 2))
        })
        .source(Source::kafka(kafka))
        .server(node.url.as_str())
        .build()
        .unwrap();
    let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let client = Client::connect(&node.url).unwrap();
    for delay in [0, 3000] {
        let task = Task::callback("double")
            .delay(Duration::from_millis(delay))
            .json(&json!(21));
        let id = client.register(task.unwrap()).await.unwrap().id;
        let task = client.wait(id, WAIT_MAX).await.unwrap();
        let result = task.result.map(|json| json.to_string());
        let ended = (task.state, result.as_deref());
        assert_eq!(ended, (TaskState::Succeeded, Some("42")));
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    let log = node.log();
    assert!(!log.contains("refuses"), "{log}");
    site.hides_passwords(&log);
    let explained = site.run("config explain", &[]);
    assert!(said(&explained).contains("cassandra_password_file"));
    site.hides_passwords(&said(&explained));
    let by_variable = [
        ("CASSANDRA_PASSWORD_FILE", ""),
        ("CASSANDRA_PASSWORD", PASSWORD),
    ];
    let explained = site.run("config explain", &by_variable);
    assert!(said(&explained).contains("(set, not shown)"));
    site.hides_passwords(&said(&explained));
    let healthy = site.run("doctor", &by_variable);
    assert!(healthy.status.success(), "{}", said(&healthy));
    site.hides_passwords(&said(&healthy));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs servers with passwords: make test-all"]
async fn cassandra_says_in_one_sentence_why_it_refuses() {
    let site = Site::init().await;
    let (foreign, wrong) = (site.foreign(), site.wrong());
    let no_tls = [
        ("CASSANDRA_CA", ""),
        ("CASSANDRA_CERT", ""),
        ("CASSANDRA_KEY", ""),
    ];
    let no_certificate = [("CASSANDRA_CERT", ""), ("CASSANDRA_KEY", "")];
    let no_user = [("CASSANDRA_USER", ""), ("CASSANDRA_PASSWORD_FILE", "")];
    site.refuses(
        &[("CASSANDRA_PASSWORD_FILE", &wrong)],
        2,
        "refuses the user or the password",
    );
    site.refuses(&no_user, 2, "asks for a user and a password");
    site.refuses(&no_tls, 4, "if the server wants TLS, set cassandra_ca");
    site.refuses(
        &[("CASSANDRA_CA", &foreign)],
        2,
        "an authority that is not in cassandra_ca",
    );
    // The server says so only after the client has begun to talk.
    let output = site.run("init", &no_certificate);
    let text = said(&output);
    assert!(matches!(output.status.code(), Some(2 | 4)), "{text}");
    assert!(
        text.contains("cassandra_cert and cassandra_key") && text.lines().count() == 1,
        "{text}"
    );
    site.refuses(
        &[("CASSANDRA_DATACENTER", "moon")],
        2,
        "no server is in moon, there are datacenter1",
    );
    let guessed = [
        ("CASSANDRA_PASSWORD_FILE", &*wrong),
        ("LISTEN", "127.0.0.1:0"),
    ];
    let ended = site.run("serve", &guessed);
    assert_eq!(ended.status.code(), Some(2), "{}", said(&ended));
    assert!(said(&ended).contains("error: the store cannot be used"));
    site.hides_passwords(&said(&ended));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs servers with passwords: make test-all"]
async fn kafka_says_in_one_sentence_why_it_refuses() {
    let mut site = Site::init().await;
    // The first user of Cassandra may run `init`.
    let superuser = path(&site.folder.path().join("superuser"));
    site.settings
        .insert("CASSANDRA_USER", "cassandra".to_owned());
    site.settings.insert("CASSANDRA_PASSWORD_FILE", superuser);
    let (foreign, wrong, plain) = (site.foreign(), site.wrong(), site.plain());
    site.refuses(
        &[("KAFKA_PASSWORD_FILE", &wrong)],
        2,
        "check kafka_user and kafka_password_file",
    );
    site.refuses(
        &[("KAFKA_CA", &foreign)],
        2,
        "the authority of the brokers is not known here",
    );
    site.refuses(
        &[
            ("KAFKA_CA", ""),
            ("KAFKA_USER", ""),
            ("KAFKA_PASSWORD_FILE", ""),
        ],
        4,
        "if the brokers want TLS or a login, set kafka_ca",
    );
    site.refuses(
        &[("KAFKA_SASL_MECHANISM", "PLAIN")],
        2,
        "set kafka_sasl_mechanism to one that the brokers have",
    );
    let at_plain = [("KAFKA", &*plain), ("KAFKA_SASL_MECHANISM", "PLAIN")];
    site.refuses(&at_plain, 2, "set kafka_cert and kafka_key");
    let certificate = path(&site.secured.join("client.pem"));
    let key = path(&site.secured.join("client.key"));
    let shown = [("KAFKA_CERT", &*certificate), ("KAFKA_KEY", &*key)];
    let answered = site.run("init", &[at_plain, shown].concat());
    assert!(answered.status.success(), "{}", said(&answered));
}
