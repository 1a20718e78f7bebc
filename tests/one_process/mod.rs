//! The embedded pair as people run it: one real process on one data directory, refused, drained, looked at.

mod clock;
mod doctor;
mod figures;
mod full_disk;
mod lost_worker;
mod open;
mod power;
mod redrive;
mod refused;
mod sizes;
mod small_disk;
