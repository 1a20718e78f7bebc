//! These scenarios were written by hand: one situation each, on memory adapters, deterministic,
//! in virtual time.

mod catch_up;
mod clock_steps;
mod configuration;
mod crash;
mod dead_letters;
mod faults;
mod figures;
mod firing;
mod floods;
mod forged;
mod gates;
mod given_away;
mod invented;
mod jobs;
mod late_writes;
mod lifecycle;
mod limits;
mod lost_workers;
mod memory;
mod nets;
mod polls;
mod races;
mod redrive;
mod repeated;
mod replaced;
mod restarts;
mod sick_topics;
mod slots;
mod unreadable;
mod unsent;
