//! The prefetch bound limits how much the consumers of a node receive ahead of their work. All of them share
//! one bound.
//!
//! A share is fixed when a consumer is made, because librdkafka takes it as a setting. Each consumer takes a
//! sixteenth of what is left, and never less than one fetch. So the first few get what they want, and a
//! thousand stay within twice the bound.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::limits::{CONSUMER_BYTES_MAX, CONSUMER_BYTES_MIN, CONSUMERS_BYTES_MAX};

/// The part of the remaining bytes that a consumer takes.
const SHARE: usize = 16;

/// The bytes that are left.
#[derive(Debug, Clone)]
pub(super) struct Prefetch(Arc<AtomicUsize>);

/// The bytes that one consumer may fetch ahead. They are given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    bytes: usize,
    /// The part that was taken from the common bound.
    taken: usize,
    left: Prefetch,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(CONSUMERS_BYTES_MAX)))
    }
}

impl Prefetch {
    /// Takes a consumer's share.
    pub(super) fn share(&self) -> Share {
        let part = |left: usize| (left / SHARE).min(CONSUMER_BYTES_MAX);
        let take = |left: usize| Some(left - part(left));
        let relaxed = Ordering::Relaxed;
        let left = self.0.fetch_update(relaxed, relaxed, take);
        let taken = part(left.unwrap_or(0));
        Share {
            bytes: taken.max(CONSUMER_BYTES_MIN),
            taken,
            left: self.clone(),
        }
    }
}

impl Share {
    /// Returns the size of the share in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.left.0.fetch_add(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_consumers_stay_within_twice_the_bound() {
        let prefetch = Prefetch::default();
        let first = prefetch.share();
        assert_eq!(first.bytes(), CONSUMER_BYTES_MAX);
        let shares: Vec<Share> = (1..1000).map(|_| prefetch.share()).collect();
        assert!(shares.iter().all(|one| one.bytes() >= CONSUMER_BYTES_MIN));
        let sum: usize = shares.iter().map(Share::bytes).sum();
        assert!(sum <= 2 * CONSUMERS_BYTES_MAX, "{sum} bytes");
        drop((first, shares));
        assert_eq!(prefetch.share().bytes(), CONSUMER_BYTES_MAX);
    }
}
