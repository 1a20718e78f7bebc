//! The limits of internal tasks bound for the stages that ask for them what waits, and for how long.

use std::time::Duration;

/// Internal tasks that wait to be registered in a node. Each is a few hundred bytes, so that a burst of a thousand ends does not
/// hold up its stages.
pub const OUTBOX_ORDERS_MAX: usize = 1024;

/// Internal tasks that are registered together: as many as a batch of a client.
pub const OUTBOX_BATCH_MAX: usize = 1000;

/// How long a stage waits until an internal task is durable, before it leaves its work to the next look.
pub const OUTBOX_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long the end of a task is tried to be told. After three days, which span a weekend, nobody is told any more.
pub const NOTIFY_TRIED_FOR: Duration = Duration::from_secs(72 * 3600);

/// How long behind an end it may be told, or told again. A repetition finds internal tasks and follow-ups by their rows, which
/// live for seven days at least ([`crate::model::state::TERMINAL_TTL_MIN`]): a day less leaves room for clocks that differ. No
/// wheel lags by more, so the looks behind an end come in time.
pub const END_TOLD_WITHIN: Duration = Duration::from_secs(6 * 24 * 3600);

/// Internal tasks of one callback that a node with the role `executor` runs at once. A delivery waits for two syncs of the
/// store and for its receiver, so many are under way at some thousands a second. Each may hold a content, so it bounds
/// bytes, too: 128 MB for each of the four callbacks.
pub const EXECUTOR_TASKS_MAX: usize = 128;

/// Requests of a node to a host at once that a callback may ask for: all that an executor makes.
pub const HTTP_IN_FLIGHT_MAX: u32 = EXECUTOR_TASKS_MAX as u32;

/// Longest URL of an `http` task: what common servers take.
pub const URL_CHARS_MAX: usize = 2048;

/// Headers of an `http` task in bytes together: the half of what common servers take.
pub const HTTP_HEADERS_BYTES_MAX: usize = 4096;

/// Shortest and longest time limit of a call over HTTP. A longer one would hold a place of the executor.
pub const HTTP_TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// See [`HTTP_TIMEOUT_MIN`].
pub const HTTP_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Headers of an answer to an `http` task, and their KiB together. The library of the connection has these bounds, and the client
/// above it no setting for them: a node tells them where an answer has more.
pub const ANSWER_HEADERS_MAX: usize = 100;
/// See [`ANSWER_HEADERS_MAX`].
pub const ANSWER_HEAD_KIB_MAX: usize = 408;

/// Secrets of a callback: the new one and the old one, while one is replaced.
pub const SECRETS_MAX: usize = 2;

/// Actions of a task, and its checks. Each is a task of its own.
pub const ACTIONS_MAX: usize = 8;
/// See [`ACTIONS_MAX`].
pub const CHECKS_MAX: usize = 8;

/// How far behind the time of a check may lie at the registration: clocks differ, and requests are repeated.
pub const CHECK_PAST_MAX: Duration = Duration::from_secs(24 * 3600);

/// Actions and checks of a task as encoded: they travel with every entry and message of it.
pub const ACTIONS_BYTES_MAX: usize = 4096;

/// Receivers of an e-mail. Lists of people are the business of mail servers.
pub const ACTION_EMAIL_TO_MAX: usize = 10;

/// Longest subject, without its values: what mail programs show of one.
pub const EMAIL_SUBJECT_CHARS_MAX: usize = 200;

/// E-mails that a node sends at once: as many connections as mail servers usually let one client have.
pub const EMAILS_AT_ONCE_MAX: usize = 8;

/// How long the delivery of an e-mail to the server may take in all.
pub const EMAIL_TIMEOUT: Duration = Duration::from_secs(30);
