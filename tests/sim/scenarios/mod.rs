//! Scenarios written by hand: one situation each, on memory adapters, deterministic, in virtual time.

mod catch_up;
mod clock_steps;
mod crash;
mod faults;
mod figures;
mod firing;
mod given_away;
mod lifecycle;
mod lost_workers;
mod memory;
mod nets;
mod polls;
mod races;
mod redrive;
mod sick_topics;
mod slots;
mod unreadable;
mod unsent;
