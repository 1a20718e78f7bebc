//! The writes of the embedded store serve its callers: they send commands through a handle to one writer,
//! which commits them in groups.

pub(in crate::store::embedded) mod command;
pub(in crate::store::embedded) mod group;
pub(in crate::store::embedded) mod handle;
pub(in crate::store::embedded) mod sweep;
mod waiting;
pub(in crate::store::embedded) mod writer;
