//! The limit codec converts the pool of a callback's limits to and from the bytes of its record, for the nodes.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, v1};
use crate::model::{
    ids::NodeId,
    limit::{Pool, Share, Waiting},
    time::Millis,
};

/// Encodes a pool.
#[must_use]
pub fn encode_pool(pool: &Pool) -> Bytes {
    let Pool {
        full_at_nanos,
        drawn,
        waiting,
        shares,
    } = pool;
    let one = |(node, one): (&NodeId, &Waiting)| v1::LimitWaiting {
        node: Bytes::copy_from_slice(node.0.as_bytes()),
        served_ms: one.served.0,
        until_ms: one.until.0,
    };
    let share = |(node, share): (&NodeId, &Share)| {
        let Share {
            held,
            wanted,
            until,
            served,
        } = share;
        v1::LimitShare {
            node: Bytes::copy_from_slice(node.0.as_bytes()),
            held: *held,
            wanted: *wanted,
            until_ms: until.0,
            served_ms: served.0,
        }
    };
    let message = v1::LimitPool {
        full_at_ns: *full_at_nanos,
        shares: shares.iter().map(share).collect(),
        drawn_ms: drawn.0,
        waiting: waiting.iter().map(one).collect(),
    };
    message.encode_to_vec().into()
}

/// Decodes a pool.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_pool(bytes: Bytes) -> Result<Pool, Malformed> {
    let v1::LimitPool {
        full_at_ns,
        shares,
        drawn_ms,
        waiting,
    } = v1::LimitPool::decode(bytes)?;
    let node = |bytes: &[u8]| {
        let node = Uuid::from_slice(bytes).map_err(|_| Malformed::OutOfRange("node"))?;
        Ok::<_, Malformed>(NodeId(node))
    };
    let one = |one: v1::LimitWaiting| -> Result<(NodeId, Waiting), Malformed> {
        let read = Waiting {
            served: Millis(one.served_ms),
            until: Millis(one.until_ms),
        };
        Ok((node(&one.node)?, read))
    };
    let share = |share: v1::LimitShare| -> Result<(NodeId, Share), Malformed> {
        let read = Share {
            held: share.held,
            wanted: share.wanted,
            until: Millis(share.until_ms),
            served: Millis(share.served_ms),
        };
        Ok((node(&share.node)?, read))
    };
    Ok(Pool {
        full_at_nanos: full_at_ns,
        drawn: Millis(drawn_ms),
        waiting: waiting.into_iter().map(one).collect::<Result<_, _>>()?,
        shares: shares.into_iter().map(share).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_survives_its_bytes_and_damaged_ones_are_refused() {
        let share = Share {
            held: 3,
            wanted: 9,
            until: Millis(1_800_000_000_500),
            served: Millis(1_800_000_000_000),
        };
        let pool = Pool {
            full_at_nanos: 1_800_000_000_123_456_789,
            drawn: Millis(1_800_000_000_001),
            waiting: [(
                NodeId(Uuid::from_u128(8)),
                Waiting {
                    served: Millis(1_800_000_000_002),
                    until: Millis(1_800_000_000_003),
                },
            )]
            .into(),
            shares: [(NodeId(Uuid::from_u128(7)), share)].into(),
        };
        for pool in [pool, Pool::default()] {
            assert_eq!(decode_pool(encode_pool(&pool)), Ok(pool));
        }
        let message = v1::LimitPool {
            full_at_ns: 0,
            drawn_ms: 0,
            waiting: Vec::new(),
            shares: vec![v1::LimitShare::default()],
        };
        let read = decode_pool(message.encode_to_vec().into());
        assert_eq!(read, Err(Malformed::OutOfRange("node")));
        assert!(decode_pool(Bytes::from_static(b"\xff\xff")).is_err());
    }
}
