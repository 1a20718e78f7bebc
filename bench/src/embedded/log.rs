//! The log holds notes of all tasks for the harness in a list that grows without ever being moved.
//!
//! A vector copies its items whenever it doubles. With millions of tasks the client stopped for tenths of a
//! second then, and what it measured meanwhile was itself.

/// Items of a part: half a MiB of the notes about tasks.
const PART_ITEMS: usize = 16 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Log<T> {
    parts: Vec<Vec<T>>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { parts: Vec::new() }
    }
}

impl<T> Log<T> {
    /// Appends an item.
    pub(crate) fn push(&mut self, item: T) {
        match self.parts.last_mut().filter(|part| part.len() < PART_ITEMS) {
            Some(part) => part.push(item),
            None => {
                let mut part = Vec::with_capacity(PART_ITEMS);
                part.push(item);
                self.parts.push(part);
            }
        }
    }

    /// Appends items.
    pub(crate) fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        items.into_iter().for_each(|item| self.push(item));
    }

    /// Appends the items of another log, without touching them.
    pub(crate) fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// Returns everything as one vector, for the time when nothing is measured any more.
    pub(super) fn into_vec(self) -> Vec<T> {
        let mut items = Vec::with_capacity(self.parts.iter().map(Vec::len).sum());
        for part in self.parts {
            items.extend(part);
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_in_order() {
        let (mut log, mut other) = (Log::default(), Log::default());
        log.extend(0..PART_ITEMS * 2 + 3);
        other.push(PART_ITEMS * 2 + 3);
        log.append(other);
        assert!(log.parts.iter().all(|part| part.capacity() == PART_ITEMS));
        assert_eq!(log.into_vec(), (0..PART_ITEMS * 2 + 4).collect::<Vec<_>>());
        assert!(Log::<u8>::default().into_vec().is_empty());
    }
}
