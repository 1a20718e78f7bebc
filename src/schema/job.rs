//! The job codec converts a job to and from the bytes of its record, for the nodes that lead it.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{
    Malformed, schedule,
    table::{bytes_of, number, read},
    v1,
};
use crate::model::{
    entry::{Key, KeyCode},
    ids::TaskId,
    job::{Backfill, Counts, Job, JobFilter, JobItem, JobKind, JobState, Lease, Place, Rows},
    schedule::life::Overlap,
    time::Millis,
};

const KINDS: [(JobKind, v1::JobKind); 7] = [
    (JobKind::Cancel, v1::JobKind::Cancel),
    (JobKind::Redrive, v1::JobKind::Redrive),
    (JobKind::Reschedule, v1::JobKind::Reschedule),
    (JobKind::Delete, v1::JobKind::Delete),
    (JobKind::Backfill, v1::JobKind::Backfill),
    (JobKind::Run, v1::JobKind::Run),
    (JobKind::Reopen, v1::JobKind::Reopen),
];

const STATES: [(JobState, v1::JobState); 6] = [
    (JobState::Pending, v1::JobState::Pending),
    (JobState::Running, v1::JobState::Running),
    (JobState::Paused, v1::JobState::Paused),
    (JobState::Completed, v1::JobState::Completed),
    (JobState::Cancelled, v1::JobState::Cancelled),
    (JobState::Failed, v1::JobState::Failed),
];

/// Encodes a job.
#[must_use]
pub fn encode_job(job: &Job) -> Bytes {
    let Job {
        kind,
        filter,
        by_rows,
        backfill,
        start,
        rate_milli,
        dry_run,
        created,
        request,
        state,
        ended,
        lease,
        page,
        items,
        tries,
        place,
        searches_failed,
        not_before,
        counts,
        estimate,
        sample,
        error,
    } = job;
    let is_later = *by_rows || backfill.as_ref().is_some_and(|of| of.is_strict());
    let (kind, later_kind) = kinds(*kind, is_later);
    let message = v1::Job {
        kind,
        later_kind,
        by_rows: *by_rows,
        estimate: *estimate,
        filter: Some(filter_message(filter)),
        start_time_ms: start.map(|at| at.0),
        rate_milli: *rate_milli,
        dry_run: *dry_run,
        create_time_ms: created.0,
        request_hash: request.map(|hash| Bytes::copy_from_slice(&hash.to_be_bytes())),
        state: number(&STATES, *state),
        end_time_ms: ended.map(|at| at.0),
        leader: lease.map(|lease| bytes_of(lease.node)),
        lease_until_ms: lease.map_or(0, |lease| lease.until.0),
        page: *page,
        items: items.iter().map(item_message).collect(),
        tries: *tries,
        place: place_message(place),
        searches_failed: *searches_failed,
        not_before_ms: not_before.0,
        done: counts.done,
        skipped: counts.skipped,
        failed: counts.failed,
        matching: counts.matching,
        sample: sample.iter().map(|id| bytes_of(id.uuid())).collect(),
        error: error.clone(),
        backfill: backfill.as_deref().map(backfill_message),
    };
    message.encode_to_vec().into()
}

/// Returns the two numbers of a kind. Nodes of an earlier version would look for the tasks of a later job in another way: they
/// cannot read it, and leave it to others.
fn kinds(kind: JobKind, is_later: bool) -> (i32, i32) {
    let kind = number(&KINDS, kind);
    if is_later {
        (v1::JobKind::Later.into(), kind)
    } else {
        (kind, 0)
    }
}

fn item_message(item: &JobItem) -> v1::JobItem {
    v1::JobItem {
        id: bytes_of(item.id.uuid()),
        generation: item.generation,
        time_ms: item.time.map(|at| at.0),
    }
}

/// Decodes a job.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_job(bytes: Bytes) -> Result<Job, Malformed> {
    let message = v1::Job::decode(bytes)?;
    let lease = message.leader.map(|node| {
        let until = Millis(message.lease_until_ms);
        uuid(&node, "leader").map(|node| Lease { node, until })
    });
    let request = message.request_hash.map(|hash| {
        let hash: Result<[u8; 16], _> = hash.as_ref().try_into();
        hash.map(u128::from_be_bytes)
            .map_err(|_| Malformed::OutOfRange("request_hash"))
    });
    let items = message.items.iter().map(|item| {
        Ok(JobItem {
            id: task(&item.id, "items.id")?,
            generation: item.generation,
            time: item.time_ms.map(Millis),
        })
    });
    let sample = message.sample.iter().map(|id| task(id, "sample"));
    let kind = if message.kind == i32::from(v1::JobKind::Later) {
        message.later_kind
    } else {
        message.kind
    };
    Ok(Job {
        kind: read(&KINDS, kind, "kind")?,
        by_rows: message.by_rows,
        estimate: message.estimate,
        filter: filter(message.filter.ok_or(Malformed::Missing("filter"))?),
        start: message.start_time_ms.map(Millis),
        rate_milli: message.rate_milli,
        dry_run: message.dry_run,
        created: Millis(message.create_time_ms),
        request: request.transpose()?,
        state: read(&STATES, message.state, "state")?,
        ended: message.end_time_ms.map(Millis),
        lease: lease.transpose()?,
        page: message.page,
        items: items.collect::<Result<_, Malformed>>()?,
        tries: message.tries,
        place: place(message.place)?,
        searches_failed: message.searches_failed,
        not_before: Millis(message.not_before_ms),
        counts: Counts {
            done: message.done,
            skipped: message.skipped,
            failed: message.failed,
            matching: message.matching,
        },
        sample: sample.collect::<Result<_, _>>()?,
        error: message.error,
        backfill: message.backfill.map(backfill_of).transpose()?.map(Box::new),
    })
}

fn filter_message(filter: &JobFilter) -> v1::JobFilter {
    let JobFilter {
        callback,
        collection,
        state,
        labels,
        from,
        to,
        error,
    } = filter;
    let label = |(name, value): (&String, &String)| v1::Label {
        name: name.clone(),
        value: value.clone(),
    };
    v1::JobFilter {
        callback: callback.clone(),
        collection: collection.clone(),
        state: state.clone(),
        labels: labels.iter().map(label).collect(),
        start_time_from_ms: from.map(|at| at.0),
        start_time_to_ms: to.map(|at| at.0),
        error: error.clone(),
    }
}

fn filter(message: v1::JobFilter) -> JobFilter {
    let labels = message.labels.into_iter();
    JobFilter {
        callback: message.callback,
        collection: message.collection,
        state: message.state,
        labels: labels.map(|label| (label.name, label.value)).collect(),
        from: message.start_time_from_ms.map(Millis),
        to: message.start_time_to_ms.map(Millis),
        error: message.error,
    }
}

fn backfill_message(backfill: &Backfill) -> v1::JobBackfill {
    v1::JobBackfill {
        schedule: backfill.schedule.clone(),
        incarnation: Bytes::copy_from_slice(&backfill.incarnation.to_be_bytes()),
        seed: Bytes::copy_from_slice(&backfill.seed.to_be_bytes()),
        generation: backfill.generation,
        look_step: backfill.step.bits().into(),
        anchor_time_ms: backfill.anchor.0,
        spec: Some(schedule::spec_message(&backfill.spec)),
        from_time_ms: backfill.from.0,
        to_time_ms: backfill.to.0,
        overlap: (backfill.overlap != Overlap::Allow)
            .then(|| number(&schedule::OVERLAPS, backfill.overlap)),
        last: backfill.last.map(|id| bytes_of(id.uuid())),
    }
}

fn backfill_of(message: v1::JobBackfill) -> Result<Backfill, Malformed> {
    Ok(Backfill {
        schedule: message.schedule,
        incarnation: schedule::number_of(&message.incarnation, "backfill.incarnation")?,
        seed: schedule::number_of(&message.seed, "backfill.seed")?,
        generation: message.generation,
        step: schedule::step_of(message.look_step)?,
        anchor: Millis(message.anchor_time_ms),
        spec: schedule::spec_of(message.spec.ok_or(Malformed::Missing("backfill.spec"))?)?,
        from: Millis(message.from_time_ms),
        to: Millis(message.to_time_ms),
        overlap: match message.overlap {
            None => Overlap::Allow,
            Some(overlap) => read(&schedule::OVERLAPS, overlap, "backfill.overlap")?,
        },
        last: message
            .last
            .map(|id| task(&id, "backfill.last"))
            .transpose()?,
    })
}

fn place_message(place: &Place) -> Option<v1::job::Place> {
    match *place {
        Place::Start => None,
        Place::Wheels {
            behind:
                Key {
                    due,
                    id,
                    generation,
                    code,
                },
            through,
            to,
        } => Some(v1::job::Place::Wheels(v1::WheelPlace {
            due_ms: due.0,
            id: bytes_of(id.uuid()),
            generation,
            code: code.0,
            through_ms: through.0,
            to_ms: to.0,
        })),
        Place::Letters { time, id } => Some(v1::job::Place::Letters(v1::LetterPlace {
            time_ms: time.0,
            id: bytes_of(id),
        })),
        Place::Rows { of, behind } => Some(v1::job::Place::Rows(row_place(of, behind))),
        Place::Times { behind } => Some(v1::job::Place::BehindTimeMs(behind.0)),
        Place::End => Some(v1::job::Place::End(true)),
    }
}

fn place(message: Option<v1::job::Place>) -> Result<Place, Malformed> {
    Ok(match message {
        None => Place::Start,
        Some(v1::job::Place::Wheels(at)) => Place::Wheels {
            behind: Key {
                due: Millis(at.due_ms),
                // It may be a bound between the ids of tasks.
                id: TaskId::bound(uuid(&at.id, "wheels.id")?),
                generation: at.generation,
                code: KeyCode(at.code),
            },
            through: Millis(at.through_ms),
            to: Millis(at.to_ms),
        },
        Some(v1::job::Place::Letters(at)) => Place::Letters {
            time: Millis(at.time_ms),
            id: uuid(&at.id, "letters.id")?,
        },
        Some(v1::job::Place::Rows(at)) => Place::Rows {
            of: match v1::JobRows::try_from(at.of) {
                Ok(v1::JobRows::Ended) => Rows::Ended,
                Ok(v1::JobRows::Labelled) => Rows::Labelled,
                Ok(v1::JobRows::Filed) => Rows::Filed {
                    day: at.day,
                    state: u8::try_from(at.state)
                        .map_err(|_| Malformed::OutOfRange("rows.state"))?,
                },
                Ok(v1::JobRows::Unspecified) | Err(_) => {
                    return Err(Malformed::OutOfRange("rows.of"));
                }
            },
            behind: uuid(&at.id, "rows.id")?,
        },
        Some(v1::job::Place::BehindTimeMs(behind)) => Place::Times {
            behind: Millis(behind),
        },
        Some(v1::job::Place::End(_)) => Place::End,
    })
}

fn row_place(of: Rows, behind: Uuid) -> v1::RowPlace {
    let (rows, day, state) = match of {
        Rows::Ended => (v1::JobRows::Ended, 0, 0),
        Rows::Filed { day, state } => (v1::JobRows::Filed, day, state.into()),
        Rows::Labelled => (v1::JobRows::Labelled, 0, 0),
    };
    v1::RowPlace {
        of: rows.into(),
        id: bytes_of(behind),
        day,
        state,
    }
}

fn uuid(bytes: &[u8], name: &'static str) -> Result<Uuid, Malformed> {
    Uuid::from_slice(bytes).map_err(|_| Malformed::OutOfRange(name))
}

fn task(bytes: &[u8], name: &'static str) -> Result<TaskId, Malformed> {
    let id = uuid(bytes, name)?;
    TaskId::from_uuid(id).ok_or(Malformed::OutOfRange(name))
}
