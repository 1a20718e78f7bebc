//! The buffer release frees the database's buffers on a thread of the store, so that no reader or writer
//! waits for it.
//!
//! A buffer is tens of thousands of blocks of memory. fjall releases one that has been written out under the
//! lock that every read and write of its keyspace takes. The last holder of a buffer frees it: 10 ms and more
//! in which everything stands. So each buffer is held here from the time it is seen until there is no other
//! holder.

use std::sync::Arc;

use crate::store::embedded::disk::database::{Buffer, Open};

/// The buffers that have other holders, too.
#[derive(Default)]
pub(in crate::store::embedded) struct Release {
    held: Vec<Buffer>,
}

impl Release {
    /// Holds the buffers in use, and frees those without another holder. It has to be called often: a buffer
    /// that was not seen while it was in use is freed by the database, at its callers' expense.
    pub(in crate::store::embedded) fn look(&mut self, open: &Open) {
        for buffer in open.buffers() {
            let same = |held: &Buffer| Arc::ptr_eq(held, &buffer);
            if !self.held.iter().any(same) {
                self.held.push(buffer);
            }
        }
        self.free();
    }

    /// Frees the buffers without another holder.
    pub(in crate::store::embedded) fn free(&mut self) {
        self.held.retain(|buffer| Arc::strong_count(buffer) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::{disk::database::Space, tests::created};

    #[test]
    fn a_buffer_is_held_until_the_database_has_let_go_of_it_and_no_longer() {
        let directory = tempfile::tempdir().unwrap();
        let open = created(&directory.path().join("store"));
        let mut release = Release::default();
        release.look(&open);
        release.look(&open);
        assert_eq!(release.held.len(), Space::ALL.len());
        let row = open.space(Space::Row);
        row.insert([1], [1]).unwrap();
        // It is written out in the background. A later rotation drops the part that was kept for readers.
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
