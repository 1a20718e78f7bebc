//! The stall guards keep stalls of the database library away from readers and writers of the embedded store.
//!
//! Everything here exists because of locks and expensive calls inside the library (fjall 3, lsm-tree 3). Each file would go
//! with one change there:
//!
//! - `buffer_release`: write buffers freed outside the lock of the tree.
//! - `deferred_unlink`: files removed outside that lock, or unlinked by a hook of the caller.
//! - `write_stall`: back pressure by merges that are due, instead of a halt of all writers.
//! - `writeback`: tables written to the disk while they are made, instead of at their sync.
//!
//! `maintenance` beside this folder has the threads that do this work. `disk/background` goes with a priority for the threads of
//! the library, as an option of it; it is applied when the database is opened.

pub(in crate::store::embedded) mod buffer_release;
pub(in crate::store::embedded) mod deferred_unlink;
pub(in crate::store::embedded) mod write_stall;
pub(in crate::store::embedded) mod writeback;
