//! The world of the expiry model has the row, the entries ahead, the messages and the clients
//! that reschedule.

use std::time::Duration;

use tickwheel::model::{
    ids::TaskId,
    look_step::LookStep,
    state::{Expect, State as Life},
    time::{Millis, TickLength},
    wheel::{Shape, WheelNumber},
};

use super::{START, STEP};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Row {
    pub(super) life: Life,
    pub(super) generation: u32,
    pub(super) attempt: u32,
    pub(super) next: Millis,
    pub(super) last: Millis,
    pub(super) start: Millis,
    /// When the row vanishes.
    pub(super) gone: Option<Millis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ahead {
    pub(super) due: Millis,
    pub(super) generation: u32,
    /// Attempt that the claim must find; none for a look.
    pub(super) expected: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) generation: u32,
    pub(super) expected: u32,
    pub(super) start: Millis,
    pub(super) since: Millis,
}

/// A reschedule whose entry is written and whose row has not moved yet.
pub(super) type Pending = Option<(Option<Row>, Row)>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: Millis,
    pub(super) row: Option<Row>,
    /// A terminal row was written.
    pub(super) ended: bool,
    pub(super) wrong: Option<&'static str>,
    pub(super) entries: Vec<Ahead>,
    pub(super) messages: Vec<Message>,
    pub(super) pending: [Pending; 2],
    pub(super) changes: u8,
    pub(super) faults: u8,
}

impl State {
    pub(super) fn put(&mut self, entry: Ahead) {
        if let Err(at) = self.entries.binary_search(&entry) {
            self.entries.insert(at, entry);
        }
    }

    /// Of two equal messages the later one is kept.
    pub(super) fn publish(&mut self, message: Message) {
        let same =
            |m: &Message| m.generation == message.generation && m.expected == message.expected;
        self.messages.retain(|m| !same(m));
        self.messages.push(message);
        self.messages.sort_unstable();
    }

    pub(super) fn pass_to(&mut self, now: Millis) {
        self.now = now;
        let gone = |row: &Row| row.gone.is_some_and(|gone| gone <= now);
        self.row = self.row.filter(|row| !gone(row));
    }

    pub(super) fn write(&mut self, from: Option<Row>, to: Row) -> bool {
        let applies = seen(from) == seen(self.row);
        if applies {
            self.row = Some(to);
            self.ended |= to.life.is_terminal();
        }
        applies
    }
}

pub(super) fn seen(row: Option<Row>) -> Expect {
    row.map_or(Expect::Absent, |row| Expect::Row {
        state: row.life,
        generation: row.generation,
        attempt: row.attempt,
        cancel_requested: false,
        nonce: uuid::Uuid::nil(),
    })
}

pub(super) fn id() -> TaskId {
    TaskId::new(START, WheelNumber::new(0).unwrap(), 7).with_look_step(LookStep::covering(STEP))
}

pub(super) fn shape() -> Shape {
    Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 64).unwrap()
}
