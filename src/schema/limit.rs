//! The limit codec converts the pool of a callback's limits to and from the bytes of its record, for the nodes.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, v1};
use crate::model::{
    ids::NodeId,
    limit::{Pool, Share},
    time::Millis,
};

/// Encodes a pool.
#[must_use]
pub fn encode_pool(pool: &Pool) -> Bytes {
    let Pool {
        full_at_nanos,
        shares,
    } = pool;
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
    };
    message.encode_to_vec().into()
}

/// Decodes a pool.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_pool(bytes: Bytes) -> Result<Pool, Malformed> {
    let v1::LimitPool { full_at_ns, shares } = v1::LimitPool::decode(bytes)?;
    let share = |share: v1::LimitShare| -> Result<(NodeId, Share), Malformed> {
        let node = Uuid::from_slice(&share.node).map_err(|_| Malformed::OutOfRange("node"))?;
        let read = Share {
            held: share.held,
            wanted: share.wanted,
            until: Millis(share.until_ms),
            served: Millis(share.served_ms),
        };
        Ok((NodeId(node), read))
    };
    Ok(Pool {
        full_at_nanos: full_at_ns,
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
            shares: [(NodeId(Uuid::from_u128(7)), share)].into(),
        };
        for pool in [pool, Pool::default()] {
            assert_eq!(decode_pool(encode_pool(&pool)), Ok(pool));
        }
        let message = v1::LimitPool {
            full_at_ns: 0,
            shares: vec![v1::LimitShare::default()],
        };
        let read = decode_pool(message.encode_to_vec().into());
        assert_eq!(read, Err(Malformed::OutOfRange("node")));
        assert!(decode_pool(Bytes::from_static(b"\xff\xff")).is_err());
    }
}
