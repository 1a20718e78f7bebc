//! The doubles of the store: one in memory, and faults before any store.

pub mod faulty;
pub mod memory;
