//! The reads of the embedded store answer its callers. Only serial reads wait for the writer.

pub(in crate::store::embedded) mod ended;
pub(in crate::store::embedded) mod firsts;
pub(in crate::store::embedded) mod range_read;
pub(in crate::store::embedded) mod underway;
pub(in crate::store::embedded) mod walk;
