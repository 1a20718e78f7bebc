//! The eraser hides erased ticks from the readers of a wheel at once, and drops their rows from the disk
//! table by table.
//!
//! Rows of the wheel lie in order of time. As time goes on, whole tables fall behind the `erased` hands of
//! all wheels and are dropped as they are. No row is deleted by itself: at 27,000 tasks a second the
//! deletions of entries and looks were a third of all writes, and every merge carried their marks along.
//!
//! A mark in memory hides the ticks that a caller erases, until the clock of their wheel says so durably. A
//! process that ends in between erases again. Only ticks that the clocks have passed are dropped. A table
//! that reaches beyond them stays until time has passed it. So with tasks far ahead a table or two of each
//! level hold rows that no reader sees any more.

use fjall::{AbstractTree as _, Error as Cause};

use super::{
    clock,
    disk::database::{Open, Space},
    faults::fault,
    key,
    marks::{Hidden, Mark},
};
use crate::{
    model::{time::Millis, wheel::WheelNumber},
    store::{Erasure, Error},
};

/// Returns the latest due time up to which a wheel has been erased. A wheel without clock never was.
fn floor(open: &Open, wheel: WheelNumber) -> Result<Millis, Error> {
    let clock = clock::read_if_any(open, wheel)?;
    let end = |erased| open.shape().tick().end_of(erased);
    Ok(clock.map_or(Millis(i64::MIN), |clock| end(clock.erased)))
}

/// Returns the rows that readers of a wheel do not see.
pub(super) fn hidden(open: &Open, wheel: WheelNumber) -> Result<Hidden, Error> {
    let floor = floor(open, wheel)?;
    let marks = open.marks().of.get(&wheel).cloned().unwrap_or_default();
    Ok(Hidden { floor, marks })
}

/// Hides ticks of a wheel.
pub(super) fn hide(open: &Open, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
    let floor = floor(open, wheel)?;
    let mark = |erasure: &Erasure| Mark {
        span: open.shape().span_of(erasure.tick),
        newest_written: erasure.newest_written,
    };
    let mut marks = open.marks();
    let marks = marks.of.entry(wheel).or_default();
    marks.retain(|mark| mark.span.through > floor);
    for mark in ticks.iter().map(mark) {
        marks.retain(|old| old.span != mark.span || old.newest_written > mark.newest_written);
        marks.push(mark);
    }
    Ok(())
}

/// Drops the tables that lie behind the `erased` hands of all wheels.
///
/// It does nothing while the database merges: dropping waits for a merge, and the next merge waits for the
/// dropping. So it is no work for the writer, and it has to be called again.
pub(super) fn drop_tables(open: &Open) -> Result<(), Error> {
    // Dropping may have to write a row, which must not wait for room: see `Open::let_go`.
    if open.is_merging() || !open.has_room() {
        return Ok(());
    }
    open.is_sound()
        .map_err(|cause| fault("drop what was erased", &cause))?;
    let mut through = Millis::MAX;
    for wheel in open.shape().all_wheels() {
        through = through.min(floor(open, wheel)?);
    }
    let upper = key::before_stretch(through);
    let dropped = [Space::Due, Space::Look]
        .into_iter()
        .try_fold(0, |sum, space| Ok(sum + drop_below(open, space, &upper)?));
    let dropped = dropped.map_err(|cause| fault("drop what was erased", &cause))?;
    if dropped > 0 {
        open.let_go()?;
    }
    Ok(())
}

/// Drops the tables of a keyspace that lie below a key, and returns how many. Writes nothing where there is
/// none.
///
/// The clocks are synced before. A table may hold the mark of an entry that was cancelled, and the entry
/// itself may lie in a table that stays. A loss of power must not bring back a time at which that entry was
/// still to fire.
///
/// A journal is removed once its keyspaces have tables as new as its contents. On a service that does nothing
/// for long, the newest of all may be dropped. No table shows then that the journal may go. So a row without
/// meaning is written, and its table will show it.
fn drop_below(open: &Open, space: Space, upper: &[u8]) -> Result<usize, Cause> {
    let tree = &open.space(space).tree;
    let newest = tree.get_highest_persisted_seqno();
    let past = tree
        .current_version()
        .iter_tables()
        .filter(|table| **table.metadata.key_range.max() < *upper)
        .count();
    if past == 0 {
        return Ok(0);
    }
    open.sync()?;
    tree.drop_range(..upper)?;
    tracing::debug!(?space, past, left = tree.table_count(), "dropped tables");
    if tree.get_highest_persisted_seqno() < newest {
        open.space(space).insert(key::of_nobody(upper), [])?;
    }
    Ok(past)
}

#[cfg(test)]
pub(super) mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{
        model::{
            clock::ClockRow,
            entry::{Key, KeyCode},
            ids::TaskId,
            time::Tick,
        },
        store::embedded::{
            disk::database::{create, open},
            tests::shape,
            value,
            writing::group::Group,
        },
    };

    fn opened(directory: &TempDir) -> Open {
        let path = directory.path().join("store");
        create(&path, &shape(2)).unwrap();
        open(&path, &shape(2)).unwrap()
    }

    pub(in crate::store::embedded) const NOW: Millis = Millis(1_790_000_000_000);

    pub(in crate::store::embedded) fn put_clocks(open: &Open, erased: [i64; 2]) {
        let mut group = Group::new(open, NOW);
        for (number, erased) in (0..).zip(erased) {
            let wheel = WheelNumber::from_low_bits(number);
            let row = ClockRow {
                version: open
                    .known_clock(&key::clock(wheel))
                    .map_or(1, |row| row.version + 1),
                erased: Tick(erased),
                ..ClockRow::first(open.shape(), NOW)
            };
            open.note_clock(key::clock(wheel), row);
            group.insert(Space::Clock, key::clock(wheel), value::clock(&row));
        }
        group.commit(false).unwrap();
    }

    /// Puts a row of each keyspace and wheel in each of some ticks, in tables of their own.
    pub(in crate::store::embedded) fn put_ticks(open: &Open, ticks: impl Iterator<Item = i64>) {
        for tick in ticks {
            for space in [Space::Due, Space::Look] {
                for number in 0..2 {
                    let wheel = WheelNumber::from_low_bits(number);
                    let due = open.shape().tick().end_of(Tick(tick));
                    let key = Key {
                        due,
                        id: TaskId::new(due, wheel, 7),
                        generation: 0,
                        code: KeyCode(0),
                    };
                    open.space(space)
                        .insert(key::version(&key, 5), [1])
                        .unwrap();
                }
                open.space(space).rotate_memtable_and_wait().unwrap();
            }
        }
    }

    /// Drops, whenever no merge is under way, until no table is left.
    fn drop_all(open: &Open) {
        let tables = || open.space(Space::Look).tree.table_count();
        for _ in 0..1000 {
            drop_tables(open).unwrap();
            if tables() == 0 {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        panic!("{} tables stay", tables());
    }

    fn rows(open: &Open, space: Space) -> usize {
        let rows = open.space(space).range(Vec::new()..key::END.to_vec());
        let is_row = |row: fjall::Guard| key::parse_version(&row.key().unwrap()).is_some();
        rows.filter_map(|row| is_row(row).then_some(())).count()
    }

    #[test]
    fn what_all_clocks_have_passed_goes_from_the_disk_and_nothing_else() {
        let directory = TempDir::new().unwrap();
        let open = opened(&directory);
        let first = NOW.0 / 1000;
        put_clocks(&open, [first, first]);
        put_ticks(&open, first + 1..first + 4);
        drop_tables(&open).unwrap();
        assert_eq!([rows(&open, Space::Due), rows(&open, Space::Look)], [6, 6]);
        // One wheel lags behind: its rows stay, and those that lie in one table with them.
        put_clocks(&open, [first + 3, first + 1]);
        drop_tables(&open).unwrap();
        // Rows of the stretch that the hand stands in stay for the next time.
        assert!((4..=6).contains(&rows(&open, Space::Due)));
        put_clocks(&open, [first + 9, first + 9]);
        drop_all(&open);
        assert_eq!([rows(&open, Space::Due), rows(&open, Space::Look)], [0, 0]);
    }

    #[test]
    fn a_keyspace_that_lost_its_newest_table_pins_no_journal() {
        let directory = TempDir::new().unwrap();
        let open = opened(&directory);
        let first = NOW.0 / 1000;
        put_clocks(&open, [first, first]);
        put_ticks(&open, first + 1..first + 2);
        let look = open.space(Space::Look);
        let newest = look.tree.get_highest_persisted_seqno();
        assert!(newest.is_some());
        put_clocks(&open, [first + 9, first + 9]);
        drop_all(&open);
        assert_eq!(look.tree.table_count(), 0);
        look.rotate_memtable_and_wait().unwrap();
        assert!(look.tree.get_highest_persisted_seqno() > newest);
        // Later that table is dropped too, and none is left that has to show it.
        put_clocks(&open, [first + 99, first + 99]);
        drop_all(&open);
        assert_eq!(look.tree.table_count(), 0);
    }

    #[test]
    fn what_was_dropped_stays_away_over_a_start_and_what_comes_then_is_kept() {
        let directory = TempDir::new().unwrap();
        let life = opened(&directory);
        let again = || open(&directory.path().join("store"), &shape(2)).unwrap();
        let first = NOW.0 / 1000;
        put_clocks(&life, [first, first]);
        put_ticks(&life, first + 1..first + 4);
        put_clocks(&life, [first + 9, first + 9]);
        drop_all(&life);
        drop(life);
        let life = again();
        // Journals that are kept for the clocks may bring rows back. No reader sees them, and they are
        // dropped in time.
        for wheel in life.shape().all_wheels() {
            let seen = hidden(&life, wheel).unwrap();
            assert!(seen.hides(Millis((first + 4) * 1000), i64::MAX));
        }
        for space in [Space::Due, Space::Look] {
            life.space(space).rotate_memtable_and_wait().unwrap();
        }
        put_clocks(&life, [first + 99, first + 99]);
        drop_all(&life);
        put_ticks(&life, first + 100..first + 102);
        drop(life);
        let life = again();
        assert_eq!([rows(&life, Space::Due), rows(&life, Space::Look)], [4, 4]);
    }

    #[test]
    fn a_mark_hides_what_is_not_newer_and_goes_when_the_clock_has_passed() {
        let directory = TempDir::new().unwrap();
        let open = opened(&directory);
        let (first, wheel) = (NOW.0 / 1000, WheelNumber::from_low_bits(1));
        put_clocks(&open, [first, first]);
        let erasure = |tick, newest_written| Erasure {
            tick: Tick(tick),
            newest_written,
        };
        for written in [5, 3] {
            hide(&open, wheel, &[erasure(first + 2, written)]).unwrap();
        }
        let due = |tick: i64| Millis(tick * 1000);
        let seen = hidden(&open, wheel).unwrap();
        assert!(seen.hides(due(first + 2), 5) && !seen.hides(due(first + 2), 6));
        assert!(seen.hides(due(first), i64::MAX) && !seen.hides(due(first + 1), 0));
        assert!(
            !hidden(&open, WheelNumber::from_low_bits(0))
                .unwrap()
                .hides(due(first + 2), 5)
        );
        put_clocks(&open, [first + 2, first + 2]);
        hide(&open, wheel, &[erasure(first + 3, 5)]).unwrap();
        assert_eq!(open.marks().of[&wheel].len(), 1);
        let seen = hidden(&open, wheel).unwrap();
        assert!(seen.hides(due(first + 2), 6) && seen.hides(due(first + 3), 5));
        // A wheel beyond the shape has no rows to erase.
        let beyond = hidden(&open, WheelNumber::from_low_bits(9)).unwrap();
        assert_eq!(beyond.floor(), Millis(i64::MIN));
    }
}
