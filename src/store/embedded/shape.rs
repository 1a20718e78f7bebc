//! The shape row tells a start of the store by which shape the rows of its database were written.
//!
//! `FORMAT` beside the database says the shape as well, and it can be replaced by another that is whole: by hand, by the file
//! of another directory, by a copy that was changed. With another length of ticks or number of slots no row lies where it
//! is looked for: nothing fires and nothing is overdue. So the database holds its shape itself, under the check sums of its
//! journal and its tables, and a backup carries it as one of the rows. A database of an earlier version gets the row when it
//! is opened first, where the hands of its clocks are in order by that shape: with ticks of another length they are not.

use fjall::Slice;

use super::{
    clock,
    disk::{
        database::{Open, Space},
        directory::lines_of,
    },
    faults::fault,
    key,
    writing::group::Group,
};
use crate::{model::wheel::Shape, store::Error};

/// Refuses a database whose rows were written by another shape than this, which `teller` says.
///
/// # Errors
/// [`Error::Corrupt`], with both shapes; the disk's.
pub(super) fn check(open: &Open, shape: &Shape, teller: &str) -> Result<(), Error> {
    if let Some(kept) = kept(open)? {
        return compare(&kept, shape, teller);
    }
    for wheel in shape.all_wheels() {
        let clock = clock::read_if_any(open, wheel)?;
        if clock.is_some_and(|clock| !clock.is_sound(shape)) {
            let tick_ms = shape.tick().duration().as_millis();
            return Err(refused(&format!(
                "{teller} says tick_ms={tick_ms}, but the clock of wheel {} was written with ticks of another length",
                wheel.get()
            )));
        }
    }
    Ok(())
}

fn refused(reason: &str) -> Error {
    Error::Corrupt {
        operation: "open the store",
        reason: format!(
            "{reason}: it was changed; take it from a copy, and configure what the rows were written with"
        ),
    }
}

/// Compares the row of the shape with the shape that `teller` says.
///
/// # Errors
/// [`Error::Corrupt`], with both shapes.
pub(super) fn compare(kept: &[u8], shape: &Shape, teller: &str) -> Result<(), Error> {
    let lines = lines_of(shape);
    if kept == lines.as_bytes() {
        return Ok(());
    }
    let in_words = |lines: &str| lines.trim_end().replace('\n', ", ");
    Err(refused(&format!(
        "{teller} says {}, but the rows were written with {}",
        in_words(&lines),
        in_words(&String::from_utf8_lossy(kept))
    )))
}

/// Adds the row to a database that has none.
///
/// # Errors
/// The disk's.
pub(super) fn keep(open: &Open, shape: &Shape, group: &mut Group<'_>) -> Result<(), Error> {
    if kept(open)?.is_none() {
        let lines = Slice::from(lines_of(shape).into_bytes());
        group.insert(Space::Clock, key::shape(), lines);
    }
    Ok(())
}

fn kept(open: &Open) -> Result<Option<Slice>, Error> {
    let kept = open.get(Space::Clock, &key::shape());
    kept.map_err(|cause| fault("open the store", &cause))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc, time::Duration};

    use tempfile::TempDir;

    use super::*;
    use crate::{
        model::{
            time::{Millis, TickLength},
            wheel::Shape,
        },
        store::embedded::{
            Mode, Settings, Store,
            backup::{self, source::Source},
            sealed::sealed,
        },
        time_source::TimeSource,
    };

    fn shape(wheels: u16, tick_ms: u64, slots: i64) -> Shape {
        let tick = TickLength::new(Duration::from_millis(tick_ms)).unwrap();
        Shape::new(wheels, tick, slots).unwrap()
    }

    fn opened(directory: &Path, shape: Shape) -> Result<Arc<Store>, Error> {
        let settings = Settings {
            mode: Mode::Inline,
            ..Settings::new(directory, shape)
        };
        Store::open(
            settings,
            &TimeSource::simulated(Millis(1_790_000_000_000), 1),
        )
    }

    /// Writes a description of another shape over that of a directory, with its check sum.
    fn describe(directory: &Path, other: &Shape) {
        let file = directory.join("FORMAT");
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().filter(|line| {
            ["tickwheel", "format="]
                .iter()
                .any(|begin| line.starts_with(begin))
        });
        let head: String = lines.map(|line| format!("{line}\n")).collect();
        fs::write(&file, sealed(format!("{head}{}", lines_of(other)))).unwrap();
    }

    #[test]
    fn a_description_that_was_changed_together_with_its_check_sum_is_refused() {
        let directory = TempDir::new().unwrap();
        let ours = shape(4, 1000, 64);
        drop(opened(directory.path(), ours).unwrap());
        drop(opened(directory.path(), ours).unwrap());
        for other in [
            shape(4, 2000, 64),
            shape(4, 500, 64),
            shape(4, 1000, 128),
            shape(4, 1000, 32),
            shape(8, 1000, 64),
            shape(2, 1000, 64),
        ] {
            describe(directory.path(), &other);
            // The shape that the file asks for is configured, as the refusal of the other one advises.
            opened(directory.path(), ours).unwrap_err();
            let refusal = opened(directory.path(), other).unwrap_err().to_string();
            assert!(refusal.contains("FORMAT"), "{refusal}");
        }
        let refused = shape(4, 2000, 64);
        describe(directory.path(), &refused);
        let refusal = opened(directory.path(), refused).unwrap_err().to_string();
        let words = "says wheels=4, tick_ms=2000, slots=64, but the rows were written with wheels=4, tick_ms=1000, slots=64";
        assert!(refusal.contains(words), "{refusal}");
        describe(directory.path(), &ours);
        drop(opened(directory.path(), ours).unwrap());
    }

    /// Removes the row, as a database of an earlier version has none.
    fn age(directory: &Path, ours: Shape) {
        let store = opened(directory, ours).unwrap();
        let open = store.shared.open().unwrap();
        open.space(Space::Clock).remove(key::shape()).unwrap();
    }

    #[test]
    fn a_database_without_the_row_gets_it_when_it_is_opened() {
        let directory = TempDir::new().unwrap();
        let (ours, other) = (shape(4, 1000, 64), shape(4, 1000, 128));
        age(directory.path(), ours);
        drop(opened(directory.path(), ours).unwrap());
        describe(directory.path(), &other);
        opened(directory.path(), other).unwrap_err();
    }

    #[test]
    fn the_clocks_of_a_database_without_the_row_tell_the_length_of_its_ticks() {
        let directory = TempDir::new().unwrap();
        let ours = shape(4, 1000, 64);
        age(directory.path(), ours);
        for tick_ms in [500, 999, 1001, 2000] {
            let other = shape(4, tick_ms, 64);
            describe(directory.path(), &other);
            let refusal = opened(directory.path(), other).unwrap_err().to_string();
            assert!(refusal.contains("ticks of another length"), "{refusal}");
        }
        describe(directory.path(), &ours);
        drop(opened(directory.path(), ours).unwrap());
    }

    #[test]
    fn a_backup_carries_the_shape_of_its_rows() {
        let directory = TempDir::new().unwrap();
        let ours = shape(4, 1000, 64);
        let store = opened(directory.path(), ours).unwrap();
        let mut pieces: Vec<Vec<u8>> = store.backup().unwrap().map(Result::unwrap).collect();
        let copy = pieces.concat();
        drop(store);
        let target = TempDir::new().unwrap();
        backup::restore::restore(Source::of(&*copy).unwrap(), target.path()).unwrap();
        drop(opened(target.path(), ours).unwrap());
        let other = shape(4, 2000, 64);
        describe(target.path(), &other);
        opened(target.path(), other).unwrap_err();
        // A head that was changed together with its check sum does not fit the row.
        let head = String::from_utf8(pieces[0].clone()).unwrap();
        let (lines, _) = head.split_once("check=").unwrap();
        let lines = lines.replace("tick_ms=1000", "tick_ms=2000");
        pieces[0] = format!("{}\n", sealed(lines)).into_bytes();
        let (changed, untouched) = (pieces.concat(), TempDir::new().unwrap());
        for refused in [
            backup::restore::check(Source::of(&*changed).unwrap()),
            backup::restore::restore(Source::of(&*changed).unwrap(), untouched.path()),
        ] {
            let refusal = refused.unwrap_err().to_string();
            assert!(refusal.contains("the head of the backup says"), "{refusal}");
        }
        assert!(!untouched.path().join("FORMAT").exists());
    }
}
