//! The commands meet hostile servers and texts: no line is forged, no origin that was not asked is believed, and no file of
//! others is read or written.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    http::{StatusCode, header},
    response::IntoResponse as _,
};
use serde_json::json;
use tokio::net::TcpListener;

use super::{Site, err, out, run};

async fn served(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_origin_gets_nothing_and_is_not_believed() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let other = served(Router::new().fallback(move || async move {
        counted.fetch_add(1, Ordering::SeqCst);
        Json(json!({"time": "2030-01-01T00:00:00Z", "wheels": 4}))
    }));
    let other = other.await;
    let to = other.clone();
    let asked = served(Router::new().fallback(move || async move {
        let location = format!("{to}/v1/tasks");
        (
            StatusCode::TEMPORARY_REDIRECT,
            [(header::LOCATION, location)],
        )
    }));
    let asked = asked.await;
    let words = [
        "task",
        "register",
        "--callback",
        "c",
        "--payload",
        "\"secret\"",
        "--request-header",
        "authorization: Bearer token",
    ];
    let answer = run(&asked, &words, "").await;
    assert_eq!(answer.status.code(), Some(1), "{}", out(&answer));
    let said = err(&answer);
    assert!(
        said.contains(&format!("it redirects to {other}, which was not asked")),
        "{said}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_others_stay_in_their_lines() {
    let site = Site::start().await;
    let reason = "gone\nNAME  GATE\u{1b}[2J\u{202e}\u{2028}";
    let words = ["callback", "set", "c", "--description", reason];
    assert_eq!(run(&site.url, &words, "").await.status.code(), Some(0));
    let listed = out(&run(&site.url, &["callback", "list"], "").await);
    assert!(
        listed.ends_with("gone\\nNAME  GATE\\u{1b}[2J\\u{202e}\\u{2028}\n"),
        "{listed}"
    );
    let words = ["callback", "pause", "c", "--reason", reason];
    let paused = out(&run(&site.url, &words, "").await);
    assert!(
        !paused.contains(['\u{1b}', '\u{202e}', '\u{2028}']),
        "{paused}"
    );
    let hostile = served(Router::new().fallback(async || {
        let problem = json!({"type": "about:blank", "title": "x", "status": 400, "code": "x", "retryable": false,
            "detail": "no\nerror: \u{1b}]0;owned\u{7}"});
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (StatusCode::BAD_REQUEST, kind, problem.to_string()).into_response()
    }));
    let said = err(&run(&hostile.await, &["job", "list"], "").await);
    assert_eq!(said, "error: refused: no\\nerror: \\u{1b}]0;owned\\u{7}\n");
    let words = ["task", "register", "--callback", "c", "--label", "a\nb=c"];
    let said = err(&run(&site.url, &words, "").await);
    assert!(said.contains("must have no control characters"), "{said}");
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_with_payloads_and_secrets_are_for_their_owner_alone() {
    let (site, folder) = (Site::start().await, tempfile::tempdir().unwrap());
    let (errors, copy) = (folder.path().join("errors"), folder.path().join("copy"));
    let (words, input) = (["task", "import", "-", "--errors"], "{\"callbak\": 1}\n");
    let path = errors.to_str().unwrap();
    run(&site.url, &[&words[..], &[path]].concat(), input).await;
    assert_eq!(mode(&errors), 0o600);
    fs::set_permissions(&errors, fs::Permissions::from_mode(0o644)).unwrap();
    let again = run(&site.url, &[&words[..], &[path]].concat(), input).await;
    assert!(
        err(&again).contains("others than you can read"),
        "{}",
        err(&again)
    );
    let (victim, part) = (
        folder.path().join("victim"),
        folder.path().join("copy.part"),
    );
    fs::write(&victim, "theirs").unwrap();
    std::os::unix::fs::symlink(&victim, &part).unwrap();
    let words = ["cluster", "export", copy.to_str().unwrap()];
    let exported = run(&site.url, &words, "").await;
    assert_eq!(exported.status.code(), Some(0), "{}", err(&exported));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "theirs");
    assert_eq!((mode(&copy), part.exists()), (0o600, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_is_for_its_owner_alone_and_a_wider_one_is_named() {
    let (site, folder) = (Site::start().await, tempfile::tempdir().unwrap());
    let directory = folder.path().join("data");
    let words = ["api-key", "create", "--role", "admin", "--data-dir"];
    let made = run(
        &site.url,
        &[&words[..], &[directory.to_str().unwrap()]].concat(),
        "",
    )
    .await;
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    let mut open = vec![directory.clone()];
    while let Some(directory) = open.pop() {
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
        for inside in fs::read_dir(&directory).unwrap() {
            let path = inside.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
            }
        }
    }
    let doctor = ["doctor", "--data-dir", directory.to_str().unwrap()];
    let told = "problem  rights: others than the owner can read";
    let said = out(&run(&site.url, &doctor, "").await);
    assert!(!said.contains(told), "{said}");
    for open in [&directory, &directory.join("store")] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let said = out(&run(&site.url, &doctor, "").await);
    assert!(said.contains(told), "{said}");
}
