//! Limits of callbacks: `limiter` lets no more of a callback be claimed than its limits allow, `limit_pool` shares a rate among
//! nodes, and [`deadlines`] counts the attempts that run and knows when their leases end.

pub mod deadlines;
pub(in crate::flow) mod limit_pool;
pub(in crate::flow) mod limiter;
pub(in crate::flow) mod watched;
