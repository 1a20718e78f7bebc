//! The embedded pair as people run it: one real process on one data directory, refused, drained, looked at.

mod clock;
mod doctor;
mod full_disk;
mod open;
mod refused;
mod small_disk;
