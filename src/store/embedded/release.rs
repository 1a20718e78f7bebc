//! Frees the database's buffers where nobody waits for it.
//!
//! A buffer is tens of thousands of blocks of memory. fjall lets go of one that has been written out under the lock that every
//! read and write of its keyspace takes, and whoever lets go of it last is the one who frees it: 10 ms and more in which
//! everything stands. So each buffer is held here from the time it is seen until nobody else has it.

use std::{any::Any, sync::Arc};

use super::database::Open;

/// A buffer, whatever fjall calls it.
pub(super) type Buffer = Arc<dyn Any + Send + Sync>;

/// The buffers that somebody else has, too.
#[derive(Default)]
pub(super) struct Release {
    held: Vec<Buffer>,
}

impl Release {
    /// Takes hold of the buffers in use, and frees those that nobody else has any more. To be called often: a buffer that was
    /// not seen while it was in use is freed by the database, at its callers' expense.
    pub(super) fn look(&mut self, open: &Open) {
        for buffer in open.buffers() {
            let same = |held: &Buffer| Arc::ptr_eq(held, &buffer);
            if !self.held.iter().any(same) {
                self.held.push(buffer);
            }
        }
        self.free();
    }

    /// Frees the buffers that nobody else has any more.
    pub(super) fn free(&mut self) {
        self.held.retain(|buffer| Arc::strong_count(buffer) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::{database::Space, tests::created};

    #[test]
    fn a_buffer_is_held_until_the_database_has_let_go_of_it_and_no_longer() {
        let directory = tempfile::tempdir().unwrap();
        let open = created(&directory.path().join("store"));
        let mut release = Release::default();
        release.look(&open);
        release.look(&open);
        assert_eq!(release.held.len(), 5);
        let row = open.space(Space::Row);
        row.insert([1], [1]).unwrap();
        // Written out in the background; a later rotation drops what was kept of it for readers.
        for value in 2..100_u8 {
            row.rotate_memtable_and_wait().unwrap();
            row.insert([value], [value]).unwrap();
            release.look(&open);
        }
        assert!(
            (4..10).contains(&release.held.len()),
            "{}",
            release.held.len()
        );
        drop(open);
        release.free();
        assert!(release.held.is_empty());
    }
}
