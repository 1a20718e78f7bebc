//! Joins are tasks that wait for the ends of others, which they name when they are registered.
//!
//! ```text
//! registration: marks -> rows of both sides -> rows of the dependencies -> look -> row of the waiter -> poke
//! end of a dependency: rows that name waiters -> outcome in the row of each waiter -> poke of the waiter
//! check: rows of the waiter -> release, or end, by one conditional write
//! ```
//!
//! - `dependencies` are what the claim of a waiter returns of the tasks that it waited for.
//! - `marks` are the callbacks of tasks that others wait for, so that ends of other tasks cost nothing.
//! - `enlist` takes waiters on, for the registration. `ended` is the part of the end steps that concerns joins.
//! - `waiter` is what the look of a waiter asks for. `sweep` spares the check most rows.
//! - [`crate::flow::stages::join`] lets waiters go.
//!
//! Rows of a wait end by themselves, since its registration may never come to its end. A look of a waiter that has waited for a
//! day writes those once more that are open, to stay.
//!
//! Pokes are hints, and so are the end steps of dependencies: the look of a waiter asks all of its dependencies again, from a
//! minute on and at least every quarter of an hour ([`crate::model::join`] has the rules).

pub(in crate::flow) mod dependencies;
pub(in crate::flow) mod ended;
pub(in crate::flow) mod enlist;
pub(in crate::flow) mod marks;
pub(in crate::flow) mod sweep;
pub(in crate::flow) mod waiter;
