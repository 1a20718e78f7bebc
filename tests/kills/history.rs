//! `History` keeps the exact acknowledgements of clients and workers for the checker, by the
//! clocks of this process.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tickwheel::{
    model::time::Millis,
    time_source::{Moment, TimeSource},
};

/// A task whose registration was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub(super) at: Moment,
    pub(super) start: Millis,
    /// A reschedule that was asked for, and when it was acknowledged as done.
    pub(super) moved: Option<(Millis, Option<Moment>)>,
    /// The answer to a cancel, and when it came.
    pub(super) cancel: Option<(String, Moment)>,
}

/// One run of a callback.
#[derive(Debug, Clone)]
pub(super) struct Execution {
    pub(super) attempt: u64,
    /// When it was to start, as the answer to the poll said.
    pub(super) start: Millis,
    pub(super) began_wall: Millis,
    pub(super) began: Moment,
    pub(super) ended: Option<Moment>,
    /// The outcome whose settle was acknowledged, and when.
    pub(super) settled: Option<(&'static str, Moment)>,
}

/// One life of the server: when it was ready, and when it was killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) started: Moment,
    pub(super) ready: Option<Moment>,
    pub(super) killed: Option<Moment>,
    /// The same by the wall clock, to compare with due times.
    pub(super) killed_wall: Option<Millis>,
}

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) registered: HashMap<String, Registered>,
    pub(super) executions: HashMap<String, Vec<Execution>>,
    pub(super) lives: Vec<Life>,
    /// Calls that were not answered: their outcome is not known.
    pub(super) unanswered: usize,
}

/// Everything that a client or worker needs; cheap to clone.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) url: String,
    pub(super) http: reqwest::Client,
    pub(super) time: TimeSource,
    history: Arc<Mutex<History>>,
}

impl Site {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            http: reqwest::Client::new(),
            time: TimeSource::real(),
            history: Arc::default(),
        }
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    /// Calls the server once. None when there was no whole answer, or one that says that the call
    /// cannot be done now.
    pub(super) async fn call(&self, path: &str, body: &Value) -> Option<Value> {
        let request = self
            .http
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .timeout(Duration::from_secs(20))
            .body(body.to_string());
        let answer = async {
            let answer = request.send().await?;
            let status = answer.status();
            Ok::<_, reqwest::Error>((status, answer.bytes().await?))
        };
        match answer.await {
            Ok((status, body)) if status.is_success() => {
                Some(serde_json::from_slice(&body).expect("an answer is JSON"))
            }
            Ok((status, body)) => {
                let text = String::from_utf8_lossy(&body);
                assert!(status.is_server_error(), "{path}: {status}: {text}");
                None
            }
            Err(_) => {
                self.history().unanswered += 1;
                None
            }
        }
    }
}

/// Reads an instant of an answer.
pub(super) fn instant(value: &Value) -> Millis {
    let text = value.as_str().expect("an instant is text");
    let read: jiff::Timestamp = text.parse().expect("an instant is RFC 3339");
    Millis(read.as_millisecond())
}
