//! The read of first publications lists, for the counts of a new process, the tasks that waited for theirs
//! when it began.

use crate::{
    model::{entry::Key, time::Millis},
    store::{
        Error, Firsts,
        embedded::{
            disk::database::{Open, Space},
            faults::fault,
            key, value,
        },
        row,
    },
};

/// Reads the keys of due entries that are the first of their generation, of all wheels, as they were before
/// `before` microseconds: for each place, the newest version that is older. Looks at `max` rows or, to finish
/// a place, a few more.
pub(in crate::store::embedded) fn read(
    open: &Open,
    from: Millis,
    behind: Option<Key>,
    before: i64,
    max: usize,
) -> Result<Firsts, Error> {
    let lower = match behind {
        Some(behind) => key::behind(&key::place(&behind)),
        None => key::before_stretch(from),
    };
    let mut found = Firsts::default();
    // The place that is being read: its key, and whether its version has been seen.
    let mut place: Option<(Key, bool)> = None;
    let mut rows = 0;
    for row in open.space(Space::Due).range(lower..key::END.to_vec()) {
        let (bytes, bytes_of_value) = row
            .into_inner()
            .map_err(|cause| fault("count what is pending", &cause))?;
        rows += 1;
        // Markers of the erasure are no rows of a task.
        let Some((key, written)) = key::parse_version(&bytes) else {
            continue;
        };
        let seen = match &mut place {
            Some((last, seen)) if *last == key => seen,
            last => {
                if rows > max {
                    found.behind = last.map(|(key, _)| key);
                    return Ok(found);
                }
                &mut last.insert((key, false)).1
            }
        };
        if written >= before || std::mem::replace(seen, true) || key.due < from {
            continue;
        }
        if let [kind, flags, ..] = *bytes_of_value
            && row::is_first(kind.cast_signed(), flags.cast_signed())
        {
            let entry = value::parse_entry(key, written, &bytes_of_value);
            let callback = entry
                .ok()
                .and_then(|entry| entry.spec.callback().map(str::to_owned));
            found.firsts.push((key, callback));
        }
    }
    Ok(found)
}
