//! The short form encodes specs without their usual values, for a store that keeps many.
//!
//! A field that has its usual value is left out, and `left_out` names it. This saves some 45 bytes of a task
//! that asks for nothing special. The usual values are part of the data on disk and stay as they are here,
//! also when the API's defaults change: tasks with the new defaults then take those bytes again.

use super::{Malformed, v1};

/// Bits of `left_out`; never reused.
mod bit {
    pub(super) const PRIORITY: u32 = 1;
    pub(super) const MAX_ATTEMPTS: u32 = 1 << 1;
    pub(super) const RETRY: u32 = 1 << 2;
    pub(super) const CLAIM_TIMEOUT: u32 = 1 << 3;
    pub(super) const HEARTBEAT_TIMEOUT: u32 = 1 << 4;
    pub(super) const RETENTION: u32 = 1 << 5;
    pub(super) const CONTENT_TYPE: u32 = 1 << 6;
    pub(super) const ALL: u32 = (1 << 7) - 1;
}

// The rows on disk leave these values out: they never change. A new default of the API gets bits of its own.
const PRIORITY: i32 = v1::Priority::Normal as i32;
const MAX_ATTEMPTS: u32 = 5;
const RETRY: Option<v1::RetryPolicy> = Some(v1::RetryPolicy {
    initial_ms: 1000,
    factor_milli: 2000,
    max_ms: 600_000,
    jitter: v1::Jitter::Full as i32,
});
const CLAIM_TIMEOUT_MS: u64 = 60_000;
const HEARTBEAT_TIMEOUT_MS: u64 = 45_000;
const RETENTION_MS: u64 = 86_400_000;
const CONTENT_TYPE: &str = "application/json";

/// Leaves out what is usual.
pub(super) fn shorten(spec: &mut v1::TaskSpec) {
    let mut left_out = leave(&mut spec.priority, &PRIORITY, bit::PRIORITY);
    left_out |= leave(&mut spec.max_attempts, &MAX_ATTEMPTS, bit::MAX_ATTEMPTS);
    left_out |= leave(&mut spec.retry, &RETRY, bit::RETRY);
    let (claim, heartbeat) = (&mut spec.claim_timeout_ms, &mut spec.heartbeat_timeout_ms);
    left_out |= leave(claim, &CLAIM_TIMEOUT_MS, bit::CLAIM_TIMEOUT);
    left_out |= leave(heartbeat, &HEARTBEAT_TIMEOUT_MS, bit::HEARTBEAT_TIMEOUT);
    left_out |= leave(&mut spec.retention_ms, &RETENTION_MS, bit::RETENTION);
    if let Some(v1::task_spec::Body::Content(content)) = &mut spec.body
        && content.content_type == CONTENT_TYPE
    {
        content.content_type.clear();
        left_out |= bit::CONTENT_TYPE;
    }
    spec.left_out = left_out;
}

/// Puts back what was left out.
///
/// # Errors
/// Something was left out that this program does not know of.
pub(super) fn lengthen(spec: &mut v1::TaskSpec) -> Result<(), Malformed> {
    let left_out = std::mem::take(&mut spec.left_out);
    if left_out == 0 {
        return Ok(());
    }
    let is_out = |bit| left_out & bit != 0;
    if is_out(!bit::ALL) {
        return Err(Malformed::OutOfRange("left_out"));
    }
    put(&mut spec.priority, PRIORITY, is_out(bit::PRIORITY));
    put(
        &mut spec.max_attempts,
        MAX_ATTEMPTS,
        is_out(bit::MAX_ATTEMPTS),
    );
    put(&mut spec.retry, RETRY, is_out(bit::RETRY));
    let (claim, heartbeat) = (&mut spec.claim_timeout_ms, &mut spec.heartbeat_timeout_ms);
    put(claim, CLAIM_TIMEOUT_MS, is_out(bit::CLAIM_TIMEOUT));
    put(
        heartbeat,
        HEARTBEAT_TIMEOUT_MS,
        is_out(bit::HEARTBEAT_TIMEOUT),
    );
    put(&mut spec.retention_ms, RETENTION_MS, is_out(bit::RETENTION));
    if let (true, Some(v1::task_spec::Body::Content(content))) =
        (is_out(bit::CONTENT_TYPE), &mut spec.body)
    {
        CONTENT_TYPE.clone_into(&mut content.content_type);
    }
    Ok(())
}

/// Leaves a field out if it has its usual value, and returns its bit then.
fn leave<T: PartialEq + Default>(field: &mut T, usual: &T, bit: u32) -> u32 {
    if field != usual {
        return 0;
    }
    *field = T::default();
    bit
}

/// Puts a field back that was left out.
fn put<T>(field: &mut T, usual: T, is_out: bool) {
    if is_out {
        *field = usual;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        model::{
            backoff::Backoff,
            fixtures,
            task::{Body, Content, Priority, Spec},
        },
        schema::{decode_spec, encode_short, spec_to_message},
    };

    fn usual() -> Spec {
        Spec {
            priority: Priority::Normal,
            max_attempts: MAX_ATTEMPTS,
            backoff: Backoff::QUICK,
            claim_timeout: Duration::from_millis(CLAIM_TIMEOUT_MS),
            heartbeat_timeout: Duration::from_millis(HEARTBEAT_TIMEOUT_MS),
            retention: Duration::from_millis(RETENTION_MS),
            body: Body::Inline(Content {
                content_type: CONTENT_TYPE.to_owned(),
                ..Content::default()
            }),
            ..fixtures::spec()
        }
    }

    #[test]
    fn what_is_usual_is_left_out_and_put_back() {
        let mut message = spec_to_message(&usual());
        let whole = message.clone();
        shorten(&mut message);
        assert_eq!(message.left_out, bit::ALL);
        lengthen(&mut message).unwrap();
        assert_eq!(message, whole);
    }

    /// In words of their own, not in those of the constants: this is how rows that lie on disk are read.
    #[test]
    fn what_was_left_out_by_earlier_versions_reads_as_it_did() {
        let mut message = v1::TaskSpec {
            left_out: 127,
            body: Some(v1::task_spec::Body::Content(v1::Content::default())),
            ..v1::TaskSpec::default()
        };
        lengthen(&mut message).unwrap();
        let expected = v1::TaskSpec {
            priority: 2,
            max_attempts: 5,
            retry: Some(v1::RetryPolicy {
                initial_ms: 1000,
                factor_milli: 2000,
                max_ms: 600_000,
                jitter: 2,
            }),
            claim_timeout_ms: 60_000,
            heartbeat_timeout_ms: 45_000,
            retention_ms: 86_400_000,
            body: Some(v1::task_spec::Body::Content(v1::Content {
                content_type: "application/json".to_owned(),
                ..v1::Content::default()
            })),
            ..v1::TaskSpec::default()
        };
        assert_eq!(message, expected);
    }

    #[test]
    fn each_field_that_is_not_usual_stays() {
        let others: [fn(&mut Spec); 7] = [
            |spec| spec.priority = Priority::Low,
            |spec| spec.max_attempts = 6,
            |spec| spec.backoff.factor_milli = 2001,
            |spec| spec.claim_timeout *= 2,
            |spec| spec.heartbeat_timeout = Duration::ZERO,
            |spec| spec.retention = Duration::ZERO,
            |spec| spec.body = Body::Inline(Content::default()),
        ];
        for (number, change) in others.iter().enumerate() {
            let mut spec = usual();
            change(&mut spec);
            let mut message = spec_to_message(&spec);
            shorten(&mut message);
            assert_eq!(message.left_out, bit::ALL & !(1 << number));
            assert_eq!(decode_spec(encode_short(&spec)), Ok(spec));
        }
        let spec = Spec {
            body: Body::Apart { bytes: 70_000 },
            ..usual()
        };
        assert_eq!(decode_spec(encode_short(&spec)), Ok(spec));
    }

    #[test]
    fn what_a_later_version_leaves_out_is_refused() {
        let mut message = spec_to_message(&usual());
        message.left_out = bit::ALL + 1;
        assert_eq!(
            lengthen(&mut message),
            Err(Malformed::OutOfRange("left_out"))
        );
    }
}
