//! `Receiver` is a small HTTP server for promises: it keeps what it was sent, and answers as it is told.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::Value;
use tokio::net::TcpListener;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// A server of its own on loopback.
pub(crate) struct Receiver {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Receiver {
    /// Starts a server that answers the first requests with these statuses, and 200 then.
    pub(crate) async fn start(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sent: Arc<Mutex<Vec<Sent>>> = Arc::default();
        let (kept, statuses) = (Arc::clone(&sent), statuses.to_vec());
        let answer = move |headers: HeaderMap, body: Bytes| async move {
            let mut kept = kept.lock().unwrap();
            let status = statuses.get(kept.len()).copied().unwrap_or(200);
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            kept.push(Sent { headers, body });
            let json = [("content-type", "application/json")];
            let status = StatusCode::from_u16(status).unwrap();
            (status, json, r#"{"received":true}"#)
        };
        let router = Router::new().route("/hook", post(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, sent }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }
}
