//! This room starts tasks at the times that users have set as schedules.
//!
//! - `desk` creates, changes, pauses, deletes and lists schedules for people, and starts runs at their wish.
//! - `records` reads and writes the record of a schedule.
//! - `driver` looks at a schedule: it decides on runs, writes them down, and enters them into the wheel.
//! - `plans` reads what was set into times.
//! - `tasks` makes the tasks of runs, reads how they stand, and withdraws them.
//! - `wakes` keeps the rows that say when to look at which schedule.
//! - `stage` reads these rows on every node with wheels, and has the driver look in time.
//! - `runs` lists the runs of a schedule.
//!
//! # Order of writes
//! A look at a schedule writes 1. the row that says when to look next, 2. the record, conditionally, with the new runs, 3. the
//! entries of these runs, which it repeats until they are acknowledged. A change of a user writes 1. a row for a look soon, 2.
//! the record, conditionally, with a new generation, 3. it withdraws the runs of older generations that have not begun, and only
//! then answers.
//!
//! | crash behind | what is left | who goes on |
//! |---|---|---|
//! | the row | a row that stands for nothing | the look finds nothing to do |
//! | the record of a look | runs without entries | the look of the row, 15 s later: before they start |
//! | some entries | entries of known ids | the same look; an entry that is there twice is one task |
//! | the record of a change | older runs that still wait | the look of the row, 8 s later |
//!
//! A run that would go out late may have been missed, and dispatch asks about it: 1. the record says, conditionally, that it is
//! void, 2. it is withdrawn, 3. the record counts it. Behind a crash between these the next look goes on, or the next question.
//!
//! A row may also be lost to a write of the record that arrives long after its time. A sweep over all schedules finds such a
//! schedule; nodes that start do the same.
//!
//! Nodes agree by the record alone. Which node looks is a matter of cost: the one that the list of live nodes names for the
//! schedule, or another if that one is gone.

pub mod desk;
pub(in crate::flow) mod driver;
pub(in crate::flow) mod plans;
pub(in crate::flow) mod records;
pub(in crate::flow) mod runs;
pub(in crate::flow) mod stage;
pub(in crate::flow) mod tasks;
pub(in crate::flow) mod wakes;
