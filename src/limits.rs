//! The limits bound the resources of the service for all its parts, each with its reason. A refusal names its limit.

mod access;
mod chains;
mod command_line;
mod contents;
mod deaths;
mod embedded;
mod expiries;
mod families;
mod figures;
mod http;
mod internal;
mod joins;
mod lists;
mod records;
mod results;
mod schedules;
mod test_clock;
mod topics;

use std::time::Duration;

pub use self::{
    access::*, chains::*, command_line::*, contents::*, deaths::*, embedded::*, expiries::*,
    families::*, figures::*, http::*, internal::*, joins::*, lists::*, records::*, results::*,
    schedules::*, test_clock::*, topics::*,
};

/// Largest payload a task may ever carry, counted with headers, key and labels as encoded. Kafka's default for a message is 1
/// MiB with everything around it. An accepted content must be publishable, so there is room for the envelope below.
///
/// The bounds of records, messages and topics derive from this one number. No setting exceeds it: a topic has its bound from
/// when it was created, a broker its own, and a record that one node accepts must be publishable by every other node.
pub const CONTENT_BYTES_MAX: usize = 1024 * 1024 - ENVELOPE_BYTES_MAX;

/// The default of the setting, which may be lowered.
pub const CONTENT_BYTES_MAX_DEFAULT: usize = CONTENT_BYTES_MAX;

/// Bytes that the envelope, the CloudEvents headers and the record's own framing may add to a content.
pub const ENVELOPE_BYTES_MAX: usize = 16 * 1024;

/// A content up to this size travels in every entry of its task. A larger one is kept apart, so that a page of entries has a
/// bounded size: 1000 rows of 1 KiB are a megabyte.
pub const INLINE_BYTES_MAX: usize = 1024;

/// Most tasks in a batch registration, most items in a worker call: bounds the work that one request causes.
pub const BATCH_ITEMS_MAX: usize = 1000;

/// Longest callback, collection or topic name: a Kafka topic name has at most 249 characters, ours adds a prefix.
pub const NAME_CHARS_MAX: usize = 128;

/// Most labels of a task; labels are for search, not for data.
pub const LABELS_MAX: usize = 32;

/// Longest label name or value.
pub const LABEL_CHARS_MAX: usize = 256;

/// Longest error text that is kept of a failed attempt.
pub const ERROR_CHARS_MAX: usize = 4096;

/// Largest progress note of a heartbeat.
pub const PROGRESS_BYTES_MAX: usize = 4096;

/// Deepest nesting of a payload, result or progress note: parsers commonly stop at 128, and answers wrap it in a few
/// levels more. One task that a worker cannot read must not spoil the batch that it arrives in.
pub const JSON_DEPTH_MAX: usize = 100;

/// Longest name of a worker.
pub const WORKER_CHARS_MAX: usize = 256;

/// Longest version of a worker's program: a hash, or a name and a number.
pub const WORKER_VERSION_CHARS_MAX: usize = 64;

/// Longest media type of a payload.
pub const CONTENT_TYPE_CHARS_MAX: usize = 256;

/// Longest text of a request that an error message repeats.
pub const QUOTED_CHARS_MAX: usize = 200;

/// A slot that is closed sooner than this takes no more writes: a write and the check of the clock behind it take milliseconds,
/// and clocks of nodes differ by as much. Tasks due before that are near; they are held in memory for this much longer.
pub const CLOSING_MARGIN: Duration = Duration::from_millis(150);

/// A wheel that is behind by less is not late: its hand moves once a tick, and a take-over takes some seconds.
pub const BEHIND_MIN: Duration = Duration::from_secs(5);

/// A task that is registered while its wheel catches up, and due sooner than this, is held in memory beside its entry. A wheel
/// that missed hours has caught up by then.
pub const BEHIND_HELD_MAX: Duration = Duration::from_secs(600);

/// Files that are kept for uses other than connections: tables and journals of the store, overflow files, clients of servers.
pub const FILES_RESERVED: u64 = 1152;

/// Registrations under way at a node: at 40,000 a second the last waits a tenth of a second.
pub const REGISTRATIONS_IN_FLIGHT_MAX: usize = 4096;

/// Registrations that may be under way at any node, however slow. Fewer would not fill groups of the store: as many connections
/// reach the highest rate of single registrations. A client with so many is not refused.
pub const REGISTRATIONS_IN_FLIGHT_MIN: usize = 64;

/// Refusals of registrations that a node answers in a second: a fiftieth of a core.
pub const REFUSALS_PER_SECOND: u32 = 2000;

/// Longest wait for a refusal; a client is told to wait as long before it comes again.
pub const REFUSAL_WAIT_MAX: Duration = Duration::from_secs(1);

/// Tasks that are being registered at a node at most: at 150,000 a second the last waits a third of a second.
pub const REGISTERING_TASKS_MAX: usize = 50_000;

/// Tasks that may be under registration at a node however slow it is: ten full batches.
pub const REGISTERING_TASKS_MIN: usize = 10 * BATCH_ITEMS_MAX;

/// Bytes of all requests' bodies that a node holds at once.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long requests in flight may take when the node stops.
pub const HTTP_DRAIN_MAX: Duration = Duration::from_secs(10);

/// Wait before the next connection is accepted when the system has no room for one.
pub const HTTP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Most attempts a task may have.
pub const ATTEMPTS_MAX: u32 = 10_000;

/// Shortest claim timeout: looks come at this step, and each one is a read and a write.
pub const CLAIM_TIMEOUT_MIN: Duration = Duration::from_secs(5);

/// How long a sign of life is kept at least: the last one of a task that ended wrong can be read for a day.
pub const HEARTBEAT_KEPT_MIN: Duration = Duration::from_secs(24 * 3600);

/// How many heartbeat timeouts a sign of life is kept: a look reads it up to one timeout after it was written, and a look may
/// be late.
pub const HEARTBEAT_KEPT_TIMEOUTS: u32 = 2;

/// Shortest heartbeat timeout: must leave room for three heartbeats, a pause of a process and the skew of clocks.
pub const HEARTBEAT_TIMEOUT_MIN: Duration = Duration::from_secs(3);

/// Longest timeout, wait, snooze or retention that is accepted: ten years.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Most tasks that one poll gets.
pub const POLL_TASKS_MAX: usize = BATCH_ITEMS_MAX;

/// Most callbacks of one poll: a poll waits in the line of each.
pub const POLL_CALLBACKS_MAX: usize = 100;

/// Approximate bound of the answer to a poll; one task always fits.
pub const POLL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Messages of callbacks with limits that wait apart in a queue that they share with others. One callback has half of them; its
/// other tasks come with their looks, up to ten minutes apart.
pub const POLL_APART_TASKS_MAX: usize = 32_768;

/// Bytes of these messages.
pub const POLL_APART_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Messages that a queue with waiting ones receives even if no poll waits at the moment: those polls were served from the others.
pub const POLL_BESIDE_APART: usize = 32;

/// Polls that wait at a node: half of its connections are left to other requests.
pub const POLLS_WAITING_MAX: usize = HTTP_CONNECTIONS_MAX / 2;

/// Callbacks polled at a node with Kafka, unless set otherwise: each has a client with threads of its own.
pub const POLL_FEEDS_MAX_KAFKA: usize = 1000;

/// Callbacks polled at a node with the embedded queue, unless set otherwise: each takes some 10 KiB, so this bounds only the
/// cost of invented names.
pub const POLL_FEEDS_MAX_EMBEDDED: usize = 20_000;

/// How long a node consumes a callback that is not polled there any more: longer than the pause between two polls of a worker.
/// A worker that moves to another node delays the tasks of the partitions that it leaves behind by as much.
pub const POLL_IDLE: Duration = Duration::from_secs(10);

/// Wait before a message is claimed again, or received again, after a part of the service was away.
pub const POLL_PAUSE: Duration = Duration::from_millis(250);

/// How long a poll waits at least: it takes a moment to receive messages that are already in the queue.
pub const POLL_WAIT_MIN: Duration = Duration::from_millis(50);

/// How long a poll that one callback would fill waits for tasks of its other callbacks. Both are received at once, so this is
/// only more than it takes to hand over the tasks of one.
pub const POLL_GATHER: Duration = Duration::from_millis(2);

/// Longest `?wait=` of a read, longest wait of a poll.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Rows of a page of the reader: a round trip is amortised, memory stays small.
pub const PAGE_ROWS_MAX: usize = 1000;

/// Readers of missed ticks of a node at once, at first: so few that other work is hardly affected.
pub const MISSED_READS_FIRST: usize = 4;

/// Readers of missed ticks of a node that have a turn at once, at most: enough to keep servers over a network busy, and each
/// holds a page.
pub const MISSED_READS_MAX: usize = 64;

/// The part of a tick that a reader of a wheel waits for its turns to read a missed one: so little that it still
/// catches up, and as much as some dozens of wheels need to read one after the other.
pub const MISSED_READ_PATIENCE: u32 = 2;

/// Longest time over which the wheels of a node spread their work of a tick: a tick, but tasks found by looks must not wait
/// longer where ticks are long.
pub const PHASE_SPAN_MAX: Duration = Duration::from_secs(1);

/// Entries that one wheel holds in memory ahead of their due time; beyond it the reader waits.
pub const AHEAD_ENTRIES_MAX: usize = 20_000;

/// How long after its end a tick no longer skips callbacks that have used up their share of that memory: so late a tick is
/// worked off, and read once.
pub const DEFERRED_BEHIND_MAX: Duration = Duration::from_secs(10);

/// Bytes that one wheel holds in memory ahead of their due time, and in flight; beyond it the reader waits.
pub const AHEAD_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How far ahead of the slowest wheel rows of the embedded store expire. The row of a task that has ended lives for seven days
/// at least, so it stays until all looks within six days of its end are done.
pub const EXPIRED_AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long after its publication a message alone proves that its task exists. Rows of tasks that have ended live for seven days
/// at least ([`crate::model::state::TERMINAL_TTL_MIN`]): a day less leaves room for clocks that differ.
pub const MESSAGE_TRUSTED_MAX: Duration = Duration::from_secs(6 * 24 * 3600);

/// Tasks of a wheel whose contents are kept apart that its reader lists for the eraser; the ticks of others are read once more.
/// Some 3 MiB a wheel.
pub const NOTED_TASKS_MAX: usize = 50_000;

/// Near tasks that a node holds in memory; beyond it a near task is left to its look or backup entry.
pub const NEAR_TASKS_MAX: usize = 140_000;

/// Bytes of near tasks that a node holds in memory.
pub const NEAR_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// Entries that one step publishes or examines: a batch big enough to amortise, small enough to answer soon.
pub const STEP_ENTRIES_MAX: usize = 500;

/// Publishing batches of one wheel in flight at once: enough to fill the broker's pipeline.
pub const PUBLISHES_IN_FLIGHT_MAX: usize = 8;

/// The same where the queue gains nothing from more ([`Publisher::records_at_once`](crate::queue::Publisher::records_at_once)):
/// one is handed over while the other reads what it needs.
pub const PUBLISHES_IN_FLIGHT_FEW: usize = 2;

/// Batches of looks of one wheel that are examined at once. They have places of their own, because they read and write the
/// store, and due tasks must not wait for that.
pub const LOOKS_IN_FLIGHT_MAX: usize = 8;

/// Publishing batches of one wheel, or of a node's near tasks, whose contents are kept apart, in flight at once. They have places
/// of their own, so that contents that wait for memory or for the disk do not keep small tasks back.
pub const LARGE_PUBLISHES_IN_FLIGHT_MAX: usize = 4;

/// Bytes of contents kept apart that are read, and handed to the queue, as one batch; one content always fits. Large enough to
/// amortise a read, small enough that several batches are under way within the budget of the node.
pub const CONTENTS_STEP_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes of contents kept apart that a node holds in memory while answers are made of them, counted twice: some dozens of the
/// largest.
pub const CONTENTS_READ_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of contents kept apart that a node holds in memory between the store and the queue. Each content counts twice, as it
/// is read and as the record that is made of it: so 64 MiB, less a quarter for tasks that end, are up to six batches at once.
pub const CONTENTS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest record that a queue takes: the largest content with its envelope, and the framing of a batch around it.
pub const RECORD_BYTES_MAX: usize = CONTENT_BYTES_MAX + ENVELOPE_BYTES_MAX + 64 * 1024;

/// Longest time a record waits for its acknowledgement: beyond it the caller puts the task again, a little later.
pub const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for a question to the queue (a ping, an offset, a topic's partitions): the answer has a safe default.
pub const QUEUE_QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// How far apart the clocks of a publisher and a broker may be before a record is thought to be handled that is not.
pub const QUEUE_CLOCK_SKEW_MAX: Duration = Duration::from_secs(1);

/// Records that the Kafka producer buffers; beyond it publishers wait. At 5000 a second it fills in 20 s of outage.
pub const PRODUCER_RECORDS_MAX: usize = 100_000;

/// Bytes that the Kafka producer buffers.
pub const PRODUCER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How long records may stay open while the brokers answer before the producer is replaced. librdkafka can stay without
/// a leader for ever after a moment without one (librdkafka#5430); under mere load a new producer does no harm.
pub const PRODUCER_STALL: Duration = Duration::from_secs(4);

/// Shortest time between two commits of a consumer: a balance of the messages that a crash repeats and the broker's work for a
/// commit (0.1 to 0.2 ms).
pub const COMMIT_INTERVAL: Duration = Duration::from_millis(50);

/// How often a consumer tells in its log of messages without a signature: one that floods a topic is not to flood the log.
pub const UNSIGNED_SAID_EVERY: Duration = Duration::from_secs(10);

/// How often a consumer is compared with the ends of its partitions, for the same reason.
pub const CONSUMER_CHECK: Duration = Duration::from_secs(10);

/// Wait before a record that found the producer's buffer full is offered again.
pub const PRODUCER_FULL_PAUSE: Duration = Duration::from_millis(10);

/// Bytes that a Kafka consumer fetches ahead: some seconds of work for a pool, small beside its payloads.
pub const CONSUMER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that a Kafka consumer fetches ahead at least: with less than one fetch it would get nothing.
pub const CONSUMER_BYTES_MIN: usize = 256 * 1024;

/// Bytes that all Kafka consumers of a node fetch ahead, beside [`CONSUMER_BYTES_MIN`] for each. Each takes a sixteenth of the
/// rest, so that one of a few has much and the thousandth still has some.
pub const CONSUMERS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Records that a Kafka consumer holds in hand while its pool is full, before it pauses its partitions. A pause discards the
/// records that were fetched ahead, so it is worth it only now and then.
pub const IN_HAND_RECORDS_MAX: usize = 256;

/// How long a pool is full before its Kafka consumer pauses: records that are fetched after a pause come up to a second later,
/// so the moment of a claim is no reason for one. The other members of a group wait as long for a rebalance.
pub const FULL_BEFORE_PAUSE: Duration = Duration::from_secs(1);

/// Bytes that a Kafka consumer holds in hand while its pool is full.
pub const IN_HAND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Consumer groups for which a publisher keeps a client of their progress, each with a handful of threads. For other groups it
/// assumes that nothing waits, which costs copies that their claims refuse.
pub const PROGRESS_GROUPS_MAX: usize = 16;

/// How long such a client is kept for its group before another group may have its place.
pub const PROGRESS_GROUP_KEPT: Duration = Duration::from_secs(30);

/// After so many acknowledged entries a clock is swapped without waiting for the tick: bounds the duplicates of a takeover.
pub const ENTRIES_PER_SWAP_MAX: usize = 5000;

/// Rows of one conditional batch: larger ones time out under load.
pub const GROUP_ROWS_MAX: usize = 64;

/// Bytes of one conditional batch, for the same reason.
pub const GROUP_BYTES_MAX: usize = 48 * 1024;

/// Conditional writes that a node has in flight over all partitions: beyond it the store only queues.
pub const GROUPS_IN_FLIGHT_MAX: usize = 32;

/// How often a lost race of a task row is read and decided again before the caller is told to try later.
pub const RACES_MAX: usize = 5;

/// How often an entry is written further on because its slot was closed meanwhile; two is usual at a tick's edge.
pub const REPLACEMENTS_MAX: usize = 10;

/// How long a wheel to be given away waits for its work under way; a task is late by no more than this for it.
pub const HAND_OVER_WAIT_MAX: Duration = Duration::from_millis(500);

/// How long a wheel that was not idle after that wait is left as it is: at most one task in thirty is late in vain.
pub const HAND_OVER_AGAIN: Duration = Duration::from_secs(15);

/// How long a wheel stays for a flood that its reader passes over. Records of others that went out before the flood go out once
/// more at the next owner, so it waits for the end of most floods. A longer one has nodes added to it, and these must help.
pub const HAND_OVER_FLOOD_MAX: Duration = Duration::from_secs(60);

/// How often the wheel is checked meanwhile.
pub const HAND_OVER_STEP: Duration = Duration::from_millis(5);

/// Ticks by which an entry is written further on than it must be when slots keep closing on it; it begins with none and doubles
/// each time, as a store may be slower than ticks are. With the three ticks among which backups spread, it stays within the
/// range that is searched for a near task by its id.
pub const REPLACED_AHEAD_MAX: i64 = 8;

/// First wait of a record that is put further on because its topic is missing or silent; doubled each time.
pub const SPILL_WAIT_MIN: Duration = Duration::from_secs(5);

/// Longest wait of a record that was put further on, for the next try. It is tried for ever: its topic may be there again.
pub const SPILL_WAIT_MAX: Duration = Duration::from_secs(320);

/// Ticks erased by one step behind an outage: a read that fails has them all read again.
pub const ERASE_TICKS_MAX: i64 = 16;

/// How far behind the `erased` hand a tick is read once more, for entries written into it behind its reader: by a node that
/// died on the way, or by a replica that got late what it had missed (Cassandra keeps that for 3 h).
pub const SWEEP_DELAY: Duration = Duration::from_secs(4 * 3600);

/// How long fired entries are kept in their slot, so that the tasks can be read as `enqueued` or `published`.
pub const ERASE_DELAY: Duration = Duration::from_secs(600);

/// Claimed rows that a node remembers, to settle without reading first.
pub const CLAIMED_ROWS_MAX: usize = 100_000;

/// Running attempts whose leases a node watches: some 100 bytes each, 20 MB together. Those beyond are left to their looks.
pub const WATCHED_ATTEMPTS_MAX: usize = 200_000;

/// How long a watched attempt is not examined if no heartbeat of it comes to this node. Another node may have ended it, or a
/// clock was set; an examination is one read of many attempts together.
pub const WATCH_EXAMINED_EVERY: Duration = Duration::from_secs(60);

/// Bytes of claimed rows that a node remembers: with contents of 100 bytes as many as [`CLAIMED_ROWS_MAX`].
pub const CLAIMED_BYTES_MAX: usize = 112 * 1024 * 1024;

/// Approximate size of a claimed task in an answer, beside its content.
pub const CLAIMED_ROW_BYTES: usize = 512;

/// Topics that a node remembers to have created; beyond it a new callback's first task waits for its topic.
pub const TOPICS_SEEN_MAX: usize = 10_000;

/// End steps of one batch of cancels that are under way at once: each may hold a content, so this bounds its megabytes.
pub const END_STEPS_IN_FLIGHT_MAX: usize = 16;

/// Wait before a failed step of a stage is tried again.
pub const STEP_PAUSE: Duration = Duration::from_millis(200);

/// Rows of one unlogged batch of plain writes: the round trip is amortised, the server's warning
/// threshold for batches is about bytes.
pub const BATCH_ROWS_MAX: usize = 50;

/// Partitions of one unlogged batch of plain writes, all of the same servers: beyond ten Cassandra warns of it by default.
pub const BATCH_PARTITIONS_MAX: usize = 10;

/// Plain writes to the same servers that leave at once; writes that come while so many are under way go together, or alone when
/// they fill a request. With fewer, writers wait longer; with more, requests carry less.
pub const GATHERED_WRITES: usize = 4;

/// The same for reads of clocks: all readers read the same few rows.
pub const GATHERED_CLOCK_READS: usize = 2;

/// Longest time for which requests wait for an answer to others: no healthy server takes that long.
pub const GATHERED_WAIT_MAX: Duration = Duration::from_millis(50);

/// Bytes of one unlogged batch: below the 50 KiB at which Cassandra refuses one by default.
pub const BATCH_BYTES_MAX: usize = 32 * 1024;

/// Plain writes that a node has in flight to the store: enough to fill its pipeline, beyond it requests only queue.
pub const STORE_WRITES_IN_FLIGHT_MAX: usize = 256;

/// Reads of rows of tasks, heartbeats and contents that a node has in flight to the store, for claims, settles and looks.
pub const STORE_READS_IN_FLIGHT_MAX: usize = 128;

/// Reads of clocks and of slots for firing that a node has in flight to the store. They have places of their own: all due tasks
/// wait behind them, and a flood of requests must not stand in front.
pub const STORE_URGENT_READS_IN_FLIGHT_MAX: usize = 64;

/// Searches for entries by id that a node has in flight to the store: an id that does not exist costs some fifty.
pub const STORE_SEARCHES_IN_FLIGHT_MAX: usize = 64;

/// Tasks that a node reads by id at once, each by a few reads of its own, or some fifty when there is none. Others wait.
pub const FINDS_IN_FLIGHT_MAX: usize = 256;

/// Searches of a node, at once, for tasks that are not at their start: as many as the store serves.
pub const SEARCHES_IN_FLIGHT_MAX: usize = STORE_SEARCHES_IN_FLIGHT_MAX;

/// Requests that wait for a place among such reads: with more, those behind would be refused in the end.
pub const PLACES_WAITING_MAX: usize = 4096;

/// How long they wait for a place: it is better to tell a client to come back than to let it give up.
pub const PLACE_WAIT_MAX: Duration = Duration::from_secs(3);

/// How long a search waits for its place: a batch of cancels may bring a thousand, and the last waits for all others.
pub const SEARCH_WAIT_MAX: Duration = Duration::from_secs(10);

/// Reads of slots for lists and counts that a node has in flight to the store.
pub const STORE_LIST_READS_IN_FLIGHT_MAX: usize = 32;

/// Keys of one read of several rows of a partition: no more than Scylla takes by default.
pub const READ_KEYS_MAX: usize = 100;

/// Rows that a read of all nodes, or of all entries of a task at one instant, returns at most.
pub const LIST_ROWS_MAX: usize = 10_000;

/// Slots of one range read that are read at once: a list must not crowd out the reader.
pub const RANGE_READS_IN_FLIGHT_MAX: usize = 8;

/// How long one reading of the statistics (`/v1/stats`, the page at `/`) is shown to all clients: a page that reloads in
/// several windows costs no more than one.
pub const STATS_KEPT: Duration = Duration::from_secs(1);

/// Seconds of one wheel whose pending tasks are counted apart: some 40 bytes each, 2 MB a wheel. Beyond them tasks are counted
/// by the hour of their start.
pub const PENDING_SECONDS_MAX: usize = 50_000;

/// Rows that the count of the tasks left by the process before examines before other work gets a turn.
pub const CENSUS_ROWS_MAX: usize = 10_000;

/// Places of cancelled and moved tasks in closed slots that a node remembers: some 80 bytes each.
pub const LEFTOVERS_MAX: usize = 50_000;

/// Tasks that wait for a worker of which a node knows, some 60 bytes each: others are found by their looks once there is room.
pub const UNCLAIMED_MAX: usize = 200_000;

/// Names of callbacks that were polled lately which a node remembers: at most 128 characters each, 2 MB together.
pub const POLLED_NAMES_MAX: usize = 10_000;

/// How long a task waits for a worker before a log line says so, and how long its callback was not polled.
pub const UNCLAIMED_WARN: Duration = Duration::from_secs(60);

/// Entries of one wheel that a reading of the statistics counts; beyond it says "at least".
pub const STATS_ROWS_MAX: usize = 5000;

/// Slots of one wheel that a reading of the statistics reads one by one: a minute and a little at a tick of 1 s.
pub const STATS_SLOTS_MAX: usize = 64;

/// How long a message is held whose task must not be claimed yet: clocks that differ, or a moment too soon. A message that
/// would wait longer is published again at its time.
pub const EARLY_HELD_MAX: Duration = Duration::from_secs(5);
