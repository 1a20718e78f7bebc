//! Stages and calls of trees.
//!
//! - `tend` checks the parents that may have ended. `release` lets children go that wait for the own run of their parent.
//! - `cancel` cancels trees as a whole, level by level.
//! - `reopen` opens trees that have ended, for the retry and for the checks that complete one.
//! - [`retry`] runs the failed part of a tree again.
//! - [`read`] shows a tree to people, and cancels it for them.

pub(in crate::flow) mod cancel;
pub(in crate::flow) mod completion;
pub mod read;
pub(in crate::flow) mod release;
pub(in crate::flow) mod reopen;
pub mod retry;
