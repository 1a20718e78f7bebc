//! Trees are tasks with children. A tree ends once: after the own run of its root and the trees of all children.
//!
//! ```text
//! add: row of the child -> record of the parent, serially -> entry of the child
//! end of a child: row of the child -> poke of the parent
//! check: sweep -> closing -> all rows -> completed, faulted or cancelled -> row of the parent -> its own parent
//! cancel: record of the parent -> its own run -> its children -> records of those that are parents, and so on down
//! retry: rows of children, and of parents above -> records and rows of these parents, from the root down -> the children
//! ```
//!
//! - `ended` is the part of the end steps that concerns trees.
//! - [`crate::flow::life`] admits children (`add`) and makes parents of tasks that were registered without children (`adopt`).
//! - [`crate::flow::stages::tree`] checks, cancels, reopens and shows trees.
//!
//! A crash leaves a row without an entry, a record that is closing, or a tree that has ended and whose row does not say so. The
//! looks of the parent go on until its tree has ended, and repair each of them ([`crate::model::family`] has the rules).

pub(in crate::flow) mod ended;
