//! The world of the task model has a row, its entries, the queue, two workers and a look of a scanner.

use std::{sync::Arc, time::Duration};

use tickwheel::model::{
    backoff::{Backoff, Jitter},
    decision::{Decision, Known, decide},
    entry::Entry,
    ids::TaskId,
    look_step::LookStep,
    state::{self, Detail, Event, Expect, History, Refusal, TaskRow, Transition},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::{Millis, TickLength},
    wheel::{Shape, WheelNumber},
};
use uuid::Uuid;

/// When the task starts.
const START: Millis = Millis(1_000_000);

const SECOND: Duration = Duration::from_secs(1);

/// The number of looks that are told apart; chains of looks of one task meet in one row anyway.
const LOOKS_MAX: u8 = 3;

/// The largest number of messages that wait in the queue at once.
pub(super) const MESSAGES_MAX: usize = 2;

/// The columns of a row that matter to decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Row {
    pub(super) state: state::State,
    pub(super) generation: u32,
    pub(super) attempt: u32,
    pub(super) tries: u32,
    pub(super) next: Millis,
    pub(super) cancel_requested: bool,
}

/// The content of a message, or of the due entry that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket {
    pub(super) generation: u32,
    pub(super) expected_attempt: u32,
    /// The entry is the first of its generation.
    pub(super) first: bool,
}

/// A conditional write: the expected row, and the row that replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Write {
    /// The row that was read.
    pub(super) from: Option<Row>,
    pub(super) to: Row,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Worker {
    Idle,
    /// The worker has a message, which is still in the queue.
    Has(Ticket),
    /// The worker has read the row and decided to claim.
    Claims(Ticket, Write),
    /// The worker runs an attempt and keeps its lease alive.
    Runs(u32),
    /// The worker was stopped while it ran, and does not know that its lease has ended.
    Paused(u32),
    /// The worker has recorded that its attempt is to be retried, and is about to put the entry.
    Retries(Ticket),
}

/// A client that reschedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Changer {
    Idle,
    /// The client has put the entry of this write.
    Put(Write),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) row: Option<Row>,
    /// Due entries ahead, in order.
    pub(super) dues: Vec<Ticket>,
    /// Looks ahead.
    pub(super) looks: u8,
    /// A look has read this row and is about to act.
    pub(super) read: Option<Option<Row>>,
    /// Messages in the queue, in order.
    pub(super) messages: Vec<Ticket>,
    pub(super) workers: [Worker; 2],
    pub(super) changers: [Changer; 2],
    /// A claim that timed out and may still be applied.
    pub(super) late: Option<Write>,
    pub(super) faults: u8,
    pub(super) changes: u8,
    /// A report was accepted from an attempt that is not the live one.
    pub(super) stale_report: bool,
}

impl State {
    pub(super) fn is_terminal(&self) -> bool {
        self.row.is_some_and(|row| row.state.is_terminal())
    }

    pub(super) fn attempt(&self) -> u32 {
        self.row.map_or(0, |row| row.attempt)
    }

    /// Tells whether a worker keeps the lease of this row's attempt alive.
    pub(super) fn is_live(&self, row: &Row) -> bool {
        row.state == state::State::Claimed && self.workers.contains(&Worker::Runs(row.attempt))
    }

    pub(super) fn add_look(&mut self) {
        self.looks = LOOKS_MAX.min(self.looks + 1);
    }

    pub(super) fn add_due(&mut self, ticket: Ticket) {
        if !self.dues.contains(&ticket) {
            self.dues.push(ticket);
            self.dues.sort_unstable();
        }
    }

    pub(super) fn publish(&mut self, ticket: Ticket) {
        self.messages.push(Ticket {
            first: false,
            ..ticket
        });
        self.messages.sort_unstable();
    }

    /// The broker forgets a message that was claimed or proven stale.
    pub(super) fn consume(&mut self, ticket: Ticket) {
        if let Some(at) = self.messages.iter().position(|there| *there == ticket) {
            self.messages.remove(at);
        }
    }

    /// A conditional write, as a store carries it out.
    pub(super) fn write(&mut self, write: Write) -> bool {
        let applies = expect(write.from).holds(self.row.map(whole).as_ref());
        if applies {
            self.row = Some(write.to);
        }
        applies
    }
}

fn shape() -> Shape {
    Shape::new(1, TickLength::new(SECOND).unwrap(), 64).unwrap()
}

fn id() -> TaskId {
    let step = LookStep::covering(SECOND * 60);
    TaskId::new(START, WheelNumber::new(0).unwrap(), 7).with_look_step(step)
}

/// A spec with three tries and no wait between them.
fn spec() -> Arc<Spec> {
    thread_local! {
        static SPEC: Arc<Spec> = Arc::new(Spec {
            indexed: Vec::new(),
            target: Target::Callback { name: "c".to_owned() },
            collection: String::new(),
            priority: Priority::Normal,
            max_attempts: 3,
            backoff: Backoff {
                initial: Duration::ZERO,
                factor_milli: 1000,
                max: Duration::ZERO,
                jitter: Jitter::None,
            },
            claim_timeout: SECOND * 60,
            heartbeat_timeout: SECOND * 30,
            attempt_timeout: None,
            ordering_key: None,
            dead_retention: None,
            expire_after: None,
            retention: SECOND * 60,
            create_time: Millis::EPOCH,
            asked_start: None,
            scheduled: None,
            key: None,
            notify: None,
            actions: None,
            kin: None,
            after: None,
            then: Vec::new(),
            body: Body::Inline(Content::default()),
        });
    }
    SPEC.with(Arc::clone)
}

fn whole(row: Row) -> TaskRow {
    TaskRow {
        id: id(),
        state: row.state,
        generation: row.generation,
        attempt: row.attempt,
        tries: row.tries,
        next: row.next,
        last: row.next,
        cancel_requested: row.cancel_requested,
        nonce: Uuid::nil(),
        detail: Detail {
            spec: spec(),
            start: START,
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
            history: History::default(),
            next: None,
        },
    }
}

fn columns(row: &TaskRow) -> Row {
    Row {
        state: row.state,
        generation: row.generation,
        attempt: row.attempt,
        tries: row.tries,
        next: row.next,
        cancel_requested: row.cancel_requested,
    }
}

fn expect(row: Option<Row>) -> Expect {
    row.map_or(Expect::Absent, |row| whole(row).seen())
}

/// The time at which the event that the row waits for is due.
pub(super) fn due(row: Option<Row>) -> Millis {
    row.map_or(START, |row| row.next)
}

/// A time that is a moment too early.
pub(super) fn early(row: Option<Row>) -> Millis {
    Millis(due(row).0 - 1)
}

/// Returns the write that the real life cycle makes of an event.
pub(super) fn asked(row: Option<Row>, event: Event, now: Millis) -> Result<Write, Refusal> {
    let base = row.map(whole);
    let made: Transition = state::next(id(), base.as_ref(), &spec(), event, now, Uuid::nil())?;
    assert_eq!(made.expect, expect(row));
    assert!(
        row.is_none_or(|row| !row.state.is_terminal()),
        "{row:?} became {:?}",
        made.row
    );
    Ok(Write {
        from: row,
        to: columns(&made.row),
    })
}

/// Returns the real decision about a look.
pub(super) fn looked(row: Option<Row>, now: Millis, published: Option<Millis>) -> Decision {
    let look = Entry::look(id(), 0, now, published, START, spec(), 0);
    let whole = row.map(whole);
    let known = Known {
        row: whole.as_ref(),
        heartbeat: None,
    };
    decide(&look, known, now, &shape())
}

/// Returns the real decision about a due entry.
pub(super) fn fired(ticket: Ticket) -> Decision {
    let Ticket {
        generation,
        expected_attempt,
        first,
    } = ticket;
    let entry = Entry::due(id(), generation, expected_attempt, START, spec(), 0);
    let entry = if first {
        entry.first_of_generation()
    } else {
        entry
    };
    let known = Known {
        row: None,
        heartbeat: None,
    };
    decide(&entry, known, START, &shape())
}
