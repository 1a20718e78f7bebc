//! The stage that lets tasks go that wait for others: `check` decides on a waiter, `ask` asks its dependencies.

pub(in crate::flow) mod ask;
pub(in crate::flow) mod check;
