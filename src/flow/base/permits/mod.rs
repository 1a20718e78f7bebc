//! Permits bound what wheels read at one time: [`catch_up`] keeps reads of missed ticks behind those of tasks that can be in
//! time, by an `allowance`, and [`read_permits`] shares the reads of one store among wheels.

pub(in crate::flow) mod allowance;
pub(in crate::flow) mod catch_up;
pub(in crate::flow) mod read_permits;
