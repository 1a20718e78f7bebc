//! The base of the flow: what every part of it uses, and nothing that knows a feature or changes the state of a task.
//!
//! - [`context`] holds what all stages of a node share. [`api`] has the questions and answers of the service.
//! - [`entries`] writes entries into slots so that none is lost. [`rows`] writes and reads the rows of tasks.
//! - [`tables`] has one file for each kind of rows in the index. [`configuration`] and [`records`] hold the configuration.
//! - [`read`] finds tasks. [`figures`] counts them. `permits` bounds reads of wheels.
//! - `documents` changes records on a condition. [`agendas`] are lists in memory: something to do at once, or at a time.

pub mod agendas;
pub mod api;
pub mod budget;
pub mod configuration;
pub mod context;
pub(in crate::flow) mod documents;
pub mod entries;
pub mod figures;
pub(in crate::flow) mod labels;
pub mod level_memory;
pub(in crate::flow) mod levels;
pub mod panics;
pub(in crate::flow) mod permits;
pub mod read;
pub mod records;
pub mod rows;
pub mod tables;
pub mod zones;
