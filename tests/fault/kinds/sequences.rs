//! Tasks with an ordering key: those of a key run one at a time, in the order of their starts.

use super::plain;
use crate::calls::Caller;

const KEYS: u64 = 4;

/// Registers one task of a sequence. Later registrations often start earlier.
pub(super) async fn one(calls: &Caller) {
    let key = format!("order-{}", calls.draw(KEYS));
    let piece = calls.piece("ordered", &key, calls.soon(8_000));
    let mut body = plain(&piece, calls.draw(200), u32::from(calls.draw(8) == 0));
    body["ordering_key"] = key.into();
    if calls.draw(2) == 0 {
        calls.register(&piece, &body).await;
    } else {
        // A registration without an answer is left so: its place in the sequence may stay empty.
        calls.try_register(&piece, None, &body).await;
    }
}
