//! The service sends e-mails to a mail server in another language, which does not take all of them.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::{
    app::executor::mail::{Smtp, SmtpOptions},
    client::{Action, ActionOutcome, ActionResponse, Email, EndState, Task, TaskId},
    model::smtp::SmtpServer,
    time_source::TimeSource,
};

use crate::{
    local::Local,
    tls::identity::{Authority, Identity},
};

const LIMIT: Duration = Duration::from_secs(60);
const PASSWORD: &str = "s3cr3t-w0rd";

/// A mail server, ended when it is dropped.
struct MailServer {
    child: Child,
    port: u16,
    taken: Arc<Mutex<Vec<Value>>>,
    /// Its certificate and key, and the authorities that services are told of.
    folder: TempDir,
}

impl MailServer {
    fn start() -> Self {
        Self::start_as("plain", None)
    }

    /// A server that changes to TLS (`starttls`), or begins with it (`tls`), and has this identity.
    fn start_as(mode: &str, identity: Option<&Identity>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        if let Some(Identity { certificate, key }) = identity {
            for (name, text) in [("server.pem", certificate), ("server.key", key)] {
                files.push(folder.path().join(name));
                std::fs::write(folder.path().join(name), text).unwrap();
            }
        }
        let mut child = Command::new("python3")
            .args(["-c", include_str!("server.py"), PASSWORD, mode])
            .args(&files)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().expect("pip install aiosmtpd").unwrap();
        let taken: Arc<Mutex<Vec<Value>>> = Arc::default();
        let noted = Arc::clone(&taken);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mail = serde_json::from_str(&line).unwrap();
                noted.lock().unwrap().push(mail);
            }
        });
        let port = port.parse().unwrap();
        Self {
            child,
            port,
            taken,
            folder,
        }
    }

    /// A service that sends its e-mails here, with a password.
    async fn service(&self, password: &str) -> Local {
        self.service_by("smtp", "", password, None).await
    }

    /// A service that sends its e-mails here by a URL of this scheme and query, and believes these authorities.
    async fn service_by(
        &self,
        scheme: &str,
        query: &str,
        password: &str,
        authority: Option<&Authority>,
    ) -> Local {
        let url = format!("{scheme}://ada:{password}@127.0.0.1:{}{query}", self.port);
        let ca = authority.map(|authority| {
            let path = self.folder.path().join("ca.pem");
            std::fs::write(&path, &authority.certificate).unwrap();
            path
        });
        let options = SmtpOptions {
            server: SmtpServer::read(&url).unwrap(),
            from: "tickwheel@example.org".to_owned(),
            ca,
        };
        let smtp = Smtp::new(&options, TimeSource::real()).unwrap();
        Local::executing_with(&[], Some(Arc::new(smtp))).await
    }

    fn taken(&self) -> Vec<Value> {
        self.taken.lock().unwrap().clone()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().ok();
    }
}

/// Cancels a task that has an e-mail for that.
async fn cancelled(local: &Local, email: Email, payload: &str) -> TaskId {
    let task = Task::callback("work")
        .delay(Duration::from_secs(3600))
        .json(&payload)
        .unwrap()
        .action(Action::email(email).at([EndState::Cancelled]));
    let id = local.client.register(task).await.unwrap().id;
    local.client.cancel(id).await.unwrap();
    id
}

/// Waits until the action stands so.
async fn standing(local: &Local, id: TaskId, outcome: ActionOutcome) -> ActionResponse {
    let time = TimeSource::real();
    let until = time.moment().after(LIMIT);
    loop {
        let task = local.client.get(id).await.unwrap();
        let action = task.actions[0].clone();
        if action.outcome == Some(outcome) {
            return action;
        }
        assert!(time.moment() < until, "{action:?}");
        time.sleep(Duration::from_millis(100)).await;
    }
}

fn header<'a>(mail: &'a Value, name: &str) -> Vec<&'a str> {
    let headers = mail["headers"].as_array().unwrap().iter();
    let named = headers.filter(|header| header[0] == name);
    named.filter_map(|header| header[1].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd (pip install aiosmtpd): make test-all"]
async fn a_mail_server_gets_what_the_template_says_and_nothing_else() {
    let server = MailServer::start();
    let local = server.service(PASSWORD).await;
    let mut email = Email::new(
        "ada@example.org",
        "Grüße: {{task.payload}}",
        "{{task.state}}\n.\n{{task.payload}}\n",
    );
    email.to.push("bob@example.org".to_owned());
    let evil = "x\r\nBcc: eve@example.org\r\n\r\n.\r\nQUIT\r\n";
    let id = cancelled(&local, email, evil).await;
    standing(&local, id, ActionOutcome::Done).await;
    let taken = server.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    let mail = &taken[0];
    assert_eq!(mail["from"], "tickwheel@example.org");
    assert_eq!(mail["to"], json!(["ada@example.org", "bob@example.org"]));
    let subject = header(mail, "Subject");
    assert_eq!(subject.len(), 1, "{mail}");
    assert!(
        subject[0].starts_with("Grüße: x Bcc: eve@example.org"),
        "{mail}"
    );
    assert_eq!(header(mail, "Bcc"), [""; 0], "{mail}");
    assert_eq!(header(mail, "Auto-Submitted"), ["auto-generated"]);
    assert!(header(mail, "Message-ID")[0].ends_with("@tickwheel>"));
    let body = mail["body"].as_str().unwrap().replace("\r\n", "\n");
    let told = evil.replace("\r\n", "\n");
    assert_eq!(body.trim_end(), format!("cancelled\n.\n{told}").trim_end());
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd (pip install aiosmtpd): make test-all"]
async fn a_refusal_is_final_and_a_busy_mailbox_is_tried_again() {
    let server = MailServer::start();
    let local = server.service(PASSWORD).await;
    let to = |address: &str| Email::new(address, "s", "b");
    let nobody = cancelled(&local, to("nobody@example.org"), "").await;
    let busy = cancelled(&local, to("busy@example.org"), "").await;
    let given_up = standing(&local, nobody, ActionOutcome::GivenUp).await;
    let error = given_up.error.unwrap();
    assert!(error.contains("no such user"), "{error}");
    assert_eq!(given_up.attempt, 1);
    let done = standing(&local, busy, ActionOutcome::Done).await;
    assert_eq!((done.attempt, server.taken().len()), (3, 1));
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd (pip install aiosmtpd): make test-all"]
async fn a_wrong_password_is_tried_again_and_is_not_shown() {
    let server = MailServer::start();
    let local = server.service("wr0ng-w0rd").await;
    let id = cancelled(&local, Email::new("ada@example.org", "s", "b"), "").await;
    let retrying = standing(&local, id, ActionOutcome::Retrying).await;
    let error = retrying.error.unwrap();
    assert!(
        !error.contains("w0rd") && error.contains("127.0.0.1"),
        "{error}"
    );
    assert_eq!(server.taken().len(), 0);
    local.stop().await;
}

/// The two ways to TLS: how a server begins, and the scheme and the query of its URL.
const WAYS: [(&str, &str, &str); 2] = [("starttls", "smtp", "?tls=required"), ("tls", "smtps", "")];

fn to_ada() -> Email {
    Email::new("ada@example.org", "s", "b")
}

/// Waits until an e-mail was tried and not sent, and returns why.
async fn reason(local: &Local) -> String {
    let id = cancelled(local, to_ada(), "").await;
    let retrying = standing(local, id, ActionOutcome::Retrying).await;
    let reason = retrying.error.unwrap();
    assert!(
        reason.starts_with("127.0.0.1: ") && !reason.contains(PASSWORD),
        "{reason}"
    );
    reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd (pip install aiosmtpd): make test-all"]
async fn e_mails_go_out_over_tls_to_a_server_of_an_authority_that_is_named() {
    let authority = Authority::new();
    let identity = authority.identity(&["127.0.0.1"]);
    for (mode, scheme, query) in WAYS {
        let server = MailServer::start_as(mode, Some(&identity));
        let known = Some(&authority);
        let local = server.service_by(scheme, query, PASSWORD, known).await;
        let id = cancelled(&local, to_ada(), "").await;
        standing(&local, id, ActionOutcome::Done).await;
        let taken = server.taken();
        assert_eq!(taken.len(), 1, "{mode}: {taken:?}");
        assert_eq!(taken[0]["tls"], true, "{mode}");
        local.stop().await;
    }
}

/// The authorities of the machine do not know it either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd (pip install aiosmtpd): make test-all"]
async fn a_mail_server_of_an_unknown_authority_gets_nothing_and_the_task_says_why() {
    let (authority, other) = (Authority::new(), Authority::new());
    let identity = authority.identity(&["127.0.0.1"]);
    for (mode, scheme, query) in WAYS {
        let server = MailServer::start_as(mode, Some(&identity));
        for believed in [None, Some(&other)] {
            let local = server.service_by(scheme, query, PASSWORD, believed).await;
            let reason = reason(&local).await;
            assert!(
                reason.contains("UnknownIssuer") && reason.contains("--smtp-ca"),
                "{mode}: {reason}"
            );
            local.stop().await;
        }
        assert_eq!(server.taken(), Vec::<Value>::new(), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd (pip install aiosmtpd): make test-all"]
async fn a_mail_server_with_a_certificate_of_another_name_or_time_gets_nothing() {
    let authority = Authority::new();
    for (identity, says) in [
        (
            authority.identity(&["mail.example.org"]),
            "not valid for name",
        ),
        (authority.identity_until(&["127.0.0.1"], 2020), "expired"),
    ] {
        for (mode, scheme, query) in WAYS {
            let server = MailServer::start_as(mode, Some(&identity));
            let known = Some(&authority);
            let local = server.service_by(scheme, query, PASSWORD, known).await;
            let reason = reason(&local).await;
            assert!(reason.contains(says), "{mode}: {reason}");
            assert_eq!(server.taken(), Vec::<Value>::new(), "{mode}");
            local.stop().await;
        }
    }
}

/// Somebody between the service and the server may have taken the offer of TLS away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs aiosmtpd (pip install aiosmtpd): make test-all"]
async fn a_mail_server_that_does_not_offer_the_tls_that_is_required_gets_nothing() {
    let authority = Authority::new();
    let server = MailServer::start();
    for (_, scheme, query) in WAYS {
        let known = Some(&authority);
        let local = server.service_by(scheme, query, PASSWORD, known).await;
        let reason = reason(&local).await;
        let says = if scheme == "smtps" {
            "does not begin with TLS"
        } else {
            "STARTTLS is not supported"
        };
        assert!(reason.contains(says), "{reason}");
        local.stop().await;
    }
    assert_eq!(server.taken(), Vec::<Value>::new());
}
