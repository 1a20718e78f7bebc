//! The rows of schedules: when to look at which ([`Wake`]), and the runs of each, the newest first.
//!
//! - Wakes. Partition: second. Order: reason and name of the schedule. The value is the time, and of a repair up to which run. A
//!   row lives for [`WAKE_KEPT`] behind its time.
//! - Runs. Partition: name of the schedule. Order: time and number, both descending, then the id. A row lives for [`RUN_LISTED`]
//!   behind its time.

use bytes::Bytes;

use crate::{
    limits::{RUN_LISTED, WAKE_KEPT},
    model::{schedule::run::Listed, time::Millis},
    schema::{encode_run, sort_key},
    store::index::{IndexKind, IndexPut, Partition, Place, Refused},
};

/// First byte of the names of the partitions of wakes.
const WAKES: u8 = 0;

/// First byte of the names of the partitions of runs.
const RUNS: u8 = 1;

/// The reason of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::flow) enum Why {
    /// Its record says so.
    Due,
    /// To make sure that runs were entered: those of this incarnation, up to this number.
    Repair { incarnation: u128, seq: u64 },
}

/// A look at a schedule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::flow) struct Wake {
    pub(in crate::flow) at: Millis,
    pub(in crate::flow) name: String,
    pub(in crate::flow) why: Why,
}

/// Returns the second that a time lies in.
pub(in crate::flow) const fn second_of(at: Millis) -> i64 {
    at.0.div_euclid(1000)
}

/// Returns the partition of the looks of a second.
pub(in crate::flow) fn wakes(second: i64) -> Result<Partition, Refused> {
    let name = [&[WAKES], &second.to_be_bytes()[..]].concat();
    Partition::new(IndexKind::Schedule, name)
}

/// Returns the row of a look. Two looks of one second at one schedule are one row if they have the same reason: the later is as
/// good as both.
pub(in crate::flow) fn wake(
    name: &str,
    at: Millis,
    why: Why,
    written: i64,
) -> Result<IndexPut, Refused> {
    let (kind, value) = match why {
        Why::Due => (0, at.0.to_be_bytes().to_vec()),
        Why::Repair { incarnation, seq } => {
            let mut value = at.0.to_be_bytes().to_vec();
            value.extend_from_slice(&incarnation.to_be_bytes());
            value.extend_from_slice(&seq.to_be_bytes());
            (1, value)
        }
    };
    let mut sort = vec![kind];
    sort.extend_from_slice(name.as_bytes());
    let place = Place::new(wakes(second_of(at))?, sort)?;
    Ok(IndexPut::new(place, value, written)?.until(at.after(WAKE_KEPT)))
}

/// Reads the row of a look; a later version may write others.
pub(in crate::flow) fn read_wake(sort: &Bytes, value: &Bytes) -> Option<Wake> {
    let (kind, name) = sort.split_first()?;
    let (at, rest) = value.split_first_chunk::<8>()?;
    let why = match kind {
        0 => Why::Due,
        1 => {
            let (incarnation, rest) = rest.split_first_chunk::<16>()?;
            let (seq, _) = rest.split_first_chunk::<8>()?;
            Why::Repair {
                incarnation: u128::from_be_bytes(*incarnation),
                seq: u64::from_be_bytes(*seq),
            }
        }
        _ => return None,
    };
    Some(Wake {
        at: Millis(i64::from_be_bytes(*at)),
        name: String::from_utf8(name.to_vec()).ok()?,
        why,
    })
}

/// Returns the partition of the runs of a schedule.
pub(in crate::flow) fn runs(name: &str) -> Result<Partition, Refused> {
    Partition::new(IndexKind::Schedule, [&[RUNS], name.as_bytes()].concat())
}

/// Returns the place right before the rows of the runs of a time.
pub(in crate::flow) fn before_runs_of(time: Millis) -> Bytes {
    let later = sort_key::descending(time.0.max(0).saturating_add(1));
    // The rest of a sort key, a number and an id, has as many bytes.
    [&later[..], &[u8::MAX; 24]].concat().into()
}

/// Returns the row of a run.
pub(in crate::flow) fn run(
    name: &str,
    listed: &Listed,
    written: i64,
    now: Millis,
) -> Result<IndexPut, Refused> {
    let time = listed.run.time;
    let mut sort = sort_key::descending(time.0.max(0)).to_vec();
    sort.extend_from_slice(&(u64::MAX - listed.run.seq).to_be_bytes());
    sort.extend_from_slice(listed.run.id.uuid().as_bytes());
    let put = IndexPut::new(Place::new(runs(name)?, sort)?, encode_run(listed), written)?;
    Ok(put.until(time.max(now).after(RUN_LISTED)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{
            ids::TaskId,
            schedule::run::{Cause, Run},
        },
        schema::decode_run,
    };

    #[test]
    fn a_row_gives_back_its_look_and_lies_in_its_second() {
        let at = Millis(1_800_000_000_437);
        let repair = Why::Repair {
            incarnation: 1 << 99,
            seq: 5,
        };
        for why in [Why::Due, repair] {
            let put = wake("nightly/ä", at, why, 1).unwrap();
            let read = read_wake(put.place().sort(), put.value());
            let expected = Wake {
                at,
                name: "nightly/ä".to_owned(),
                why,
            };
            assert_eq!(read, Some(expected));
            assert_eq!(put.place().partition(), &wakes(1_800_000_000).unwrap());
            assert_eq!(put.expires, Some(at.after(WAKE_KEPT)));
        }
        assert_eq!(
            read_wake(&Bytes::from_static(b"\x07a"), &Bytes::from_static(&[0; 8])),
            None
        );
        assert_eq!(read_wake(&Bytes::new(), &Bytes::new()), None);
    }

    #[test]
    fn the_bytes_of_looks_are_unchanged() {
        let at = Millis(1_800_000_000_437);
        let due = wake("nightly", at, Why::Due, 7).unwrap();
        let partition = due.place().partition();
        assert_eq!(partition.kind(), IndexKind::Schedule);
        assert_eq!(&partition.name()[..], b"\0\0\0\0\0\x6b\x49\xd2\0");
        assert_eq!(&due.place().sort()[..], b"\0nightly");
        assert_eq!(&due.value()[..], b"\0\0\x01\xa3\x18\x5c\x51\xb5");
        let why = Why::Repair {
            incarnation: 3,
            seq: 5,
        };
        let repair = wake("nightly", at, why, 7).unwrap();
        assert_eq!(&repair.place().sort()[..], b"\x01nightly");
        assert_eq!(repair.value().len(), 32);
        assert_eq!(&repair.value()[23..], b"\x03\0\0\0\0\0\0\0\x05");
    }

    #[test]
    fn the_bytes_of_runs_are_unchanged_and_the_newest_is_first() {
        let id: TaskId = "01b8dac5-b4fa-8201-8123-456789abcdef".parse().unwrap();
        let uuid = id.uuid();
        let listed = |time: i64, seq: u64| Listed {
            run: Run {
                id,
                generation: 2,
                seq,
                time: Millis(time),
                entered: false,
                late: false,
            },
            cause: Cause::Trigger,
            skipped: false,
        };
        let one = listed(1_800_000_000_437, 5);
        let put = run("nightly", &one, 7, Millis(9)).unwrap();
        let partition = put.place().partition();
        assert_eq!(partition.kind(), IndexKind::Schedule);
        assert_eq!(&partition.name()[..], b"\x01nightly");
        let sort = [
            &b"\x7f\xff\xfe\x5c\xe7\xa3\xae\x4a"[..],
            b"\xff\xff\xff\xff\xff\xff\xff\xfa",
            uuid.as_bytes(),
        ];
        assert_eq!(put.place().sort(), &sort.concat());
        assert_eq!(put.expires, Some(one.run.time.after(RUN_LISTED)));
        assert_eq!(decode_run(put.value().clone()), Ok(one));
        let sort = |time, seq| {
            run("a", &listed(time, seq), 1, Millis(0))
                .unwrap()
                .place()
                .clone()
        };
        let sorts = [sort(9, 2), sort(9, 1), sort(8, 3), sort(0, 0), sort(-5, 0)];
        assert!(sorts[..4].is_sorted_by(|one, next| one < next) && sorts[3] == sorts[4]);
    }
}
