//! The time to live limits for the store how long rows live, in the terms of CQL.
//!
//! A row that lives too long costs bytes. One that vanishes too early costs a task its history, or lets it
//! run again. So a time to live is rounded up, and one that CQL cannot express becomes none.

use std::time::Duration;

use crate::model::time::Millis;

/// The value by which the statements mean "lives for ever".
pub(super) const NO_TTL: i32 = 0;

/// The longest TTL that CQL takes: twenty years.
const TTL_SECONDS_MAX: u64 = 20 * 365 * 24 * 3600;

/// The last instant that every supported version can store as the end of a TTL (2038-01-19T03:14:06Z). A
/// write that would expire later is refused by Cassandra before 5, and by 5 in its compatibility mode. From
/// then on nothing would expire. Raise it when only servers without that limit are supported.
const EXPIRY_MAX: Millis = Millis(2_147_483_646_000);

/// Returns a TTL in whole seconds, rounded up. A row that would outlive the last storable instant lives for
/// ever instead.
pub(super) fn ttl_seconds(ttl: Duration, now: Millis) -> i32 {
    let seconds = ttl
        .as_secs()
        .saturating_add(u64::from(ttl.subsec_nanos() > 0));
    if seconds > TTL_SECONDS_MAX || now.after(ttl) > EXPIRY_MAX {
        return NO_TTL;
    }
    i32::try_from(seconds.max(1)).unwrap_or(NO_TTL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HEARTBEAT_KEPT_MIN;

    #[test]
    fn ttls_are_rounded_up_and_too_long_ones_are_none() {
        let now = Millis(1_790_000_000_000);
        assert_eq!(ttl_seconds(Duration::from_millis(1), now), 1);
        assert_eq!(ttl_seconds(Duration::from_millis(1_001), now), 2);
        assert_eq!(ttl_seconds(Duration::ZERO, now), 1);
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        assert_eq!(ttl_seconds(days(365), now), 365 * 24 * 3600);
        assert_eq!(ttl_seconds(days(12 * 365), now), NO_TTL);
        assert_eq!(ttl_seconds(days(21 * 365), Millis(0)), NO_TTL);
        assert_eq!(ttl_seconds(Duration::MAX, now), NO_TTL);
    }

    #[test]
    fn a_sign_of_life_that_is_written_without_a_life_of_its_own_lives_as_long_as_the_others() {
        let tables = include_str!("../../../schemas/cassandra/tables.cql");
        let (_, heartbeat) = tables.split_once("{keyspace}.heartbeat (").unwrap();
        let (heartbeat, _) = heartbeat.split_once(';').unwrap();
        let (_, default) = heartbeat.split_once("default_time_to_live = ").unwrap();
        let seconds: u64 = default.split_whitespace().next().unwrap().parse().unwrap();
        assert_eq!(Duration::from_secs(seconds), HEARTBEAT_KEPT_MIN);
    }
}
