//! The options of scenarios of callbacks, lanes, schedules, trees and lists give their sizes.

use clap::Args;

/// The sizes of the scenarios of the operating model.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sizes {
    /// Lanes of `ordering`, which share `--tasks`.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) lanes: u64,
    /// Tasks of the single lane of `ordering`.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) lane_tasks: u64,
    /// Callbacks of `limits`, each with a rate of its own.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(super) limited: u64,
    /// Hosts among which `http` spreads `--tasks` deliveries, one measurement each.
    #[arg(long, default_value = "1,64", num_args = 1.., value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=200))]
    pub(super) hosts: Vec<u8>,
    /// Deliveries a second of `http` while their lateness is measured, to the greatest of `--hosts`.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) http_rate: u64,
    /// Schedules that fire at the same second.
    #[arg(long, default_value_t = 100_000)]
    pub(super) firing: u64,
    /// Schedules that rest; 0 leaves them out.
    #[arg(long, default_value_t = 1_000_000)]
    pub(super) resting: u64,
    /// Children under one root of `trees`, one measurement each.
    #[arg(long, default_value = "1000,100000", num_args = 1.., value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) children: Vec<u64>,
    /// Levels of the chain of `trees`; 0 leaves it out.
    #[arg(long, default_value_t = 1000)]
    pub(super) levels: u64,
    /// Contents of `payloads`.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) contents: u64,
    /// Bytes of each of them.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..=1_030_000))]
    pub(super) content_bytes: u64,
}
