//! The configuration rule decides for a node what it must read so that its copy of the configuration is never older than it says.
//!
//! A writer changes a record first, then names it in the epoch ([`Epoch::raised`]), then acknowledges. A node reads the epoch
//! every [`REFRESH_EVERY`]. It fetches the records that were named since, and all of them when it cannot tell
//! ([`Epoch::missing`]). Its copy then has every change that was acknowledged before that reading began.
//! It calls the copy current for [`CURRENT_MAX`] from that moment ([`View::is_current`]). So a change is in force on
//! every current node at most [`CURRENT_MAX`] after its acknowledgement, however slow the store is.
//!
//! A change whose writer died before it raised the epoch was not acknowledged. The pass over all records finds it
//! ([`PASS_EVERY`]).
//!
//! Times are durations on a clock that never goes back, from any fixed moment.

use std::time::Duration;

use super::record::{Name, Version};

/// How often a node reads the epoch: twice within [`CURRENT_MAX`], so that one reading may be slow.
pub const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// How long a copy is current, from the beginning of the reading that it is made of. This is the promise to users.
pub const CURRENT_MAX: Duration = Duration::from_secs(2);

/// How often a node reads all records, whatever the epoch says.
pub const PASS_EVERY: Duration = Duration::from_secs(30);

/// Changes that the epoch names. A node that has missed more reads everything. Each costs the reading of every second some
/// 30 bytes, and 1 KiB at worst.
pub const EPOCH_CHANGES_MAX: usize = 32;

/// A change that was announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The number of the epoch that it made.
    pub number: i64,
    /// The record that has changed.
    pub name: Name,
}

/// The counter of changes, with the names of the last ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Epoch {
    /// The number; zero before the first change.
    pub number: i64,
    /// All changes after this number are named.
    pub since: i64,
    /// Those changes, oldest first.
    pub changes: Vec<Announced>,
}

/// The records that a node must read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// These records; none when nothing has changed.
    These(Vec<Name>),
    /// All records.
    Everything,
}

impl Epoch {
    /// Returns the epoch that follows and names a change. `number` must be greater than its own.
    #[must_use]
    pub fn raised(&self, number: i64, name: Name) -> Self {
        let mut next = Self {
            number,
            ..self.clone()
        };
        // An older announcement of the same record says nothing more.
        next.changes.retain(|change| change.name != name);
        next.changes.push(Announced { number, name });
        while next.changes.len() > EPOCH_CHANGES_MAX {
            next.since = next.changes.remove(0).number;
        }
        next
    }

    /// Returns what a node must read that knows everything up to the epoch `known`.
    #[must_use]
    pub fn missing(&self, known: Option<i64>) -> Missing {
        match known {
            // An epoch that has gone back belongs to a store that was restored.
            Some(known) if (self.since..=self.number).contains(&known) => {
                let newer = self.changes.iter().filter(|change| change.number > known);
                Missing::These(newer.map(|change| change.name.clone()).collect())
            }
            Some(_) | None => Missing::Everything,
        }
    }
}

/// The knowledge of a node about its copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    known: Option<i64>,
    as_of: Option<Duration>,
    passed: Option<Duration>,
}

impl View {
    /// Returns the last epoch of which the copy has everything.
    #[must_use]
    pub const fn known(&self) -> Option<i64> {
        self.known
    }

    /// Takes notice that the copy has everything up to an epoch that was read, or asked for, at `began`.
    pub fn refreshed(&mut self, began: Duration, epoch: &Epoch) {
        self.known = Some(epoch.number);
        self.as_of = self.as_of.max(Some(began));
    }

    /// Takes notice of a pass over all records that began at `began`.
    pub fn passed(&mut self, began: Duration) {
        self.passed = self.passed.max(Some(began));
    }

    /// Tells whether the copy has every change that was acknowledged [`CURRENT_MAX`] before `now`.
    #[must_use]
    pub fn is_current(&self, now: Duration) -> bool {
        let age = self.as_of.map(|as_of| now.saturating_sub(as_of));
        age.is_some_and(|age| age <= CURRENT_MAX)
    }

    /// Returns how long it still is until the next pass; zero when it is due.
    #[must_use]
    pub fn until_pass(&self, now: Duration) -> Duration {
        let due = self.passed.map(|passed| passed + PASS_EVERY);
        due.map_or(Duration::ZERO, |due| due.saturating_sub(now))
    }
}

/// The fate of a record in the copy once it has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// The record that was read takes its place.
    Replaced,
    /// The copy has something newer.
    Kept,
    /// It leaves the copy.
    Gone,
}

/// Decides what becomes of a record. The copy has `held` of it now and had `before` when the reading began. A read that was
/// overtaken by another changes nothing.
#[must_use]
pub fn merge(held: Option<Version>, before: Option<Version>, found: Option<Version>) -> Merged {
    match found {
        Some(_) if found >= held => Merged::Replaced,
        None if held == before => Merged::Gone,
        Some(_) | None => Merged::Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::record::Kind, *};

    const MS: Duration = Duration::from_millis(1);
    const BEGAN: Duration = Duration::from_secs(100);

    fn name(number: usize) -> Name {
        Name::new(Kind::Callback, &format!("c{number}")).unwrap()
    }

    /// An epoch after this many changes of different records, numbered from 1.
    fn after(changes: usize) -> Epoch {
        let numbers = 1..=changes;
        numbers.fold(Epoch::default(), |epoch, number| {
            epoch.raised(i64::try_from(number).unwrap(), name(number))
        })
    }

    fn these(numbers: impl IntoIterator<Item = usize>) -> Missing {
        Missing::These(numbers.into_iter().map(name).collect())
    }

    #[test]
    fn a_copy_is_current_for_two_seconds_from_the_beginning_of_its_reading() {
        let mut view = View::default();
        assert!(!view.is_current(BEGAN), "nothing was read yet");
        view.refreshed(BEGAN, &after(0));
        assert!(view.is_current(BEGAN) && view.is_current(BEGAN + CURRENT_MAX));
        assert!(!view.is_current(BEGAN + CURRENT_MAX + MS));
        view.refreshed(BEGAN + MS, &after(0));
        assert!(view.is_current(BEGAN + CURRENT_MAX + MS));
        // A reading that ends after a later one makes the copy no older.
        view.refreshed(BEGAN - MS, &after(0));
        assert!(view.is_current(BEGAN + CURRENT_MAX + MS));
        assert!(REFRESH_EVERY * 2 <= CURRENT_MAX);
    }

    #[test]
    fn a_pass_is_due_after_half_a_minute() {
        let mut view = View::default();
        assert_eq!(view.until_pass(BEGAN), Duration::ZERO);
        view.passed(BEGAN);
        assert_eq!(view.until_pass(BEGAN), PASS_EVERY);
        assert_eq!(view.until_pass(BEGAN + PASS_EVERY - MS), MS);
        assert_eq!(view.until_pass(BEGAN + PASS_EVERY), Duration::ZERO);
        assert_eq!(view.until_pass(BEGAN + PASS_EVERY + MS), Duration::ZERO);
    }

    #[test]
    fn a_node_reads_what_was_named_since_and_everything_when_it_cannot_tell() {
        let epoch = after(3);
        assert_eq!(epoch.missing(None), Missing::Everything);
        assert_eq!(epoch.missing(Some(0)), these(1..=3));
        assert_eq!(epoch.missing(Some(2)), these([3]));
        assert_eq!(epoch.missing(Some(3)), these([]));
        assert_eq!(epoch.missing(Some(4)), Missing::Everything);
        assert_eq!(after(0).missing(Some(0)), these([]));

        let full = after(EPOCH_CHANGES_MAX);
        assert_eq!(full.missing(Some(0)), these(1..=EPOCH_CHANGES_MAX));
        let over = after(EPOCH_CHANGES_MAX + 1);
        assert_eq!(over.changes.len(), EPOCH_CHANGES_MAX);
        assert_eq!(over.missing(Some(0)), Missing::Everything);
        assert_eq!(over.missing(Some(1)), these(2..=EPOCH_CHANGES_MAX + 1));
    }

    #[test]
    fn a_record_is_named_once_at_its_last_change() {
        let again = after(3).raised(9, name(1));
        assert_eq!(again.missing(Some(3)), these([1]));
        assert_eq!(again.missing(Some(0)), these([2, 3, 1]));
        assert_eq!((again.number, again.since), (9, 0));
    }

    #[test]
    fn a_read_that_was_overtaken_changes_nothing() {
        let [old, new] = [Some(Version(1)), Some(Version(2))];
        assert_eq!(merge(None, None, old), Merged::Replaced);
        assert_eq!(merge(old, old, new), Merged::Replaced);
        assert_eq!(merge(new, old, old), Merged::Kept);
        assert_eq!(merge(old, old, old), Merged::Replaced);
        assert_eq!(merge(old, old, None), Merged::Gone);
        assert_eq!(merge(new, old, None), Merged::Kept);
        assert_eq!(merge(new, None, None), Merged::Kept);
        assert_eq!(merge(None, None, None), Merged::Gone);
    }
}
