//! The program serves over TLS, and its commands reach it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tickwheel::time_source::TimeSource;

use super::{files, identity::Authority, write};
use crate::server::{Server, program};

struct Site {
    authority: Authority,
    server: Server,
    directory: TempDir,
}

impl Site {
    async fn start(key_mode: u32, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let files = files(directory.path());
        write(&files, &authority.identity(&["localhost", "127.0.0.1"]));
        fs::set_permissions(&files.key, fs::Permissions::from_mode(key_mode)).unwrap();
        fs::write(directory.path().join("ca.pem"), &authority.certificate).unwrap();
        let (certificate, key) = (text(&files.certificate), text(&files.key));
        let flags = ["--tls-cert", &certificate, "--tls-key", &key];
        let flags = [&flags[..], more].concat();
        let mut server = Server::start(directory.path(), &flags).await;
        server.url = server.url.replace("http://127.0.0.1", "https://localhost");
        Self {
            authority,
            server,
            directory,
        }
    }

    fn ca(&self) -> String {
        text(&self.directory.path().join("ca.pem"))
    }

    /// Runs a command with the authority in its environment.
    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tickwheel"))
            .args(arguments)
            .env("TICKWHEEL_SERVER", &self.server.url)
            .env("TICKWHEEL_CA_FILE", self.ca())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    async fn logged(&self, text: &str) {
        let time = TimeSource::real();
        let until = time.moment().after(Duration::from_secs(30));
        while !self.server.log().contains(text) {
            assert!(time.moment() < until, "no {text:?}: {}", self.server.log());
            time.sleep(Duration::from_millis(50)).await;
        }
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn hang_up(server: &Server) {
    let id = server.id().to_string();
    let sent = Command::new("kill").args(["-HUP", &id]).status().unwrap();
    assert!(sent.success());
}

fn succeeded(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn commands_reach_a_service_with_tls() {
    let site = Site::start(0o644, &[]).await;
    let log = site.server.log();
    assert!(log.contains("ready on https://127.0.0.1:"), "{log}");
    assert!(
        log.contains("every user of this machine can read the private key"),
        "{log}"
    );
    let registered = ["task", "register", "--callback", "work", "--delay", "1h"];
    succeeded(&site.run(&registered));
    succeeded(&site.run(&["healthcheck"]));
    // The flag does the same as the variable.
    let (url, ca) = (site.server.url.clone(), site.ca());
    let with_flag = ["task", "list", "--server", &url, "--ca", &ca];
    assert!(succeeded(&program(&with_flag)).contains("work"));
    let without = program(&["task", "list", "--server", &url]);
    let error = String::from_utf8_lossy(&without.stderr).into_owned();
    assert_eq!(without.status.code(), Some(4), "{error}");
    assert!(error.contains("name it by --ca"), "{error}");
    // The service was asked by its plain address.
    let plain = site.server.url.replace("https://", "http://");
    let refused = program(&["task", "list", "--server", &plain]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("begin the address with https://"), "{error}");
    let missing = program(&["task", "list", "--ca", "/no/such.pem"]);
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2), "{error}");
    assert!(
        error.contains("the CA cannot be read from /no/such.pem"),
        "{error}"
    );
}

#[tokio::test]
async fn a_worker_runs_tasks_over_tls_with_a_client_certificate() {
    let clients = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| text(&directory.path().join(name));
    fs::write(path("clients.pem"), &clients.certificate).unwrap();
    let identity = clients.identity(&["worker"]);
    fs::write(path("worker.pem"), &identity.certificate).unwrap();
    fs::write(path("worker.key"), &identity.key).unwrap();
    let site = Site::start(0o600, &["--tls-client-ca", &path("clients.pem")]).await;
    assert!(!site.server.log().contains("every user of this machine"));
    let without = site.run(&["task", "list"]);
    let error = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(error.contains("--client-cert and --client-key"), "{error}");
    let (certificate, key) = (path("worker.pem"), path("worker.key"));
    let shown = ["--client-cert", &certificate, "--client-key", &key];
    let half = site.run(&["task", "list", "--client-cert", &certificate]);
    assert_eq!(half.status.code(), Some(2));
    let task = ["task", "register", "--callback", "work", "--delay", "0s"];
    let id = succeeded(&site.run(&[&task[..], &shown, &["--output", "json"]].concat()));
    let id: serde_json::Value = serde_json::from_str(&id).unwrap();
    let id = id["id"].as_str().unwrap().to_owned();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_tickwheel"))
        .args(["worker", "--callback", "work"])
        .args(shown)
        .args([
            "--server",
            &site.server.url,
            "--ca",
            &site.ca(),
            "--",
            "true",
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let time = TimeSource::real();
    let until = time.moment().after(Duration::from_secs(30));
    let get = [&["task", "get", &id][..], &shown, &["--output", "json"]].concat();
    loop {
        let task = succeeded(&site.run(&get));
        if task.contains("\"succeeded\"") {
            break;
        }
        assert!(time.moment() < until, "{task}");
        time.sleep(Duration::from_millis(100)).await;
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[tokio::test]
async fn certificates_are_renewed_without_a_restart() {
    let site = Site::start(0o600, &[]).await;
    let files = files(site.directory.path());
    // 2100-01-01.
    let metrics = metrics(&site).await;
    let line = "tickwheel_tls_certificate_expire_timestamp_seconds 4102444800\n";
    assert!(metrics.contains(line), "{metrics}");
    fs::write(&files.certificate, "broken").unwrap();
    site.logged("the certificate before stays in force").await;
    succeeded(&site.run(&["healthcheck"]));
    // A signal is heard at once; an unchanged file is told only then.
    hang_up(&site.server);
    site.logged("the files of TLS are unchanged").await;
    let log = site.server.log();
    assert_eq!(
        log.matches("the certificate before stays in force").count(),
        1,
        "{log}"
    );
    let next = site.authority.identity_until(&["localhost"], 2099);
    write(&files, &next);
    hang_up(&site.server);
    site.logged("changed files of TLS are in force").await;
    succeeded(&site.run(&["healthcheck"]));
    let metrics = self::metrics(&site).await;
    // 2099-01-01.
    assert!(
        metrics.contains("_expire_timestamp_seconds 4070908800\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("tickwheel_tls_reloads_total{outcome=\"refused\"} "),
        "{metrics}"
    );
}

#[tokio::test]
async fn an_empty_page_names_the_service_by_https() {
    let site = Site::start(0o600, &[]).await;
    let page = read(&site, "/").await;
    let shown = format!("curl -s {}/v1/tasks", site.server.url);
    assert!(page.contains(&shown), "{page}");
    assert!(!page.contains("http://"), "{page}");
}

async fn metrics(site: &Site) -> String {
    read(site, "/metrics").await
}

async fn read(site: &Site, path: &str) -> String {
    let authority = reqwest::Certificate::from_pem(site.authority.certificate.as_bytes());
    let client = reqwest::Client::builder()
        .tls_certs_only([authority.unwrap()])
        .build()
        .unwrap();
    let answer = client.get(format!("{}{path}", site.server.url));
    answer.send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn settings_of_tls_that_cannot_work_end_the_program_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let data = text(&directory.path().join("data"));
    let refused = |flags: &[&str], says: &str| {
        let flags = [
            &["serve", "--data-dir", &data, "--listen", "127.0.0.1:0"],
            flags,
        ]
        .concat();
        let output = program(&flags);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(says), "{error}");
    };
    refused(&["--tls-cert", "a"], "TLS needs both");
    refused(
        &["--tls-client-ca", "a"],
        "set tls_cert and tls_key as well",
    );
    let both = ["--tls-cert", "/no/cert.pem", "--tls-key", "/no/key.pem"];
    refused(&both, "the certificate /no/cert.pem cannot be read");
}
