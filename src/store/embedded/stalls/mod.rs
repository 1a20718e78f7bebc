//! The stall guards keep stalls of the database library away from readers and writers of the embedded store.
//!
//! Everything here exists because of locks and expensive calls inside the library (fjall 3, lsm-tree 3). Each file would go
//! with one change there:
//!
//! - `background`: a priority for the threads of the library, as an option of it.
//! - `buffer_release`: write buffers freed outside the lock of the tree.
//! - `deferred_unlink`: files removed outside that lock, or unlinked by a hook of the caller.
//! - `write_stall`: back pressure by merges that are due, instead of a halt of all writers.
//! - `writeback`: tables written to the disk while they are made, instead of at their sync.
//! - `maintenance`: the threads that do this work; `background` is applied when the database is opened.

pub(in crate::store::embedded) mod background;
pub(in crate::store::embedded) mod buffer_release;
pub(in crate::store::embedded) mod deferred_unlink;
pub(in crate::store::embedded) mod maintenance;
pub(in crate::store::embedded) mod write_stall;
pub(in crate::store::embedded) mod writeback;
