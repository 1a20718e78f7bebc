//! The listener speaks TLS: who is let in, what happens when files change, and what clients without TLS are told.

mod clients;
mod files;
pub(crate) mod identity;
mod plain;
mod program;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{Router, extract::Request};
use tempfile::TempDir;
use tickwheel::{
    client::Client,
    http::{
        serve_with,
        tls::{Files, Tls},
    },
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::identity::{Authority, Identity};

/// The files of a listener in a directory.
fn files(directory: &Path) -> Files {
    Files {
        certificate: directory.join("cert.pem"),
        key: directory.join("key.pem"),
        client_ca: None,
    }
}

/// Writes the files of an identity.
fn write(files: &Files, identity: &Identity) {
    fs::write(&files.certificate, &identity.certificate).unwrap();
    fs::write(&files.key, &identity.key).unwrap();
}

/// A listener with TLS, which answers every request with the version of HTTP.
struct Port {
    authority: Authority,
    files: Files,
    tls: Arc<Tls>,
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
    _directory: TempDir,
}

impl Port {
    async fn open() -> Self {
        Self::asking(None).await
    }

    /// A listener that asks clients for a certificate of this authority.
    async fn asking(clients: Option<&Authority>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let mut files = files(directory.path());
        write(&files, &authority.identity(&["localhost"]));
        files.client_ca = clients.map(|clients| {
            let path: PathBuf = directory.path().join("clients.pem");
            fs::write(&path, &clients.certificate).unwrap();
            path
        });
        let tls = Arc::new(Tls::load(files.clone()).await.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let version = |request: Request| async move { format!("{:?}", request.version()) };
        let router = Router::new().fallback(version);
        let serving = serve_with(listener, Some(Arc::clone(&tls)), router, shutdown.clone());
        Self {
            authority,
            files,
            tls,
            address,
            serving: tokio::spawn(serving),
            shutdown,
            _directory: directory,
        }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// Makes one request as a client that believes an authority; returns its mistake, or nothing.
    async fn call(&self, authority: &Authority, identity: Option<&Identity>) -> Option<String> {
        let mut client = Client::builder()
            .server(self.url())
            .ca(authority.certificate.as_str());
        if let Some(Identity { certificate, key }) = identity {
            client = client.identity(certificate.as_str(), key.as_str());
        }
        let answer = client.build().unwrap().ready().await;
        answer.err().map(|error| error.to_string())
    }

    async fn close(self) {
        self.shutdown.cancel();
        self.serving.await.unwrap();
    }
}
