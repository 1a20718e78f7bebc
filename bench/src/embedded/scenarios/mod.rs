//! The scenarios measure the embedded service for the report.
//!
//! Each decides which tasks are registered, when they are due, and what is measured.

mod burst;
mod burst_beside;
mod cancel;
mod cancel_heavy;
mod catch_up;
mod idle;
mod mixed;
mod parts;
mod raw;
mod recover;
mod register;
mod soak;
mod steady;

pub(super) use self::{
    burst::burst,
    burst_beside::{burst_beside, isolation},
    cancel_heavy::cancel_heavy,
    catch_up::catch_up,
    idle::idle,
    mixed::mixed,
    parts::remove,
    recover::recover,
    register::register,
    soak::soak,
    steady::steady,
};
use crate::report::Report;

/// Adds the summaries of measurements over rounds, and their ratios to those of the raw parts.
pub(super) fn summarize(report: &mut Report) {
    for case in [
        register::FLOOR,
        raw::ONE,
        raw::MANY,
        register::SINGLE,
        register::SHARED,
        register::BATCHED,
        raw::DRAIN,
        burst::BURST,
        steady::FILL,
        cancel_heavy::SINGLE,
        cancel_heavy::BATCHED,
        catch_up::CAUGHT_UP,
    ] {
        report.summarize(case);
    }
    report.ratio(register::SINGLE, &[register::FLOOR, raw::ONE], 0.85);
    report.ratio(register::BATCHED, &[raw::MANY], 0.85);
    report.ratio(burst::BURST, &[raw::DRAIN], 0.7);
}
