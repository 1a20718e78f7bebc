//! Bounds of what the others do when a node has died.

use std::time::Duration;

/// How long a node remembers those that have gone, to find the tasks that they held in memory: as far as [`INHERITED_AHEAD`].
pub const GONE_KEPT: Duration = Duration::from_secs(600);

/// How far ahead the looks of tasks are searched for when a node has died: the looks of tasks with longer claim timeouts find
/// these tasks. An empty second costs a read of a wheel, 0.1 ms.
pub const INHERITED_AHEAD: Duration = Duration::from_secs(600);

/// The part of that in which the looks of nearly all tasks lie, whose claim timeouts are a minute. It is searched first.
pub const INHERITED_FIRST: Duration = Duration::from_secs(90);

/// Wheels that are searched for such tasks at once: a cluster that has lost a node has other reads to do as well.
pub const INHERITED_WHEELS_AT_ONCE: usize = 8;

/// How long a group waits for a member that is heard of no more: the least that a broker with its own settings allows.
pub const CONSUMER_SESSION: Duration = Duration::from_secs(6);

/// How long it may take to take the members of a dead node out of a group: about as long as a session, which ends by itself.
pub const TAKE_OUT_TIMEOUT: Duration = Duration::from_secs(6);

/// How long behind a death its members are looked for in groups: some may have joined anew, or be of a node that was paused.
pub const TAKE_OUT_FOR: Duration = Duration::from_secs(12);

/// Wait between two such looks: each asks the brokers for the members of every group that is not known to be rid of them. The
/// one whose turn it is has done it by then.
pub const TAKE_OUT_EVERY: Duration = Duration::from_secs(2);

/// Groups that are looked at at once: a client is made for each member that is taken out.
pub const TAKE_OUT_GROUPS_AT_ONCE: usize = 8;

/// How long a member may take to leave its group when its node stops. Otherwise its session ends by itself, or others take it
/// out.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long librdkafka needs to send the request to leave, once a member has given its partitions up: some milliseconds.
pub const LEAVE_SETTLES: Duration = Duration::from_millis(100);

/// Wait for one event of a client that leaves.
pub const LEAVE_STEP: Duration = Duration::from_millis(20);

/// How long a consumer may be without an answer to its request to join before a new client asks: longer than the session
/// of a member that died.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
