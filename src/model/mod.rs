//! The model decides for all stages by the rules of the protocol. It is the pure core: it never acts itself.
//!
//! Its functions take values and return values. Time and randomness are arguments, there is no I/O, no async, no
//! lock and no log, so that each rule can be read alone and tested exhaustively. `tests/tidy/` keeps it so.
//!
//! | file | decides |
//! |---|---|
//! | [`time`] | instants, ticks, rounding |
//! | [`wheel`] | which wheel, tick and slot a task waits in |
//! | [`ids`] | what an id carries |
//! | [`client_id`] | whether an id that a client made can name its task |
//! | [`certificate`] | when a certificate ends |
//! | [`holder`] | which task a record of a key names |
//! | [`key`] | which task a key names, and when the key is free |
//! | [`replacement`] | what becomes of a task whose key another one takes |
//! | [`ordering`] | which task of a sequence may run |
//! | [`family`] | when the tree of a task has ended |
//! | [`adoption`] | which task may have children from now on |
//! | [`again`] | what goes on when the failed part of a tree runs again |
//! | [`reopen`] | whether a task of a tree that has succeeded runs again |
//! | [`join`] | what becomes of a task that waits for others |
//! | [`chain`] | which tasks follow the ends of a task |
//! | [`after`] | what a task waits for, as it was registered |
//! | [`kin`] | where a task stands in its tree |
//! | [`task`] | what a client registered |
//! | [`draft`] | what a client wrote, and the defaults of the rest |
//! | [`target`] | where a due task goes, and what follows from its kind |
//! | [`entry`] | what lies in a slot: its key, its kind, what overwrites it |
//! | [`decision`] | what a firing entry means: entry + task row + now -> decision |
//! | [`wait`] | why no attempt of a task begins now |
//! | [`entry_life`] | how long a store that expires rows keeps an entry |
//! | [`look`] | when a task is looked at again |
//! | [`look_step`] | how far apart those looks are, as the id carries it |
//! | [`dispatch`] | which publication a claim must find |
//! | [`inheritance`] | what becomes of a task that a dead node held in memory |
//! | [`expiry`] | when a task that nobody has taken is ended |
//! | [`event`] | what can happen to a task, and why it may be refused |
//! | [`row`] | where a task stands, and what a conditional write must find |
//! | [`history`] | how many earlier attempts a row keeps |
//! | [`attempts`] | how the attempts of a task ended, as its row says |
//! | [`dead_letter`] | what a dead task leaves behind for people, and when that is spent |
//! | [`erasure`] | what is left of a task that a person deletes |
//! | [`error_class`] | which errors are one failure, and the texts of failed requests over HTTP |
//! | [`state`] | the life cycle: one match of (state, event) |
//! | [`undelivered`] | what to do with a task that is due and may not go out |
//! | [`clock`] | the clock row's next value, whatever the reason |
//! | [`listing`] | which of its entries a task is listed at |
//! | [`ledger`] | how far a wheel has been fired, from acknowledgements in any order |
//! | [`weight`] | about how many bytes of memory a task and its row take |
//! | [`due_queue`] | the in-memory wheel of one millisecond |
//! | [`lanes`] | in what turns callbacks leave that wheel |
//! | [`preference`] | which node should own which wheel |
//! | [`backoff`] | when a failed attempt is tried again |
//! | [`record`] | what a record is, and which write of it wins |
//! | [`callback`] | what a user has set for the tasks of a callback |
//! | [`gate`] | whether tasks of a callback may go out, and what becomes of those that were held |
//! | [`limit`] | what a node may have of the limits of a callback |
//! | [`local_quota`] | which tasks may go with that, and what to ask for |
//! | [`schedule`] | when the runs of a schedule start, and what becomes of those that cannot |
//! | [`job`] | what bulk work over a filter is |
//! | [`job_life`] | how such work goes on: its pages, its pace, its leader |
//! | [`host_share`] | how many calls to a host may be under way at once |
//! | [`server_access`] | how a connection to Cassandra or Kafka begins |
//! | [`topic_names`] | how the brokers of Kafka call topics and groups |
//! | [`check_states`] | for which states of a task a check answers yes |
//! | [`document`] | what an action sends in place of the message about an end |
//! | [`messages`] | which messages of an attempt can be read |
//! | [`level`] | which features of tasks a node knows |
//! | [`signing`] | which keys sign messages, and what becomes of messages without |
//! | [`forecast`] | how many tasks are due in the time ahead, as people are told |
//! | [`why`] | what people are told of a task that does not run |
//! | [`configuration`] | what a node reads so that its copy of the configuration is not older than it says |

pub mod access;
pub mod action;
pub mod action_task;
pub mod address;
pub mod adoption;
pub mod after;
pub mod again;
pub mod attempts;
pub mod audit;
pub mod backoff;
pub mod backup;
pub mod base_path;
pub mod callback;
pub mod callback_share;
pub mod certificate;
pub mod chain;
pub mod chain_task;
pub mod check_states;
pub mod client_id;
pub mod clock;
pub mod configuration;
pub mod credential;
pub mod dead_letter;
pub mod dead_letter_record;
pub mod decision;
pub mod dispatch;
pub mod document;
pub mod draft;
pub mod due_queue;
pub mod email;
pub mod entry;
pub mod entry_life;
pub mod erasure;
pub mod error_class;
pub mod event;
pub mod expiry;
pub mod family;
pub mod forecast;
pub mod gate;
pub mod history;
pub mod holder;
pub mod host_share;
pub mod http_call;
pub mod ids;
pub mod inheritance;
pub mod internal_task;
pub mod job;
pub mod job_life;
pub mod join;
pub mod join_marks;
pub mod key;
pub mod kin;
pub mod lanes;
pub mod ledger;
pub mod level;
pub mod limit;
pub mod listing;
pub mod local_quota;
pub mod look;
pub mod look_step;
pub mod messages;
pub mod notice;
pub mod notify;
pub mod ordering;
pub mod owed;
#[cfg(test)]
mod owed_tests;
pub mod preference;
pub mod record;
pub mod reopen;
pub mod replacement;
pub mod restart;
pub mod result;
pub mod retry_look;
pub mod row;
pub mod schedule;
pub mod server_access;
pub mod signing;
pub mod smtp;
pub mod stalls;
pub mod state;
pub mod target;
pub mod task;
pub mod task_state;
pub mod template;
pub mod time;
pub mod topic_names;
pub mod undelivered;
pub mod wait;
pub mod weight;
pub mod wheel;
pub mod why;

#[cfg(test)]
mod clock_law_tests;
#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod replace_tests;
#[cfg(test)]
mod state_law_tests;
#[cfg(test)]
mod weight_tests;
