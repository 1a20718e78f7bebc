//! This model searches for a key that names two live tasks, for an answer without a task, and for a promise that is lost.
//!
//! Two clients register with one key, and each may repeat once. A process dies between any two steps, or right after it has
//! sent a write. A conditional write has an unknown outcome (applied, applied later, never), and an answer is lost. Tasks
//! are claimed, retried, ended and cancelled, and their rows and the record expire, at any time that the rules allow.
//!
//! The decision about a record is the real one ([`key::judge`]). `ignore` is a request with a `key`; `reject` differs in its
//! answer only. Not in the model: a redrive, a stop by the user of a running task, and clocks.

mod client;
mod world;

use std::{sync::Arc, time::Duration};

use tickwheel::model::{
    backoff::Backoff,
    ids::TaskId,
    key::{self, Holder, Verdict},
    state::{Detail, State as Life, TaskRow},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::Millis,
    wheel::WheelNumber,
};
use uuid::Uuid;

use self::world::{Client, Entry, Mode, Next, Row, TASKS, World};
use super::search::{Model, Step, Steps, breaks, holds, whole};

const TWO: &str = "a key names two live tasks";
const RESURRECTED: &str = "a task that had ended was claimed again";
const NO_TASK: &str = "an answer names a task that does not exist";
const NONE_LEFT: &str = "the task that was to come instead is lost";
const OTHER: &str = "a repetition got another task";

/// The part of the rules that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The entry is written before the record names its task.
    EntryFirst,
    /// A record whose task is not there is taken over.
    Takeover,
    /// The record expires while its task lives.
    RecordExpiresLive,
    /// The row expires before the record, or under a request.
    RowExpiresFirst,
    /// A task that is not there is answered without writing it.
    NoHelp,
    /// A replacement moves the record and leaves the old task alone.
    RecordOnly,
    /// A running task that ends wipes what comes instead.
    EndWipes,
    /// An ended task is taken for a free key, whatever comes instead.
    NotFollowed,
    /// The look of a replaced task only drops.
    LookDrops,
    /// A client does not read its own row after an unknown outcome.
    OwnRowNotRead,
}

#[derive(Debug)]
struct Keys {
    flaw: Flaw,
    modes: [Mode; 2],
    crashes: u8,
    lost: u8,
    spec: Arc<Spec>,
}

impl Keys {
    fn new(flaw: Flaw, modes: [Mode; 2], crashes: u8, lost: u8) -> Self {
        let target = Target::Callback {
            name: "c".to_owned(),
        };
        Self {
            flaw,
            modes,
            crashes,
            lost,
            spec: Arc::new(Spec {
                indexed: Vec::new(),
                target,
                key: Some("k".to_owned()),
                collection: String::new(),
                priority: Priority::Normal,
                max_attempts: 3,
                backoff: Backoff::QUICK,
                claim_timeout: Duration::from_secs(60),
                heartbeat_timeout: Duration::from_secs(30),
                attempt_timeout: None,
                ordering_key: None,
                dead_retention: None,
                expire_after: None,
                retention: Duration::from_secs(60),
                create_time: Millis::EPOCH,
                asked_start: None,
                notify: None,
                actions: None,
                kin: None,
                after: None,
                then: Vec::new(),
                scheduled: None,
                body: Body::Inline(Content::default()),
            }),
        }
    }

    fn holder(&self, task: usize) -> Holder {
        let wheel = WheelNumber::from_low_bits(0);
        Holder {
            id: TaskId::new(Millis(1), wheel, task as u64),
            generation: 0,
            spec: Arc::clone(&self.spec),
        }
    }

    /// Judges the record by the real rule.
    fn judge(&self, world: &World, client: &Client) -> Verdict {
        let holder = self.holder(client.named);
        let at = client.named - 1;
        let state = match world.rows[at] {
            Row::Absent | Row::Expired => None,
            Row::Claimed => Some(Life::Claimed),
            Row::Retrying => Some(Life::Retrying),
            Row::Ended => Some(Life::Succeeded),
        };
        let instead = world.instead[at];
        let follows = instead != 0 && self.flaw != Flaw::NotFollowed;
        let row = state.map(|state| TaskRow {
            id: holder.id,
            state,
            generation: 0,
            attempt: 1,
            tries: 1,
            next: Millis(1),
            last: Millis(1),
            cancel_requested: instead != 0,
            nonce: Uuid::nil(),
            detail: Detail {
                spec: Arc::clone(&self.spec),
                start: Millis(1),
                fire_time: None,
                claim_time: None,
                end_time: None,
                worker: String::new(),
                result: None,
                error: None,
                died: None,
                erased: false,
                tree: None,
                children_time_passed: false,
                rounds: tickwheel::model::family::Rounds::default(),
                lived: 0,
                history: tickwheel::model::history::History::default(),
                next: follows.then(|| Arc::new(self.holder(instead))),
            },
        });
        key::judge(&holder, row.as_ref(), self.holder(client.mine).id)
    }

    fn task(&self, steps: &mut Steps<'_, World>, task: usize) {
        let (world, who, at) = (steps.from, task as i64, task - 1);
        let (row, instead) = (world.rows[at], world.instead[at]);
        let ahead = world.entries[at] == Entry::Ahead;
        let waits = matches!(row, Row::Absent | Row::Retrying | Row::Expired) && instead == 0;
        if ahead && waits {
            steps.add("claim", who, |world| {
                world.resurrected |= row == Row::Expired;
                world.rows[at] = Row::Claimed;
            });
        }
        if ahead && row == Row::Ended {
            self.look(steps, task);
        }
        if row == Row::Claimed {
            steps.add("end", who, |world| {
                world.rows[at] = Row::Ended;
                if self.flaw == Flaw::EndWipes {
                    world.instead[at] = 0;
                }
            });
            if instead == 0 {
                steps.add("retry", who, |world| world.rows[at] = Row::Retrying);
            }
        }
        if world.cancels > 0 && ahead && matches!(row, Row::Absent | Row::Retrying) {
            steps.add("cancel", who, |world| {
                world.cancels -= 1;
                world.rows[at] = Row::Ended;
            });
        }
        let guarded = world.is_calm() && !world.is_busy(task) && world.record != task;
        if row == Row::Ended && !ahead && (guarded || self.flaw == Flaw::RowExpiresFirst) {
            steps.add("row expires", who, |world| world.rows[at] = Row::Expired);
        }
    }

    /// The look of a task that has ended does its end steps before it drops.
    fn look(&self, steps: &mut Steps<'_, World>, task: usize) {
        let (world, who, at) = (steps.from, task as i64, task - 1);
        let (instead, record) = (world.instead[at], world.record);
        let finishes = instead != 0 && self.flaw != Flaw::LookDrops;
        if finishes && record == instead {
            steps.add("look, entry", who, |world| {
                world.entries[instead - 1] = Entry::Ahead;
            });
        }
        if finishes && record == task {
            steps.add("look, record", who, |world| world.record = instead);
        }
        let done = record != task
            && (record != instead || world.entries[instead.max(1) - 1] != Entry::None);
        if !finishes || done {
            steps.add("drop", who, |world| world.entries[at] = Entry::Dropped);
        }
    }

    fn record_expires(&self, steps: &mut Steps<'_, World>) {
        let world = steps.from;
        if world.record == 0 || self.modes[0] == Mode::Marked {
            return;
        }
        let at = world.record - 1;
        let over = match world.rows[at] {
            Row::Ended => world.instead[at] == 0,
            Row::Absent => world.entries[at] == Entry::None && !world.is_busy(world.record),
            Row::Claimed | Row::Retrying | Row::Expired => false,
        };
        // The life of a record is never lowered, so it reaches behind the start of a task that is replaced.
        let waited = (0..TASKS)
            .any(|one| world.instead[one] == world.record && world.entries[one] == Entry::Ahead);
        if (world.is_calm() && over && !waited) || self.flaw == Flaw::RecordExpiresLive {
            steps.add("record expires", 0, |world| world.record = 0);
        }
    }
}

impl Model for Keys {
    type State = World;

    fn first(&self) -> World {
        World::new(self.crashes, self.lost)
    }

    fn steps(&self, state: &World, next: &mut Vec<(Step, World)>) {
        let mut steps = Steps { from: state, next };
        for c in [0, 1] {
            self.client(&mut steps, c);
        }
        for (index, late) in state.late.iter().enumerate() {
            steps.add("late", index as i64, |world| {
                world.late.remove(index);
                world.apply(*late);
            });
        }
        for task in 1..=TASKS {
            self.task(&mut steps, task);
        }
        self.record_expires(&mut steps);
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        let live = (1..=TASKS).filter(|task| world.is_live(*task)).count();
        if live > 1 {
            return Some(TWO);
        }
        if world.resurrected {
            return Some(RESURRECTED);
        }
        let is_gone = |at: usize| world.rows[at] == Row::Absent && world.entries[at] == Entry::None;
        let answered = || (0..TASKS).filter(|at| world.answered[*at]);
        if answered().any(is_gone) {
            return Some(NO_TASK);
        }
        let all_marked = self.modes == [Mode::Marked; 2];
        if all_marked && answered().count() > 1 {
            return Some(OTHER);
        }
        // At rest, every chain from an answered task ends in a task, or in one whose look will write it.
        let at_rest = world.late.is_empty()
            && world
                .clients
                .iter()
                .all(|client| client.next == Next::Nothing);
        let is_lost = |at: usize| {
            let (mut last, mut before) = (at, at);
            while world.instead[last] != 0 {
                before = last;
                last = world.instead[last] - 1;
            }
            is_gone(last) && world.entries[before] == Entry::Dropped
        };
        (at_rest && answered().any(is_lost)).then_some(NONE_LEFT)
    }
}

const IGNORE: [Mode; 2] = [Mode::Ignore; 2];
const REPLACE: [Mode; 2] = [Mode::Replace; 2];
const BOTH: [Mode; 2] = [Mode::Ignore, Mode::Replace];
const MARKED: [Mode; 2] = [Mode::Marked; 2];

fn kept(name: &str, modes: [Mode; 2], (crashes, lost): (u8, u8), states_min: usize) {
    holds(
        name,
        &Keys::new(Flaw::None, modes, crashes, lost),
        states_min,
    );
}

#[test]
fn a_key_names_at_most_one_live_task() {
    kept("key: ignore, 2 crashes", IGNORE, (2, 0), 1_000);
    kept("key: ignore, 1 crash, 1 lost", IGNORE, (1, 1), 10_000);
    if whole() {
        kept("key: ignore, 2 crashes, 1 lost", IGNORE, (2, 1), 50_000);
    }
}

#[test]
fn a_replaced_task_never_starts_again_and_the_next_is_not_lost() {
    kept("key: replace, 1 crash", REPLACE, (1, 0), 5_000);
    kept("key: ignore and replace, 1 crash", BOTH, (1, 0), 5_000);
    kept("key: replace, 1 lost", REPLACE, (0, 1), 5_000);
    kept("key: ignore and replace, 1 lost", BOTH, (0, 1), 5_000);
    if whole() {
        kept("key: replace, 2 crashes", REPLACE, (2, 0), 50_000);
        kept("key: replace, 1 crash, 1 lost", REPLACE, (1, 1), 50_000);
        kept(
            "key: ignore and replace, 1 crash, 1 lost",
            BOTH,
            (1, 1),
            50_000,
        );
    }
}

#[test]
fn a_marked_request_is_one_task() {
    kept("mark: 1 crash, 1 lost", MARKED, (1, 1), 5_000);
    if whole() {
        kept("mark: 2 crashes, 1 lost", MARKED, (2, 1), 20_000);
    }
}

#[test]
fn every_broken_key_is_found() {
    for (name, flaw, what) in [
        ("key: entry before record", Flaw::EntryFirst, TWO),
        (
            "key: takeover of a record without a task",
            Flaw::Takeover,
            TWO,
        ),
        (
            "key: record expires while its task lives",
            Flaw::RecordExpiresLive,
            TWO,
        ),
        (
            "key: row expires before the record",
            Flaw::RowExpiresFirst,
            RESURRECTED,
        ),
        (
            "key: answered for a record without a task",
            Flaw::NoHelp,
            NO_TASK,
        ),
    ] {
        breaks(name, &Keys::new(flaw, IGNORE, 1, 0), what);
    }
    for (name, flaw, faults, what) in [
        (
            "key: the old task is never cancelled",
            Flaw::RecordOnly,
            (1, 0),
            TWO,
        ),
        (
            "key: the end of a run wipes the next",
            Flaw::EndWipes,
            (1, 0),
            NO_TASK,
        ),
        (
            "key: a replaced task taken for a free key",
            Flaw::NotFollowed,
            (1, 0),
            NO_TASK,
        ),
        (
            "key: the look of a replaced task only drops",
            Flaw::LookDrops,
            (1, 0),
            NONE_LEFT,
        ),
        (
            "key: own row not read after an unknown",
            Flaw::OwnRowNotRead,
            (0, 1),
            RESURRECTED,
        ),
    ] {
        breaks(name, &Keys::new(flaw, BOTH, faults.0, faults.1), what);
    }
}
