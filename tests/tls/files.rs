//! Files change while the port is open: good ones are taken over, others change nothing.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tickwheel::{
    client::Client,
    http::tls::{Look, Tls},
};

use super::{Port, files, identity::Authority, write};

#[tokio::test]
async fn changed_files_are_shown_to_new_connections_and_open_ones_go_on() {
    let port = Port::open().await;
    let open = Client::builder()
        .server(port.url())
        .ca(port.authority.certificate.as_str());
    let open = open.build().unwrap();
    open.ready().await.unwrap();
    assert!(matches!(port.tls.look().await, Look::Unchanged));
    let next = Authority::new();
    write(&port.files, &next.identity(&["localhost"]));
    assert!(matches!(port.tls.look().await, Look::Taken));
    assert!(matches!(port.tls.look().await, Look::Unchanged));
    open.ready().await.expect("its connection is open");
    assert_eq!(port.call(&next, None).await, None);
    let before = port.call(&port.authority, None).await;
    assert!(
        before.is_some(),
        "a new connection shows the new certificate"
    );
    port.close().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_change_nothing_and_are_told_once() {
    let port = Port::open().await;
    let foreign = Authority::new().identity(&["localhost"]);
    let (certificate, key) = (&port.files.certificate, &port.files.key);
    let (good_certificate, good_key) = (fs::read(certificate).unwrap(), fs::read(key).unwrap());
    let too_large = vec![b'x'; 1024 * 1024 + 1];
    for (broken, bytes, says) in [
        (
            certificate,
            &b"not a certificate"[..],
            "has no certificate in PEM form",
        ),
        (
            certificate,
            foreign.certificate.as_bytes(),
            "cannot be used together",
        ),
        (certificate, &too_large, "more than 1048576 bytes"),
        (key, b"", "has no private key in PEM form"),
        (key, foreign.key.as_bytes(), "cannot be used together"),
    ] {
        fs::write(broken, bytes).unwrap();
        let Look::Refused(error) = port.tls.look().await else {
            panic!("{says}: taken")
        };
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.to_string().contains("BEGIN PRIVATE KEY-----\n"));
        assert!(matches!(port.tls.look().await, Look::Unchanged), "{says}");
        assert_eq!(port.call(&port.authority, None).await, None, "{says}");
        fs::write(certificate, &good_certificate).unwrap();
        fs::write(key, &good_key).unwrap();
        assert!(matches!(port.tls.look().await, Look::Taken), "{says}");
    }
    fs::remove_file(key).unwrap();
    let Look::Refused(error) = port.tls.look().await else {
        panic!("a key that is away is taken")
    };
    assert!(error.to_string().contains("cannot be read"), "{error}");
    assert!(matches!(port.tls.look().await, Look::Unchanged));
    assert_eq!(port.call(&port.authority, None).await, None);
    port.close().await;
}

#[tokio::test]
async fn a_port_does_not_open_without_files_that_can_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = files(directory.path());
    let away = Tls::load(files.clone()).await.unwrap_err().to_string();
    assert!(
        away.contains("the certificate") && away.contains("cannot be read"),
        "{away}"
    );
    let authority = Authority::new();
    write(&files, &authority.identity(&["localhost"]));
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
    Tls::load(files.clone()).await.unwrap();
    let clients = directory.path().join("clients.pem");
    fs::write(&clients, "").unwrap();
    files.client_ca = Some(clients);
    let empty = Tls::load(files).await.unwrap_err().to_string();
    assert!(
        empty.contains("clients.pem has no certificate of an authority"),
        "{empty}"
    );
}
