//! The share codec converts the share of a node in the activity of a callback to and from the value of its row in the index.

use bytes::Bytes;
use prost::Message;

use super::{Malformed, v1};
use crate::model::{
    callback_share::{CallbackShare, SeenWorker},
    time::Millis,
};

/// Encodes a share, as it is at `at`.
#[must_use]
pub fn encode_callback_share(share: &CallbackShare, at: Millis) -> Bytes {
    let CallbackShare {
        workers,
        ready,
        oldest,
        running,
        retrying,
        late,
        latest_ms,
    } = share;
    let worker = |worker: &SeenWorker| v1::SeenWorker {
        name: worker.name.clone(),
        version: worker.version.clone(),
        last_ms: worker.last.0,
    };
    let message = v1::CallbackShare {
        at_ms: at.0,
        workers: workers.iter().map(worker).collect(),
        ready: *ready,
        oldest_due_ms: oldest.map(|at| at.0),
        running: *running,
        retrying: *retrying,
        late: late.clone(),
        latest_ms: *latest_ms,
    };
    message.encode_to_vec().into()
}

/// Decodes a share, and when it was so.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_callback_share(bytes: Bytes) -> Result<(Millis, CallbackShare), Malformed> {
    let v1::CallbackShare {
        at_ms,
        workers,
        ready,
        oldest_due_ms,
        running,
        retrying,
        late,
        latest_ms,
    } = v1::CallbackShare::decode(bytes)?;
    let worker = |worker: v1::SeenWorker| SeenWorker {
        name: worker.name,
        version: worker.version,
        last: Millis(worker.last_ms),
    };
    let share = CallbackShare {
        workers: workers.into_iter().map(worker).collect(),
        ready,
        oldest: oldest_due_ms.map(Millis),
        running,
        retrying,
        late,
        latest_ms,
    };
    Ok((Millis(at_ms), share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_as_it_was_written() {
        let share = CallbackShare {
            workers: vec![SeenWorker {
                name: "w".to_owned(),
                version: Some("1.0".to_owned()),
                last: Millis(3),
            }],
            ready: 1,
            oldest: Some(Millis(2)),
            running: 4,
            retrying: 5,
            late: vec![0, 6],
            latest_ms: 7,
        };
        for share in [share, CallbackShare::default()] {
            let written = encode_callback_share(&share, Millis(8));
            assert_eq!(decode_callback_share(written), Ok((Millis(8), share)));
        }
    }
}
