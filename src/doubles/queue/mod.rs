//! The double of the queue: one in memory.

pub mod memory;
