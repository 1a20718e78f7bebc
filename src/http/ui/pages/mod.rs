//! The pages show what the API answers, a file for each screen with its template beside it.

pub(super) mod act_on_all;
pub(super) mod audit;
pub(super) mod callback;
pub(super) mod callbacks;
pub(super) mod cluster;
mod comes;
pub(super) mod jobs;
pub(super) mod keys;
pub(super) mod letters;
mod minute;
pub(super) mod overview;
mod polled;
mod rows;
pub(super) mod schedule;
pub(super) mod schedule_change;
pub(super) mod schedules;
pub(super) mod sign_in;
pub(super) mod suggest;
pub(super) mod task;
pub(super) mod tasks;
mod waits;
mod wheel;
mod why;
