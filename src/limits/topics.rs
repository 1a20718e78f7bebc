//! Bounds of what topics may cost each other: how long they are waited for, and what is remembered of them.

use std::time::Duration;

/// How long a batch bears with a topic: with a partition that is silent while it has open records, and with one that nobody
/// knows yet. Longer than a broker's short pause and than a topic takes to be created, short beside what others can bear whose
/// records are in the same batch.
pub const TOPIC_PATIENCE: Duration = Duration::from_millis(500);

/// Records of a sick partition that are open at once: enough to notice when it is well again, and each may go out twice.
pub const SICK_LANE_RECORDS_MAX: usize = 4;

/// How long a batch waits for a record that goes to a sick partition: what is well again answers sooner.
pub const SICK_PROBE_WAIT: Duration = Duration::from_millis(50);

/// How long records without a key go to one partition before it is the next one's turn: librdkafka's own default.
pub const KEYLESS_TOGETHER: Duration = Duration::from_millis(10);

/// How long after a partition was found sick a record that could go elsewhere is risked on it; twice as long each time, up to
/// 320 s. Such a record may come 10 s late.
pub const SICK_RISKED_EVERY: Duration = Duration::from_secs(10);

/// How long the queue may acknowledge nothing at all before it is taken for away: there is nothing then that a batch holds up.
pub const QUEUE_SILENT: Duration = Duration::from_secs(1);

/// Batches that wait for as long as a record may while the queue is away; the others come back sooner. Half of the places of
/// a wheel: the other half is for what comes to another topic.
pub const SILENT_BATCHES_MAX: usize = super::PUBLISHES_IN_FLIGHT_MAX / 2;

/// Records that were acknowledged after their batch was answered, and that are remembered until they are tried again.
pub const ABANDONED_MAX: usize = 10_000;

/// How long such a record is remembered: longer than the longest wait of one that was put further on.
pub const ABANDONED_KEPT: Duration = Duration::from_secs(400);

/// The same of a message of a task with a row: its looks try again as well, none sooner than this behind a message that went out.
pub const ABANDONED_TRACKED_KEPT: Duration = super::CLAIM_TIMEOUT_MIN;

/// How long a topic is taken for missing without asking again.
pub const TOPIC_MISSING: Duration = Duration::from_secs(1);

/// Topics of which a node remembers how many partitions they have, or that they do not exist.
pub const TOPICS_KNOWN_MAX: usize = 10_000;

/// Topics that wait to be asked for; beyond it a record is told at once that its topic is not known.
pub const TOPIC_QUESTIONS_MAX: usize = 10_000;

/// Topics that are asked for one by one, a millisecond each; more are looked for in the list of all.
pub const TOPICS_ASKED_SINGLY_MAX: usize = 32;

/// Topics of one request to create some.
pub const TOPICS_CREATED_MAX: usize = 100;

/// How long the records of our topics are kept by the broker. The row of a task that has ended lives
/// [`TERMINAL_TTL_MIN`](crate::model::state::TERMINAL_TTL_MIN) behind its last entry; a message that outlives the row finds no
/// trace of its task and would run it again. Hence two days less.
pub const TOPIC_RETENTION: Duration = Duration::from_secs(5 * 24 * 3600);

/// How much of [`TOPIC_RETENTION`] one file of a topic may cover: a broker keeps a record as long as the file that it lies in.
pub const TOPIC_SEGMENT: Duration = Duration::from_secs(12 * 3600);

/// Time after its last acknowledgement for which a partition's broker is taken to remember a producer. Kafka forgets a silent
/// one after a day (`producer.id.expiration.ms`); an operator may have set less.
pub const PRODUCER_REMEMBERED: Duration = Duration::from_secs(3600);

/// Most headers of a `kafka` target.
pub const HEADERS_MAX: usize = 64;
