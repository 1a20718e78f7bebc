//! Gates hold the tasks of a callback or of a collection back: [`gatekeeper`] writes the rows of held tasks.

pub mod gatekeeper;
