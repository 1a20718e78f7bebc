//! Sequences let tasks of one ordering key run one at a time ([`crate::model::ordering`] has the rules).
//!
//! - `place` gives a task its place before it is written, and makes the place sure after.
//! - `turn` asks for the turn, for claims and looks.
//! - `leave` takes an ended or moved task out, and passes the turn on.
//! - [`crate::flow::stages::sequence`] publishes the task that has come to its turn, and looks after those that have waited for
//!   long.
//!
//! The order of the writes, and what a crash between two of them leaves:
//!
//! - A registration writes the row, the task, then the row as sure. A crash before the task leaves a ghost, which the next claim
//!   removes a few seconds later. A crash after it leaves a task whose client has no answer; it keeps its place.
//! - A claim takes the turn, then the task. A crash between them leaves a holder that does not run. Its look publishes it.
//! - An end writes the task, removes its rows, passes the turn on. A crash between them leaves a holder that is over, and rows
//!   that are. The look of the task goes on, or a claim of another clears them, whichever is first.
//! - A move writes the new row, the entry, the task, then the row as sure, removes the old one and passes the turn on. A crash
//!   before the task leaves a ghost. One after it leaves a member that holds its new place as long as no claim clears the row
//!   in the moment of the crash; the client of the move has no answer then.

pub(in crate::flow) mod leave;
pub(in crate::flow) mod place;
pub(in crate::flow) mod turn;
