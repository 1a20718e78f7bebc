//! Families are tasks with children. Their trees end once: after the own run and the trees of all children.
//!
//! ```text
//! add: row of the child -> record of the parent, serially -> entry of the child
//! end of a child: row of the child -> poke of the parent
//! check: sweep -> closing -> all rows -> completed, faulted or cancelled -> row of the parent -> its own parent
//! cancel: record of the parent -> its own run -> its children -> records of those that are parents, and so on down
//! retry: rows of children, and of parents above -> records and rows of these parents, from the root down -> the children
//! ```
//!
//! - `rows` reads and writes the rows of children and the records of parents.
//! - `add` admits children, for the registration.
//! - `adopt` makes parents of tasks that were registered without children.
//! - `ended` is the part of the end steps that concerns trees.
//! - [`pokes`] is the list of parents that a node is to check soon.
//! - `tend` is the stage that checks them.
//! - `release` lets children go that wait for the own run of their parent.
//! - `cancel` cancels trees as a whole, level by level.
//! - `reopen` opens trees that have ended, for the retry and for the checks that complete one.
//! - [`retry`] runs the failed part of a tree again.
//! - [`tree`] shows a tree to people, and cancels it for them.
//!
//! A crash leaves a row without an entry, a record that is closing, or a tree that has ended and whose row does not say so. The
//! looks of the parent go on until its tree has ended, and repair each of them ([`crate::model::family`] has the rules).

pub(in crate::flow) mod add;
pub(in crate::flow) mod adopt;
pub(in crate::flow) mod cancel;
pub(in crate::flow) mod ended;
pub mod pokes;
pub(in crate::flow) mod release;
pub(in crate::flow) mod reopen;
pub mod retry;
pub(in crate::flow) mod rows;
pub(in crate::flow) mod tend;
pub mod tree;
