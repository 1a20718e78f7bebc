//! Bounds of records, of rows of the index, of dead letters, of the limits of callbacks, of sequences, and of jobs.

use std::time::Duration;

use crate::model::{configuration, dead_letter, gate, history, job, limit, ordering, record};

/// Longest key of a record: a callback, a collection and a client's own key, of up to 128 characters each, fit with room to
/// spare.
pub const RECORD_KEY_BYTES_MAX: usize = record::KEY_BYTES_MAX;

/// Largest value of a record: a payload of 16 KiB, what else a schedule carries, and as much again. Larger conditional writes
/// time out under load.
pub const RECORD_VALUE_BYTES_MAX: usize = record::VALUE_BYTES_MAX;

/// Changes that the epoch of the configuration names: with the longest keys they fit into one record.
pub const EPOCH_CHANGES_MAX: usize = configuration::EPOCH_CHANGES_MAX;

const _: () = assert!(EPOCH_CHANGES_MAX * (RECORD_KEY_BYTES_MAX + 32) < RECORD_VALUE_BYTES_MAX);

/// Records of a page of a list: a page of the largest values is 5 MB.
pub const RECORDS_PAGE_MAX: usize = 100;

/// Reads by which one page of callbacks is filled: those that were deleted lately are passed over, and a page may have none of
/// the others.
pub const CALLBACK_LIST_READS_MAX: usize = 10;

/// Callbacks that each of these reads asks for at least: a small page behind some that were deleted needs few reads.
pub const CALLBACKS_AHEAD: usize = 16;

/// Longest name of a partition of the index: a callback and a collection of 128 characters, of up to four bytes each, and some
/// numbers.
pub const INDEX_PARTITION_BYTES_MAX: usize = 2048;

/// Longest sort key of a row of the index: the longest key of a record, and as much again for numbers before it.
pub const INDEX_SORT_BYTES_MAX: usize = 2048;

/// Largest value of a row of the index: a page of a thousand of them is 4 MB.
pub const INDEX_VALUE_BYTES_MAX: usize = 4096;

/// Rows of a page of the index: a round trip is amortised, memory stays small.
pub const INDEX_PAGE_ROWS_MAX: usize = 1000;

/// Rows that the embedded store looks at for such a page: those that were removed lately are passed over, and a page may have
/// none of the others.
pub const INDEX_ROWS_LOOKED_AT_MAX: usize = 10_000;

/// How long a removal of a row of the index, or the end of its life, is remembered against older writes that arrive late. A
/// write whose caller gave up is minutes late, one that a server kept for another 3 h (Cassandra's hints). The table's grace
/// is the same.
pub const INDEX_REMOVED_KEPT: Duration = Duration::from_secs(24 * 3600);

/// How old a row of the index is that may be taken for one of a record that was never written: no writer is under way that
/// long.
pub const LISTING_ORPHAN_MIN: Duration = Duration::from_secs(24 * 3600);

/// How often the epoch is raised anew after another node was first: changes of the configuration are made by people.
pub const EPOCH_RACES_MAX: usize = 20;

/// A dead task can be read and redriven at least this long.
pub const DEAD_RETENTION: Duration = dead_letter::DEAD_RETENTION;

/// Shards of the letters of a day: a million of them are partitions of some 10 MB, and as many redriven in a day leave fewer
/// removals in each than the 100,000 at which Cassandra refuses a read. The number is frozen with the format.
pub const DEAD_LETTER_SHARDS: u8 = 16;

/// Rows that a page of a list looks at while it searches for an error: a fraction of a second. A page may then be empty and
/// still not be the last.
pub const DEAD_LETTERS_LOOKED_AT_MAX: usize = 10_000;

/// Letters that one call counts: several millions are rather walked page by page. Beyond it the answer says "at least".
pub const DEAD_LETTERS_COUNTED_MAX: usize = 5_000_000;

/// Groups of errors in one answer: nobody reads more, and errors that a callback makes up must not fill the memory. Further
/// errors are counted together as `(other)`.
pub const DEAD_LETTER_GROUPS_MAX: usize = 1000;

/// Redrives of one call that are under way at once: they share conditional writes, and leave room for others.
pub const REDRIVES_IN_FLIGHT_MAX: usize = 32;

/// Tasks that a dry run shows.
pub const DRY_RUN_SAMPLE: usize = 20;

/// Rows that are read ahead of a list from each shard: what a page of the usual size needs, and little more.
pub const DEAD_LETTERS_AHEAD: usize = 128;

/// Parts that one count reads at once: it must not take the store from others.
pub const DEAD_LETTER_PARTS_IN_FLIGHT_MAX: usize = 8;
/// How long the record of an idempotency key is kept: a client that repeats a request does so within minutes, and one that
/// was stopped over night within a day.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Longest idempotency key. Clients use UUIDs and ids of their own; longer texts are usually bodies by mistake.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// Registrations of one request whose records are written at once: a batch of a thousand takes as long as sixteen of them one
/// by one.
pub const ASKED_IN_FLIGHT_MAX: usize = 64;

/// When a request comes again that lost every race for a record: the others are done by then.
pub const RACED_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Longest key of a task: with a callback of 128 characters, and four bytes a character, it fits into the key of a record.
pub const KEY_CHARS_MAX: usize = 128;

const _: () = assert!(128 + 1 + 4 * KEY_CHARS_MAX <= RECORD_KEY_BYTES_MAX);

/// Attempts that a task shows: more than the usual ten, and few enough for a person to read.
pub const ATTEMPTS_KEPT_MAX: usize = history::ATTEMPTS_KEPT_MAX;

/// Bytes that the attempts of a row take at most: tasks of a slot share conditional writes, which must stay small.
pub const HISTORY_BYTES_MAX: usize = history::HISTORY_BYTES_MAX;
/// How often a key, or the task that has it, is read anew after another request was first: every loser makes a step of somebody.
pub const KEY_RACES_MAX: usize = 20;

/// Longest description of a callback: a paragraph.
pub const DESCRIPTION_CHARS_MAX: usize = 1024;

/// Longest reason of a gate: a sentence or two.
pub const REASON_CHARS_MAX: usize = 256;

/// Largest sum of the labels of a callback: every one of its tasks carries them, beside a content that may be as large as any.
pub const CALLBACK_LABELS_BYTES_MAX: usize = 8 * 1024;

/// Gates of a callback, those that were opened lately included: they lie in its record. A callback that needs more collections
/// to be paused one by one is better made several.
pub const GATES_MAX: usize = 16;

const _: () = assert!(
    4 * DESCRIPTION_CHARS_MAX
        + CALLBACK_LABELS_BYTES_MAX
        + GATES_MAX * 4 * (REASON_CHARS_MAX + 128)
        < RECORD_VALUE_BYTES_MAX - 4096
);

/// Callbacks with a configuration or a gate: every node holds them in memory, some 2 KB each as a rule and 40 KB at most.
pub const CALLBACKS_MAX: usize = 5000;

/// How often a change of a callback is made anew after another was first: they are made by people.
pub const CALLBACK_RACES_MAX: usize = 20;

/// How long the row of a held task lives. The look of the task renews it many times as long as the gate is closed. A task
/// that is released from it must not be older than a message that is trusted.
pub const HELD_KEPT: Duration = super::MESSAGE_TRUSTED_MAX;

/// Gates are remembered for as long as rows that they held may live.
const _: () = assert!(HELD_KEPT.as_secs() <= gate::OPENED_KEPT.as_secs());

/// How long the row with the level of a node lives. It is written anew long before its end.
pub const LEVEL_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Held tasks of a gate that are released together: a batch of the queue.
pub const RELEASE_ROWS_MAX: usize = 256;

/// How often rows of a gate that has just been opened are looked for: within a fraction of the two seconds that are promised.
pub const RELEASE_STEP: Duration = Duration::from_millis(250);

/// Workers of a callback that a node remembers, for people.
pub const CALLBACK_WORKERS_MAX: usize = 100;

/// Shortest time that an attempt may be given: less cannot be told from the skew of clocks.
pub const ATTEMPT_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// How often a draw from the limits of a callback is made anew after another node was first: the nodes of a cluster draw a few
/// times a second each. One that loses so often comes back in a fraction of a second.
pub const LIMIT_RACES_MAX: usize = 8;

/// Callbacks whose limits are drawn from at once: a slow one must not hold up many others, and a thousand must not flood the
/// store.
pub const LIMITS_ASKED_IN_FLIGHT_MAX: usize = 32;

/// How long the message of a claim over a limit is held at most: as long as one that is early, so that a limit that was raised
/// is noticed.
pub const LIMIT_HELD_MAX: Duration = super::EARLY_HELD_MAX;

/// Largest number of attempts at once that a callback may be limited to: a node watches as many.
pub const IN_FLIGHT_MAX: u32 = limit::IN_FLIGHT_MAX;

const _: () = assert!(IN_FLIGHT_MAX as usize == super::WATCHED_ATTEMPTS_MAX);

/// The places of all nodes fit into the record of a callback.
const _: () = assert!(limit::NODES_MAX * 64 < RECORD_VALUE_BYTES_MAX);

/// Attempts of a callback that a node reads in a second to find those that have ended at another node: one batch of reads.
pub const LIMIT_CHECKED_MAX: usize = 256;

/// Jobs that have not ended: each takes a turn of a node every second, and a person can watch no more.
pub const JOBS_OPEN_MAX: usize = 20;

/// Jobs that are kept, those that have ended included: a list reads all of their records, 16 KB each at most.
pub const JOBS_KEPT_MAX: usize = 1000;

/// How long a job can be read after its end: over a long weekend.
pub const JOB_KEPT: Duration = job::KEPT;

/// Tasks of a page: the work that is repeated after a crash, and that goes on after a pause. Each takes 20 bytes of the record.
pub const JOB_PAGE_ITEMS_MAX: usize = job::PAGE_ITEMS_MAX;

/// Reads of a list for one page of a job. A page of a rare kind of task may be empty and not be the last.
pub const JOB_PAGE_READS_MAX: usize = 4;

/// Tasks of a job that are changed at once: they share conditional writes, and leave room for others.
pub const JOB_ITEMS_IN_FLIGHT_MAX: usize = 32;

/// How often a node looks for jobs that need a leader: a lapsed lease is found within it.
pub const JOBS_LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a job works on before the other jobs of the node get a turn.
pub const JOB_TURN: Duration = Duration::from_secs(1);

/// How often the record of a job is written anew after another write was first: its leader and people write it.
pub const JOB_RACES_MAX: usize = 20;

/// Highest rate of a job: more than any store does.
pub const JOB_RATE_MAX: f64 = 1_000_000.0;

/// Lowest rate of a job: three and a half tasks an hour.
pub const JOB_RATE_MIN: f64 = 0.001;

/// Tasks that wait for their next attempt which a node counts, some 100 bytes each. More are not counted.
pub const RETRIES_TOLD_MAX: usize = 100_000;

/// Labels of a callback by which tasks are found: each costs a write at the registration of a task and one at its end.
pub const INDEXED_LABELS_MAX: usize = 4;

/// Held tasks that are counted for the figures of one callback: more are too many for a quick answer.
pub const HELD_COUNTED_MAX: u64 = 10_000;

/// Labels of the filter of a list: as many as a job takes, so that each list can become a job.
pub const LIST_LABELS_MAX: usize = JOB_LABELS_MAX;

/// Labels of the filter of a job: with the longest ones they take a third of its record.
pub const JOB_LABELS_MAX: usize = 8;

const _: () = assert!(
    JOB_LABELS_MAX * 2 * 4 * super::LABEL_CHARS_MAX + JOB_PAGE_ITEMS_MAX * 32
        < RECORD_VALUE_BYTES_MAX / 2
);

/// When a client that met the bound of open jobs comes again: jobs take minutes.
pub const JOBS_FULL_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Longest ordering key: with a callback of 128 characters, and four bytes a character, it fits into the key of a record, and
/// into the name of a partition.
pub const ORDERING_KEY_CHARS_MAX: usize = KEY_CHARS_MAX;

/// How long a place in a sequence may be written but not sure: others wait for it as long.
pub const PLACE_OPEN: Duration = ordering::PLACE_OPEN;

/// Members of a sequence that are read at once. As a rule the first of them decides.
pub const MEMBERS_PAGE: usize = 16;

/// How long the record of a turn is kept that nobody has. It only saves reading over rows that were removed, and stores have
/// forgotten those by then.
pub const TURN_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often a turn is read anew after another write was first: every loser makes a step of somebody.
pub const TURN_RACES_MAX: usize = 32;

/// How often the place of one task is announced: a store that is slower than that for half a minute does not get well by it.
pub const PLACE_TRIES_MAX: usize = 3;

/// Turns that one request, or the dispatcher of a node, works on at once: they share syncs and leave room for others.
pub const TURNS_IN_FLIGHT_MAX: usize = 64;

/// Sequences that wait for the dispatcher of a node, 300 bytes each at most. Others are left to the looks of their tasks.
pub const SEQUENCES_HANDED_MAX: usize = 10_000;

/// Sequences of a node whose tasks have waited for long, 300 bytes each at most. Others come back with the looks of their tasks.
pub const SEQUENCES_HELD_MAX: usize = 1_000;

/// How many of these are looked after at once: each may take a search, and none of them hurries.
pub const SEQUENCES_HELD_AT_ONCE: usize = 8;

/// Sequences of which a node knows a task that went out and has not ended, 500 bytes each at most: both names and the task.
/// Tasks of others go out when they are due, and wait for their turn behind that.
pub const SEQUENCES_AHEAD_MAX: usize = 10_000;

/// How often the dispatcher comes back to a sequence whose task was not written yet: registration takes a part of it.
pub const DISPATCHER_TRIES_MAX: u32 = 20;

/// How long the dispatcher waits for such a task.
pub const DISPATCHER_PAUSE: Duration = Duration::from_millis(500);
