//! The parts are what pages of the dashboard have in common: the frame around them, texts, numbers, times, charts.

pub(super) mod chart;
pub(super) mod form;
pub(super) mod frame;
pub(super) mod json;
pub(super) mod life;
pub(super) mod problem;
pub(super) mod query;
pub(super) mod regions;
pub(super) mod states;
pub(super) mod text;
pub(super) mod time;
