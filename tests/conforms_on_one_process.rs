//! One process with its own store and queue keeps every promise of the API.

use crate::{
    conformance::{Service, every_promise_holds},
    server::Server,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it waits for limits, gates and lost workers, about a minute: make test-all"]
async fn one_process_keeps_every_promise() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &["--http-allow", "127.0.0.0/8"]).await;
    every_promise_holds(Service::new(vec![server.url.clone()], None)).await;
}
