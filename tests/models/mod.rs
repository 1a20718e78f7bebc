//! Small worlds searched exhaustively: every order of every step, with faults, around the real decision functions.
//!
//! Each model comes with broken variants that must be found: the proof that the search would see the hole.

mod clock;
mod search;
mod task;
