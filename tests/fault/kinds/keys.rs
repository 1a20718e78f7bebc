//! Registrations that come twice, and keys with a task of which one at most is live.

use super::{mark_of, plain};
use crate::calls::Caller;

const KEYS: u64 = 3;

/// Registers a task under a mark until an answer came, then often once more, and sometimes twice at once.
pub(super) async fn marked(calls: &Caller) {
    let piece = calls.piece("marked", "", calls.soon(4_000));
    let body = plain(&piece, calls.draw(30), u32::from(calls.draw(8) == 0));
    if calls.draw(2) == 0 {
        let mark = mark_of(piece.n);
        let try_it = || calls.try_register(&piece, Some(&mark), &body);
        tokio::join!(try_it(), try_it());
    }
    calls.register(&piece, &body).await;
    if calls.draw(2) == 0 {
        // Before the start, while it runs or behind its end.
        calls
            .time
            .sleep(std::time::Duration::from_millis(calls.draw(6_000)))
            .await;
        calls.register(&piece, &body).await;
    }
}

/// Registers a task under one of a few keys, with each answer to a conflict.
pub(super) async fn named(calls: &Caller) {
    let key = format!("name-{}", calls.draw(KEYS));
    let on_conflict =
        ["reject", "ignore", "replace"][usize::try_from(calls.draw(3)).expect("a few")];
    let kind = if on_conflict == "replace" {
        "replacing"
    } else {
        "named"
    };
    let piece = calls.piece(kind, &key, calls.soon(3_000));
    let mut body = plain(&piece, calls.draw(600), 0);
    body["key"] = key.into();
    body["on_conflict"] = on_conflict.into();
    calls.register(&piece, &body).await;
}
