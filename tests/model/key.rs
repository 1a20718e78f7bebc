//! This model searches for a key that names two live tasks, or for an answer without a task.
//!
//! Two clients register with one key, and each may repeat once. The world has the record of the key, and rows and entries of
//! up to four tasks. A process dies between any two steps, or right after it has sent a write; a conditional write has an
//! unknown outcome (applied, applied later, never); an answer is lost. Tasks are claimed, retried, ended and cancelled, and
//! their rows and the record expire, at any time that the rules allow.
//!
//! The decision about a record is the real one ([`key::judge`]). `ignore` is a request with a `key`; `reject` differs in its
//! answer only. `marked` is a request with an `Idempotency-Key`, whose repetition takes the id of its first try.

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

use super::search::{Model, Step, Steps, breaks, holds, whole};

const TWO: &str = "a key names two live tasks";
const RESURRECTED: &str = "a task that had ended was claimed again";
const NO_TASK: &str = "an answer names a task that does not exist";
const OTHER: &str = "a repetition got another task";

/// Four tasks: client `c` at its try `k` makes number `1 + 2 * c + k`; 0 is none.
const TASKS: usize = 4;

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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Ignore,
    Marked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    Absent,
    Claimed,
    Retrying,
    Ended,
    /// It has ended, and its row is gone: readers take it for absent.
    Expired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    None,
    Ahead,
    Dropped,
}

/// The next thing that a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Next {
    Begin,
    Record,
    ReadRecord,
    ReadOwnRow,
    ReadRow,
    WriteEntry,
    Take,
    Answer,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Client {
    next: Next,
    again: u8,
    mine: usize,
    /// The task that the record was seen to name.
    named: usize,
    /// Its own task may have been registered already.
    out: bool,
    /// The tasks that answers have named, also lost ones.
    heard: [bool; TASKS],
}

const IDLE: Client = Client {
    next: Next::Begin,
    again: 0,
    mine: 0,
    named: 0,
    out: false,
    heard: [false; TASKS],
};

/// A write that arrives late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Late {
    Record { expected: usize, to: usize },
    Entry(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    record: usize,
    rows: [Row; TASKS],
    entries: [Entry; TASKS],
    clients: [Client; 2],
    late: Vec<Late>,
    crashes: u8,
    lost: u8,
    cancels: u8,
    answered: [bool; TASKS],
    resurrected: bool,
}

impl World {
    fn row(&self, task: usize) -> Row {
        self.rows[task - 1]
    }

    fn is_live(&self, task: usize) -> bool {
        match self.row(task) {
            Row::Claimed | Row::Retrying => true,
            Row::Absent => self.entries[task - 1] == Entry::Ahead,
            Row::Ended | Row::Expired => false,
        }
    }

    fn apply(&mut self, late: Late) {
        match late {
            Late::Record { expected, to } if self.record == expected => self.record = to,
            Late::Record { .. } => {}
            Late::Entry(task) => self.entries[task - 1] = Entry::Ahead,
        }
    }

    /// Tells whether nothing is in flight that may write.
    fn is_calm(&self) -> bool {
        let reads = |client: &Client| {
            matches!(
                client.next,
                Next::Record | Next::ReadRecord | Next::ReadRow | Next::Take
            )
        };
        let calm = |client: &Client| {
            matches!(client.next, Next::Begin | Next::Nothing) || reads(client) && !client.out
        };
        self.late.is_empty() && self.clients.iter().all(calm)
    }

    fn is_busy(&self, task: usize) -> bool {
        let works = |client: &&Client| !matches!(client.next, Next::Begin | Next::Nothing);
        let mut clients = self.clients.iter().filter(works);
        clients.any(|client| client.mine == task || client.named == task)
    }
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
    fn new(flaw: Flaw, mode: Mode, crashes: u8, lost: u8) -> Self {
        let target = Target::Callback {
            name: "c".to_owned(),
        };
        Self {
            flaw,
            modes: [mode; 2],
            crashes,
            lost,
            spec: Arc::new(Spec {
                target,
                key: Some("k".to_owned()),
                collection: String::new(),
                priority: Priority::Normal,
                max_attempts: 3,
                backoff: Backoff::QUICK,
                claim_timeout: Duration::from_secs(60),
                heartbeat_timeout: Duration::from_secs(30),
                expire_after: None,
                retention: Duration::from_secs(60),
                create_time: Millis::EPOCH,
                asked_start: None,
                body: Body::Inline(Content::default()),
            }),
        }
    }

    /// Judges the record by the real rule.
    fn judge(&self, world: &World, client: &Client) -> Verdict {
        let id = |task: usize| TaskId::new(Millis(1), WheelNumber::from_low_bits(0), task as u64);
        let holder = Holder {
            id: id(client.named),
            generation: 0,
            spec: Arc::clone(&self.spec),
        };
        let state = match world.row(client.named) {
            Row::Absent | Row::Expired => None,
            Row::Claimed => Some(Life::Claimed),
            Row::Retrying => Some(Life::Retrying),
            Row::Ended => Some(Life::Succeeded),
        };
        let row = state.map(|state| TaskRow {
            id: holder.id,
            state,
            generation: 0,
            attempt: 1,
            tries: 1,
            next: Millis(1),
            last: Millis(1),
            cancel_requested: false,
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
                history: tickwheel::model::history::History::default(),
            },
        });
        key::judge(&holder, row.as_ref(), id(client.mine))
    }

    /// A conditional write of the record, with all its outcomes.
    fn swap(&self, steps: &mut Steps<'_, World>, c: usize, expected: usize) {
        let client = steps.from.clients[c];
        let (mine, who) = (client.mine, c as i64);
        let holds = steps.from.record == expected;
        if holds {
            steps.add("record", who, |world| {
                world.record = mine;
                let client = &mut world.clients[c];
                client.named = mine;
                client.next = if self.flaw == Flaw::EntryFirst {
                    Next::Answer
                } else {
                    Next::WriteEntry
                };
            });
        } else {
            steps.add("record refused", who, |world| {
                let named = world.record;
                let client = &mut world.clients[c];
                client.next = if client.out || expected != 0 {
                    Next::ReadRecord
                } else {
                    client.named = named;
                    Next::ReadRow
                };
            });
        }
        if steps.from.lost == 0 {
            return;
        }
        for (name, applied, later) in [
            ("record unknown, applied", true, false),
            ("record unknown", false, false),
            ("record unknown, later", false, true),
        ] {
            if applied && !holds {
                continue;
            }
            steps.add(name, who, |world| {
                world.lost -= 1;
                if applied {
                    world.record = mine;
                }
                if later {
                    world.late.push(Late::Record { expected, to: mine });
                }
                world.clients[c].next = Next::ReadRecord;
                world.clients[c].out = true;
            });
        }
    }

    fn client(&self, steps: &mut Steps<'_, World>, c: usize) {
        let (world, who) = (steps.from, c as i64);
        let client = world.clients[c];
        match client.next {
            Next::Begin => steps.add("begin", who, |world| {
                let client = &mut world.clients[c];
                let again = usize::from(client.again);
                client.mine = match self.modes[c] {
                    Mode::Ignore => 1 + 2 * c + again,
                    Mode::Marked => 1 + 2 * c,
                };
                client.out = again > 0 && self.modes[c] == Mode::Marked;
                client.named = 0;
                client.next = Next::Record;
                if self.flaw == Flaw::EntryFirst {
                    client.named = client.mine;
                    client.next = Next::WriteEntry;
                }
            }),
            Next::Record => self.swap(steps, c, 0),
            Next::Take => self.swap(steps, c, client.named),
            Next::ReadRecord => steps.add("read", who, |world| {
                let named = world.record;
                let client = &mut world.clients[c];
                client.named = named;
                client.next = match named {
                    _ if client.out && named != client.mine => Next::ReadOwnRow,
                    0 => Next::Record,
                    _ => Next::ReadRow,
                };
            }),
            Next::ReadOwnRow => steps.add("read own row", who, |world| {
                let row = world.row(client.mine);
                let client = &mut world.clients[c];
                client.next = match client.named {
                    _ if !matches!(row, Row::Absent | Row::Expired) => {
                        client.named = client.mine;
                        Next::Answer
                    }
                    0 => Next::Record,
                    _ => Next::ReadRow,
                };
            }),
            Next::ReadRow => self.read_row(steps, c),
            Next::WriteEntry => steps.add("entry", who, |world| {
                world.entries[client.named - 1] = Entry::Ahead;
                let first = self.flaw == Flaw::EntryFirst && world.record != client.named;
                world.clients[c].next = if first { Next::Record } else { Next::Answer };
            }),
            Next::Answer => self.answer(steps, c),
            Next::Nothing if client.again == 0 => steps.add("again", who, |world| {
                world.clients[c] = Client {
                    again: 1,
                    heard: client.heard,
                    ..IDLE
                };
            }),
            Next::Nothing => {}
        }
        if world.crashes > 0 && !matches!(client.next, Next::Begin | Next::Nothing) {
            let dies = |world: &mut World| {
                world.crashes -= 1;
                let client = &mut world.clients[c];
                *client = Client {
                    next: Next::Nothing,
                    again: client.again,
                    heard: client.heard,
                    ..IDLE
                };
            };
            steps.add("crash", who, dies);
            if client.next == Next::WriteEntry {
                steps.add("crash, entry later", who, |world| {
                    dies(world);
                    world.late.push(Late::Entry(client.named));
                });
            }
        }
    }

    fn read_row(&self, steps: &mut Steps<'_, World>, c: usize) {
        let (world, who) = (steps.from, c as i64);
        let client = world.clients[c];
        let absent = matches!(world.row(client.named), Row::Absent | Row::Expired);
        let written = world.entries[client.named - 1] != Entry::None;
        let next = match self.judge(world, &client) {
            Verdict::Free if self.modes[c] == Mode::Ignore => Next::Take,
            // A marked request names one task for a day, whatever that does.
            Verdict::Free => Next::Answer,
            Verdict::Live if self.flaw == Flaw::Takeover && absent && !written => Next::Take,
            Verdict::Live if self.flaw == Flaw::NoHelp => Next::Answer,
            Verdict::Mine if !absent => Next::Answer,
            Verdict::Mine | Verdict::Live | Verdict::Redriven => Next::WriteEntry,
        };
        steps.add("read row", who, |world| world.clients[c].next = next);
    }

    fn answer(&self, steps: &mut Steps<'_, World>, c: usize) {
        let who = c as i64;
        let told = |world: &mut World| {
            let client = &mut world.clients[c];
            let task = client.named - 1;
            client.heard[task] = true;
            world.answered[task] = true;
            task
        };
        steps.add("answer", who, |world| {
            told(world);
            let heard = world.clients[c].heard;
            world.clients[c] = Client {
                next: Next::Nothing,
                again: 2,
                heard,
                ..IDLE
            };
        });
        if steps.from.lost > 0 && steps.from.clients[c].again == 0 {
            steps.add("answer lost", who, |world| {
                told(world);
                world.lost -= 1;
                let heard = world.clients[c].heard;
                world.clients[c] = Client {
                    again: 1,
                    heard,
                    ..IDLE
                };
            });
        }
    }

    fn task(&self, steps: &mut Steps<'_, World>, task: usize) {
        let (world, who, at) = (steps.from, task as i64, task - 1);
        let (row, entry) = (world.rows[at], world.entries[at]);
        let ahead = entry == Entry::Ahead;
        if ahead && matches!(row, Row::Absent | Row::Retrying | Row::Expired) {
            steps.add("claim", who, |world| {
                world.resurrected |= row == Row::Expired;
                world.rows[at] = Row::Claimed;
            });
        }
        if ahead && row == Row::Ended {
            steps.add("drop", who, |world| world.entries[at] = Entry::Dropped);
        }
        if row == Row::Claimed {
            steps.add("end", who, |world| world.rows[at] = Row::Ended);
            steps.add("retry", who, |world| world.rows[at] = Row::Retrying);
        }
        if world.cancels > 0 && ahead && matches!(row, Row::Absent | Row::Retrying) {
            steps.add("cancel", who, |world| {
                world.cancels -= 1;
                world.rows[at] = Row::Ended;
            });
        }
        let late = world.late.contains(&Late::Entry(task));
        let guarded = world.is_calm() && !world.is_busy(task) && !late && world.record != task;
        if row == Row::Ended && !ahead && (guarded || self.flaw == Flaw::RowExpiresFirst) {
            steps.add("row expires", who, |world| world.rows[at] = Row::Expired);
        }
    }

    fn record_expires(&self, steps: &mut Steps<'_, World>) {
        let world = steps.from;
        if world.record == 0 || self.modes[0] == Mode::Marked {
            return;
        }
        let at = world.record - 1;
        let over = match world.rows[at] {
            Row::Ended => true,
            Row::Absent => world.entries[at] == Entry::None && !world.is_busy(world.record),
            Row::Claimed | Row::Retrying | Row::Expired => false,
        };
        if (world.is_calm() && over) || self.flaw == Flaw::RecordExpiresLive {
            steps.add("record expires", 0, |world| world.record = 0);
        }
    }
}

impl Model for Keys {
    type State = World;

    fn first(&self) -> World {
        World {
            record: 0,
            rows: [Row::Absent; TASKS],
            entries: [Entry::None; TASKS],
            clients: [IDLE; 2],
            late: Vec::new(),
            crashes: self.crashes,
            lost: self.lost,
            cancels: 1,
            answered: [false; TASKS],
            resurrected: false,
        }
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
        let gone =
            |task: usize| world.rows[task] == Row::Absent && world.entries[task] == Entry::None;
        let answered = || (0..TASKS).filter(|task| world.answered[*task]);
        if answered().any(gone) {
            return Some(NO_TASK);
        }
        let all_marked = self.modes == [Mode::Marked; 2];
        (all_marked && answered().count() > 1).then_some(OTHER)
    }
}

#[test]
fn a_key_names_at_most_one_live_task() {
    let mode = Mode::Ignore;
    holds("key: 2 crashes", &Keys::new(Flaw::None, mode, 2, 0), 1_000);
    holds(
        "key: 1 crash, 1 lost",
        &Keys::new(Flaw::None, mode, 1, 1),
        10_000,
    );
    if whole() {
        holds(
            "key: 2 crashes, 1 lost",
            &Keys::new(Flaw::None, mode, 2, 1),
            50_000,
        );
    }
}

#[test]
fn a_marked_request_is_one_task() {
    let mode = Mode::Marked;
    holds(
        "mark: 1 crash, 1 lost",
        &Keys::new(Flaw::None, mode, 1, 1),
        5_000,
    );
    if whole() {
        holds(
            "mark: 2 crashes, 1 lost",
            &Keys::new(Flaw::None, mode, 2, 1),
            20_000,
        );
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
        breaks(name, &Keys::new(flaw, Mode::Ignore, 1, 0), what);
    }
}
