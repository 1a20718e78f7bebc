//! The scenarios measure the embedded service for the report.
//!
//! Each decides which tasks are registered, when they are due, and what is measured.

mod access;
mod backup;
pub(super) mod beside;
mod burst;
mod burst_beside;
mod cancel;
mod cancel_heavy;
mod catch_up;
mod http;
mod idle;
mod keys;
mod limits;
mod lists;
mod mixed;
mod ordering;
mod parts;
mod payloads;
mod raw;
mod recover;
mod register;
mod schedules;
mod soak;
mod steady;
mod trees;
mod unclaimed;

pub(super) use self::{
    access::access,
    backup::backup,
    burst::burst,
    burst_beside::{burst_beside, isolation},
    cancel_heavy::cancel_heavy,
    catch_up::catch_up,
    http::http,
    idle::idle,
    keys::keys,
    limits::limits,
    lists::lists,
    mixed::mixed,
    ordering::ordering,
    parts::remove,
    payloads::payloads,
    recover::recover,
    register::register,
    schedules::schedules,
    soak::soak,
    steady::steady,
    trees::trees,
    unclaimed::unclaimed,
};
pub(crate) use self::{
    burst_beside::{Size, isolated},
    schedules::firing,
    trees::family,
};
use crate::report::Report;

/// Adds the summaries of measurements over rounds, and their ratios to those of the raw parts.
pub(super) fn summarize(report: &mut Report) {
    for case in [
        register::FLOOR,
        raw::ONE,
        raw::MANY,
        register::LONELY,
        register::TOGETHER,
        register::SINGLE,
        register::SHARED,
        register::BATCHED,
        raw::DRAIN,
        burst::BURST,
        steady::FILL,
        cancel_heavy::SINGLE,
        cancel_heavy::BATCHED,
        catch_up::CAUGHT_UP,
        keys::UNKEYED,
        keys::KEYED,
        ordering::MANY,
        ordering::ONE,
        access::OPEN_ONE,
        access::CLOSED_ONE,
        access::OPEN_MANY,
        access::CLOSED_MANY,
    ] {
        report.summarize(case);
    }
    report.ratio(register::SINGLE, &[register::FLOOR, raw::ONE], 0.85);
    report.ratio(register::BATCHED, &[raw::MANY], 0.85);
    report.ratio(burst::BURST, &[raw::DRAIN], 0.7);
    report.ratio(keys::KEYED, &[keys::UNKEYED], 0.7);
    report.ratio(access::CLOSED_ONE, &[access::OPEN_ONE], 0.9);
    report.ratio(access::CLOSED_MANY, &[access::OPEN_MANY], 0.97);
}
