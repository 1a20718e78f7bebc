//! Clients are let in by their authority, their certificate and their version of HTTP.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tickwheel::{client::Client, time_source::TimeSource};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    },
};

use super::{
    Port,
    identity::{Authority, Identity},
};
use crate::near_timer::keep_near;

/// The configuration of a client below HTTP.
fn config(authority: &Authority, identity: Option<&Identity>, protocols: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.certificate.as_bytes());
    roots.add(root.unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    config
}

async fn connect(port: &Port, config: &Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(port.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::clone(config))
        .connect(name, stream)
        .await
}

/// Makes a request over HTTP/1.1 and reads until the end.
async fn request(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_client_believes_its_authority_and_no_other() {
    let port = Port::open().await;
    assert_eq!(port.call(&port.authority, None).await, None);
    let other = port.call(&Authority::new(), None).await.unwrap();
    assert!(other.contains("UnknownIssuer"), "{other}");
    assert!(other.contains("name it by --ca"), "{other}");
    // Those of the machine do not know it either.
    let client = Client::connect(&port.url()).unwrap();
    let unknown = client.ready().await.unwrap_err().to_string();
    assert!(unknown.contains("name it by --ca"), "{unknown}");
    // The certificate is of another name.
    let url = format!("https://127.0.0.1:{}", port.address.port());
    let client = Client::builder()
        .server(url)
        .ca(port.authority.certificate.as_str());
    let misnamed = client.build().unwrap().ready().await.unwrap_err();
    assert!(
        misnamed.to_string().contains("not valid for name"),
        "{misnamed}"
    );
    port.close().await;
}

#[tokio::test]
async fn the_version_of_http_is_agreed_on_in_the_handshake() {
    let port = Port::open().await;
    for (offered, agreed) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let config = Arc::new(config(&port.authority, None, offered));
        let mut stream = connect(&port, &config).await.unwrap();
        let found = stream.get_ref().1.alpn_protocol();
        assert_eq!(found, agreed.map(str::as_bytes), "{offered:?}");
        if agreed == Some("h2") {
            let io = TokioIo::new(stream);
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                    .await
                    .unwrap();
            let connection = tokio::spawn(connection);
            let request = axum::http::Request::get("https://localhost/")
                .body(Body::empty())
                .unwrap();
            let answer = sender.send_request(request).await.unwrap();
            let body = to_bytes(Body::new(answer.into_body()), 100).await.unwrap();
            assert_eq!(body, "HTTP/2.0");
            drop(sender);
            connection.await.unwrap().unwrap();
        } else {
            let answer = request(&mut stream).await.unwrap();
            assert!(answer.ends_with("HTTP/1.1"), "{answer}");
        }
    }
    port.close().await;
}

#[tokio::test]
async fn a_port_with_authorities_of_clients_asks_each_for_a_certificate() {
    let clients = Authority::new();
    let port = Port::asking(Some(&clients)).await;
    let (own, foreign) = (
        clients.identity(&["shop"]),
        Authority::new().identity(&["shop"]),
    );
    assert_eq!(port.call(&port.authority, Some(&own)).await, None);
    let missing = port.call(&port.authority, None).await.unwrap();
    assert!(missing.contains("CertificateRequired"), "{missing}");
    assert!(
        missing.contains("--client-cert and --client-key"),
        "{missing}"
    );
    let other = port.call(&port.authority, Some(&foreign)).await;
    assert!(other.is_some(), "a certificate of another authority");
    port.close().await;
}

#[tokio::test]
async fn an_authority_that_was_taken_away_lets_nobody_in_by_an_old_session() {
    let (before, after) = (Authority::new(), Authority::new());
    let port = Port::asking(Some(&before)).await;
    let identity = before.identity(&["shop"]);
    let config = Arc::new(config(&port.authority, Some(&identity), &[]));
    // The second connection resumes the session of the first.
    for _ in 0..2 {
        let mut stream = connect(&port, &config).await.unwrap();
        let answer = request(&mut stream).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    std::fs::write(port.files.client_ca.as_ref().unwrap(), &after.certificate).unwrap();
    assert!(matches!(
        port.tls.look().await,
        tickwheel::http::tls::Look::Taken
    ));
    let refused = match connect(&port, &config).await {
        Ok(mut stream) => request(&mut stream).await,
        Err(error) => Err(error),
    };
    refused.expect_err("the session is not known any more");
    let identity = after.identity(&["shop"]);
    assert_eq!(port.call(&port.authority, Some(&identity)).await, None);
    port.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_go_on_is_given_up() {
    let port = Port::open().await;
    let time = TimeSource::real();
    keep_near(time.clone());
    for begun in [&[][..], &[0x16], &[0x16, 3, 1, 2, 0, 1, 0, 1]] {
        let began = time.moment();
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut rest = Vec::new();
        // A reset and a close both mean that the connection is gone.
        drop(stream.read_to_end(&mut rest).await);
        let took = time.moment().since(began);
        let limit = tickwheel::limits::TLS_HANDSHAKE_WAIT_MAX;
        assert!(took >= limit && took < limit * 2, "{begun:?}: {took:?}");
    }
    port.close().await;
}
