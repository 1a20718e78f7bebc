//! The wire types: what requests and answers look like as JSON, and nothing else of them.
//!
//! Every type can be written and read, so that the service and its clients share one definition. Reading is strict
//! where a person may have mistyped (requests), and lenient where a newer service may have added a field (answers).
//! What a request means is decided where it is converted to the domain (modules `new_task` and `worker_calls`).

pub mod problem;
pub mod target;
pub mod task_request;
pub mod task_response;
pub mod text;
pub mod worker;
