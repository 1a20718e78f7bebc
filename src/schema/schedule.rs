//! The schedule codec converts a schedule to and from the bytes of its record, and the rows by which its runs are listed.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{
    Malformed, spec_from_message, spec_to_message,
    table::{bytes_of, number, read},
    v1,
};
use crate::model::{
    draft::{BackoffDraft, Defaults, TaskDraft},
    ids::TaskId,
    look_step::LookStep,
    schedule::{
        life::{Line, Missed, Overlap, Pause, Schedule, ScheduleSpec, State},
        run::{Cause, Listed, Run},
    },
    time::{Millis, whole_millis},
};

/// Bits of `task_left_open`; never reused.
mod open {
    pub(super) const COLLECTION: u32 = 1;
    pub(super) const PRIORITY: u32 = 1 << 1;
    pub(super) const MAX_ATTEMPTS: u32 = 1 << 2;
    pub(super) const RETRY_INITIAL: u32 = 1 << 3;
    pub(super) const RETRY_FACTOR: u32 = 1 << 4;
    pub(super) const RETRY_MAX: u32 = 1 << 5;
    pub(super) const RETRY_JITTER: u32 = 1 << 6;
    pub(super) const CLAIM_TIMEOUT: u32 = 1 << 7;
    pub(super) const HEARTBEAT_TIMEOUT: u32 = 1 << 8;
    pub(super) const RETENTION: u32 = 1 << 9;
}

pub(super) const OVERLAPS: [(Overlap, v1::ScheduleOverlap); 4] = [
    (Overlap::Skip, v1::ScheduleOverlap::Skip),
    (Overlap::Allow, v1::ScheduleOverlap::Allow),
    (Overlap::BufferOne, v1::ScheduleOverlap::BufferOne),
    (Overlap::CancelOther, v1::ScheduleOverlap::CancelOther),
];

const MISSED: [(Missed, v1::ScheduleMissed); 3] = [
    (Missed::Latest, v1::ScheduleMissed::Latest),
    (Missed::All, v1::ScheduleMissed::All),
    (Missed::Skip, v1::ScheduleMissed::Skip),
];

const CAUSES: [(Cause, v1::RunCause); 3] = [
    (Cause::Schedule, v1::RunCause::Schedule),
    (Cause::Trigger, v1::RunCause::Trigger),
    (Cause::Backfill, v1::RunCause::Backfill),
];

/// Encodes a schedule.
#[must_use]
pub fn encode_schedule(schedule: &Schedule) -> Bytes {
    let (state, pause) = match &schedule.state {
        State::Live => (v1::ScheduleState::Live, Pause::default()),
        State::Paused(pause) => (v1::ScheduleState::Paused, pause.clone()),
        State::Ended => (v1::ScheduleState::Ended, Pause::default()),
        State::Deleted => (v1::ScheduleState::Deleted, Pause::default()),
    };
    let message = v1::Schedule {
        spec: Some(spec_message(&schedule.spec)),
        incarnation: number_bytes(schedule.incarnation),
        change: number_bytes(schedule.change),
        generation: schedule.generation,
        create_time_ms: schedule.created.0,
        change_time_ms: schedule.changed.0,
        state: state.into(),
        pause_reason: pause.reason,
        paused_by: pause.who,
        pause_time_ms: pause.since.0,
        look_step: schedule.step.bits().into(),
        seq: schedule.seq,
        next_time_ms: schedule.next.map(|at| at.0),
        wake_time_ms: schedule.wake.map(|at| at.0),
        ahead: schedule.ahead.iter().map(run_message).collect(),
        begun_time_ms: schedule.begun.iter().map(|at| at.0).collect(),
        waiting: schedule.waiting.as_ref().map(run_message),
        line_next_ms: schedule.line.map(|line| line.next.0),
        line_last_ms: schedule.line.map(|line| line.last.0),
        used: schedule.used,
        missed: schedule.missed,
        skipped: schedule.skipped,
        zone_data: schedule.zone_data.clone(),
    };
    message.encode_to_vec().into()
}

/// Decodes a schedule.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_schedule(bytes: Bytes) -> Result<Schedule, Malformed> {
    let message = v1::Schedule::decode(bytes)?;
    let state = match v1::ScheduleState::try_from(message.state) {
        Ok(v1::ScheduleState::Live) => State::Live,
        Ok(v1::ScheduleState::Paused) => State::Paused(Pause {
            reason: message.pause_reason,
            who: message.paused_by,
            since: Millis(message.pause_time_ms),
        }),
        Ok(v1::ScheduleState::Ended) => State::Ended,
        Ok(v1::ScheduleState::Deleted) => State::Deleted,
        Ok(v1::ScheduleState::Unspecified) | Err(_) => return Err(Malformed::OutOfRange("state")),
    };
    let ahead = message.ahead.iter().map(run_of);
    Ok(Schedule {
        spec: spec_of(message.spec.ok_or(Malformed::Missing("spec"))?)?,
        incarnation: number_of(&message.incarnation, "incarnation")?,
        change: number_of(&message.change, "change")?,
        generation: message.generation,
        created: Millis(message.create_time_ms),
        changed: Millis(message.change_time_ms),
        state,
        step: step_of(message.look_step)?,
        seq: message.seq,
        next: message.next_time_ms.map(Millis),
        wake: message.wake_time_ms.map(Millis),
        ahead: ahead.collect::<Result<_, _>>()?,
        begun: message.begun_time_ms.into_iter().map(Millis).collect(),
        waiting: message.waiting.as_ref().map(run_of).transpose()?,
        line: message.line_next_ms.zip(message.line_last_ms).map(line_of),
        used: message.used,
        missed: message.missed,
        skipped: message.skipped,
        zone_data: message.zone_data,
    })
}

/// Returns bytes that are the same for equal settings.
#[must_use]
pub fn schedule_bytes(spec: &ScheduleSpec) -> Bytes {
    spec_message(spec).encode_to_vec().into()
}

/// Returns how many bytes the task of a schedule takes in its record.
#[must_use]
pub fn template_bytes(task: &TaskDraft) -> usize {
    template(task).0.encoded_len()
}

/// Encodes the row by which a run is listed.
#[must_use]
pub fn encode_run(listed: &Listed) -> Bytes {
    let Listed {
        run,
        cause,
        skipped,
    } = listed;
    let message = v1::ListedRun {
        id: bytes_of(run.id.uuid()),
        generation: run.generation,
        seq: run.seq,
        time_ms: run.time.0,
        cause: number(&CAUSES, *cause),
        skipped: *skipped,
    };
    message.encode_to_vec().into()
}

/// Decodes the row by which a run is listed.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_run(bytes: Bytes) -> Result<Listed, Malformed> {
    let message = v1::ListedRun::decode(bytes)?;
    Ok(Listed {
        run: Run {
            id: task(&message.id)?,
            generation: message.generation,
            seq: message.seq,
            time: Millis(message.time_ms),
            entered: false,
            late: false,
        },
        cause: read(&CAUSES, message.cause, "cause")?,
        skipped: message.skipped,
    })
}

pub(super) fn spec_message(spec: &ScheduleSpec) -> v1::ScheduleSpec {
    let ScheduleSpec {
        crons,
        every,
        zone,
        start,
        end,
        limit,
        jitter,
        overlap,
        missed,
        window,
        pause_on_failure,
        note,
        labels,
        task,
    } = spec;
    let (task, task_left_open) = template(task);
    let label = |(name, value): (&String, &String)| v1::Label {
        name: name.clone(),
        value: value.clone(),
    };
    v1::ScheduleSpec {
        crons: crons.clone(),
        every_ms: every.map(millis),
        time_zone: zone.clone(),
        start_time_ms: start.map(|at| at.0),
        end_time_ms: end.map(|at| at.0),
        limit: *limit,
        jitter_ms: millis(*jitter),
        overlap: number(&OVERLAPS, stored(*overlap)),
        one_by_one: *overlap == Overlap::OneByOne,
        missed: number(&MISSED, *missed),
        catch_up_window_ms: millis(*window),
        pause_on_failure: *pause_on_failure,
        note: note.clone(),
        labels: labels.iter().map(label).collect(),
        task: Some(task),
        task_left_open,
    }
}

pub(super) fn spec_of(message: v1::ScheduleSpec) -> Result<ScheduleSpec, Malformed> {
    let task = message.task.ok_or(Malformed::Missing("task"))?;
    let open = Open::of(message.task_left_open, &task);
    let task = spec_from_message(task)?;
    let labels = message.labels.into_iter();
    Ok(ScheduleSpec {
        crons: message.crons,
        every: message.every_ms.map(Duration::from_millis),
        zone: message.time_zone,
        start: message.start_time_ms.map(Millis),
        end: message.end_time_ms.map(Millis),
        limit: message.limit,
        jitter: Duration::from_millis(message.jitter_ms),
        overlap: match read(&OVERLAPS, message.overlap, "overlap")? {
            Overlap::Skip if message.one_by_one => Overlap::OneByOne,
            overlap => overlap,
        },
        missed: read(&MISSED, message.missed, "missed")?,
        window: Duration::from_millis(message.catch_up_window_ms),
        pause_on_failure: message.pause_on_failure,
        note: message.note,
        labels: labels.map(|label| (label.name, label.value)).collect(),
        task: opened(task.into(), open),
    })
}

/// Returns the task with something in each of its fields, and the bits of those that were not given.
fn template(task: &TaskDraft) -> (v1::TaskSpec, u32) {
    let full = task.clone().complete(&Defaults::SERVICE);
    let mut message = spec_to_message(&full);
    note_open(&mut message, task);
    (message, left_open(task))
}

/// Notes in the message of a task which fields of its follow-ups were not given.
fn note_open(message: &mut v1::TaskSpec, task: &TaskDraft) {
    for (message, follow) in message.then.iter_mut().zip(&task.then) {
        message.task_left_open = left_open(&follow.task);
        if let Some(message) = &mut message.task {
            note_open(message, &follow.task);
        }
    }
}

/// Returns the bits of the fields of a task that were not given.
fn left_open(task: &TaskDraft) -> u32 {
    let bit = |is_open: bool, bit: u32| if is_open { bit } else { 0 };
    let backoff = &task.backoff;
    bit(task.collection.is_none(), open::COLLECTION)
        | bit(task.priority.is_none(), open::PRIORITY)
        | bit(task.max_attempts.is_none(), open::MAX_ATTEMPTS)
        | bit(backoff.initial.is_none(), open::RETRY_INITIAL)
        | bit(backoff.factor_milli.is_none(), open::RETRY_FACTOR)
        | bit(backoff.max.is_none(), open::RETRY_MAX)
        | bit(backoff.jitter.is_none(), open::RETRY_JITTER)
        | bit(task.claim_timeout.is_none(), open::CLAIM_TIMEOUT)
        | bit(task.heartbeat_timeout.is_none(), open::HEARTBEAT_TIMEOUT)
        | bit(task.retention.is_none(), open::RETENTION)
}

/// The fields of a task, and of those that follow it, that were not given.
struct Open {
    bits: u32,
    then: Vec<Self>,
}

impl Open {
    fn of(bits: u32, message: &v1::TaskSpec) -> Self {
        let follow = |follow: &v1::FollowUp| {
            let task = follow.task.as_ref();
            task.map(|task| Self::of(follow.task_left_open, task))
        };
        Self {
            bits,
            then: message.then.iter().filter_map(follow).collect(),
        }
    }
}

/// Opens the fields again that were not given.
fn opened(task: TaskDraft, open: Open) -> TaskDraft {
    let is_open = |bit: u32| open.bits & bit != 0;
    let then = task.then.into_iter().zip(open.then);
    let then = then.map(|(follow, open)| follow.map(|task| opened(task, open)));
    let backoff = task.backoff;
    TaskDraft {
        collection: task.collection.filter(|_| !is_open(open::COLLECTION)),
        priority: task.priority.filter(|_| !is_open(open::PRIORITY)),
        max_attempts: task.max_attempts.filter(|_| !is_open(open::MAX_ATTEMPTS)),
        backoff: BackoffDraft {
            initial: backoff.initial.filter(|_| !is_open(open::RETRY_INITIAL)),
            factor_milli: backoff
                .factor_milli
                .filter(|_| !is_open(open::RETRY_FACTOR)),
            max: backoff.max.filter(|_| !is_open(open::RETRY_MAX)),
            jitter: backoff.jitter.filter(|_| !is_open(open::RETRY_JITTER)),
        },
        claim_timeout: task.claim_timeout.filter(|_| !is_open(open::CLAIM_TIMEOUT)),
        heartbeat_timeout: task
            .heartbeat_timeout
            .filter(|_| !is_open(open::HEARTBEAT_TIMEOUT)),
        retention: task.retention.filter(|_| !is_open(open::RETENTION)),
        then: then.collect(),
        ..task
    }
}

const fn line_of((next, last): (i64, i64)) -> Line {
    Line {
        next: Millis(next),
        last: Millis(last),
    }
}

/// Returns the policy that stores keep a number of.
const fn stored(overlap: Overlap) -> Overlap {
    match overlap {
        Overlap::OneByOne => Overlap::Skip,
        other => other,
    }
}

fn run_message(run: &Run) -> v1::ScheduleRun {
    v1::ScheduleRun {
        id: bytes_of(run.id.uuid()),
        generation: run.generation,
        seq: run.seq,
        time_ms: run.time.0,
        entered: run.entered,
        late: run.late,
    }
}

fn run_of(message: &v1::ScheduleRun) -> Result<Run, Malformed> {
    Ok(Run {
        id: task(&message.id)?,
        generation: message.generation,
        seq: message.seq,
        time: Millis(message.time_ms),
        entered: message.entered,
        late: message.late,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(whole_millis(duration)).unwrap_or_default()
}

fn number_bytes(number: u128) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

pub(super) fn number_of(bytes: &[u8], name: &'static str) -> Result<u128, Malformed> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| Malformed::OutOfRange(name))?;
    Ok(u128::from_be_bytes(bytes))
}

pub(super) fn step_of(number: u32) -> Result<LookStep, Malformed> {
    let step = u8::try_from(number)
        .ok()
        .filter(|step| *step < LookStep::COUNT);
    step.map(LookStep::from_low_bits)
        .ok_or(Malformed::OutOfRange("look_step"))
}

fn task(bytes: &[u8]) -> Result<TaskId, Malformed> {
    let id = Uuid::from_slice(bytes).map_err(|_| Malformed::OutOfRange("id"))?;
    TaskId::from_uuid(id).ok_or(Malformed::OutOfRange("id"))
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
