//! Features of tasks: what each of them writes when a task is registered, when it ends and when it goes. None imports another;
//! [`crate::flow::life`] puts them into their order.

pub mod ends;
pub mod gate;
pub(in crate::flow) mod join;
pub(in crate::flow) mod key;
pub(in crate::flow) mod letter;
pub mod limit;
pub(in crate::flow) mod lists;
pub(in crate::flow) mod sequence;
pub(in crate::flow) mod tree;
