//! The disk files hold the data directory for the embedded store: its lock and format, its free space, and
//! its database.

mod background;
pub(in crate::store::embedded) mod ballast;
pub(in crate::store::embedded) mod database;
pub(in crate::store::embedded) mod directory;
mod forms;
mod open_faults;
pub(in crate::store::embedded) mod space;
pub(in crate::store::embedded) mod tables;
