//! This room does bulk work over a filter for people: it cancels, moves, redrives or deletes many tasks, as a job.
//!
//! - `desk` registers and lists jobs, and pauses, resumes and ends them.
//! - `records` reads and writes the record of a job.
//! - `runner` leads jobs: it works on their pages, one after the other.
//! - `search` finds the tasks of a page; `places` says where it goes on, `backfill` finds those of a backfill.
//! - `estimate` tells how many tasks there are before all of them are found.
//! - `work` changes the tasks of a page; `changers` are the stages that do it.
//!
//! The rule is in [`crate::model::job`]: a page is in the record before its first task is changed, and leaves it when all of them
//! were. A node that dies leaves the page to the next leader.

pub(in crate::flow) mod backfill;
pub(in crate::flow) mod changers;
pub mod desk;
pub(in crate::flow) mod estimate;
pub(in crate::flow) mod places;
pub(in crate::flow) mod records;
pub(in crate::flow) mod runner;
pub(in crate::flow) mod search;
pub(in crate::flow) mod work;
