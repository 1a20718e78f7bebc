//! The kept record is a record of a partition as the log and its overflow hold it.

use bytes::Bytes;

use crate::{model::time::Millis, queue::Headers};

/// A record in the form in which it is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// When it was published.
    pub(super) at: Millis,
    pub(super) key: Option<Bytes>,
    pub(super) value: Bytes,
    pub(super) headers: Headers,
    /// About how much memory it takes.
    pub(super) bytes: usize,
}

impl Kept {
    pub(super) fn new(at: Millis, key: Option<Bytes>, value: Bytes, headers: Headers) -> Self {
        /// The memory of a record beside its contents: allocations, places in collections.
        const OVERHEAD: usize = 128;
        let lengths = headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 64);
        let bytes =
            OVERHEAD + key.as_ref().map_or(0, Bytes::len) + value.len() + lengths.sum::<usize>();
        Self {
            at,
            key,
            value,
            headers,
            bytes,
        }
    }
}
