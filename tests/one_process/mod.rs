//! These tests run the embedded pair as people do: one real process on one data directory,
//! refused, drained, examined.

mod backup;
mod clock;
mod dashboard;
mod doctor;
mod figures;
mod full_disk;
mod lost_worker;
mod missed_runs;
mod open;
mod power;
mod redrive;
mod refused;
mod sizes;
mod small_disk;
mod stands_still;
mod supervised;
mod test_clock;
mod time_off;
mod traces;
