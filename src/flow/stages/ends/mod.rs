//! The service's own tasks, at a time, at least once, and never twice at once: `registry` is the stage that registers what
//! [`crate::flow::features::ends`] asks for, and [`outcomes`] tells how actions and checks went.

pub mod outcomes;
pub(in crate::flow) mod registry;
