//! The places say for the job search where a list goes on that the record of a job has named, and the other way round.

use uuid::Uuid;

use crate::{
    flow::stages::query::{filed::Filed, list::Cursor},
    model::{
        entry::Key,
        ids::TaskId,
        job::{Place, Rows},
        time::Millis,
    },
};

/// Returns where a list goes on; none at its beginning. `to` is the end of the starts that are meant, if there is one.
pub(super) fn cursor(place: Place, to: Option<Millis>) -> Option<Cursor> {
    match place {
        Place::Wheels {
            behind,
            through,
            to,
        } => Some(Cursor::in_wheels(behind, through, to)),
        Place::Rows { of, behind } => Some(among(of, behind, to)),
        Place::Start | Place::Letters { .. } | Place::Times { .. } | Place::End => None,
    }
}

/// Returns the place among the rows of a label that is before all of them.
pub(super) fn first_labelled(to: Option<Millis>) -> Cursor {
    among(Rows::Labelled, Uuid::nil(), to)
}

fn among(of: Rows, behind: Uuid, to: Option<Millis>) -> Cursor {
    let to = to.unwrap_or(Millis(Millis::MAX.0 + 1));
    // A list by rows looks at no wheel.
    let through = Millis::MAX;
    let at = Cursor::in_wheels(Key::behind(through), through, to);
    let behind = TaskId::bound(behind);
    match of {
        Rows::Ended => Cursor {
            ended: Some(behind),
            ..at
        },
        Rows::Labelled => Cursor {
            labelled: Some(behind),
            ..at
        },
        Rows::Filed { day, state } => Cursor {
            filed: Some(Filed { day, state, behind }),
            ..at
        },
    }
}

/// Returns the place of a list for the record.
pub(super) fn place(cursor: Option<Cursor>) -> Place {
    let Some(at) = cursor else {
        return Place::End;
    };
    let (of, behind) = if let Some(behind) = at.labelled {
        (Rows::Labelled, behind)
    } else if let Some(behind) = at.ended {
        (Rows::Ended, behind)
    } else if let Some(Filed { day, state, behind }) = at.filed {
        (Rows::Filed { day, state }, behind)
    } else {
        return Place::Wheels {
            behind: at.behind,
            through: at.through,
            to: at.to,
        };
    };
    Place::Rows {
        of,
        behind: behind.uuid(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_where_the_record_says() {
        let behind = Uuid::from_u128(7);
        let wheels = Place::Wheels {
            behind: Key::behind(Millis(5)),
            through: Millis(9),
            to: Millis(8),
        };
        let filed = Rows::Filed {
            day: 20_000,
            state: 3,
        };
        let rows = [Rows::Ended, Rows::Labelled, filed].map(|of| Place::Rows { of, behind });
        for written in rows.into_iter().chain([wheels]) {
            let cursor = cursor(written, Some(Millis(8)));
            assert_eq!(cursor.map(|at| at.to), Some(Millis(8)));
            assert_eq!(place(cursor), written);
        }
        assert_eq!(
            (cursor(Place::Start, None), place(None)),
            (None, Place::End)
        );
        let all = first_labelled(None);
        assert!(all.to > Millis::MAX, "whatever their start");
    }
}
