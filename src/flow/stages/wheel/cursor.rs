//! The cursor tells for the readers of a wheel where they stand.

use crate::model::{
    clock::Position,
    entry::{Key, KeyCode},
    time::{Tick, TickLength},
};

/// Where the reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) struct Cursor {
    /// The tick it reads.
    pub(in crate::flow) tick: Tick,
    /// The last key it has seen of that tick, if any.
    pub(in crate::flow) behind: Option<Key>,
}

impl Cursor {
    /// Tells whether it stands before another one.
    pub(super) fn is_before(self, other: Self) -> bool {
        (self.tick, self.behind) < (other.tick, other.behind)
    }

    /// The cursor that reads everything behind a position.
    pub(in crate::flow) fn behind(position: Position, tick: TickLength) -> Self {
        let at = tick.tick_of(position.due);
        if position == Position::behind(tick.end_of(at)) {
            return Self {
                tick: at.plus(1),
                behind: None,
            };
        }
        let last = Key {
            due: position.due,
            id: position.id,
            generation: u32::MAX,
            code: KeyCode(i32::MAX),
        };
        Self {
            tick: at,
            behind: Some(last),
        }
    }
}
