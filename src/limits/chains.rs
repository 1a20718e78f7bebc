//! The bounds of chains of tasks.

/// Tasks that follow one task: each is a registration in the end steps of that task.
pub const THEN_MAX: usize = 8;

/// How deep follow-ups may lie in each other: a chain that is longer is made by its callbacks, task by task.
pub const THEN_LEVELS_MAX: usize = 8;

/// All follow-ups of a task as encoded, with those that lie in them: they travel with every entry and message of the task, as its
/// actions do, and four kilobytes of both are still small beside a group of conditional writes of 48.
pub const THEN_BYTES_MAX: usize = 4096;

/// A follow-up in a tree as encoded without its content: with a content of a kilobyte and what a row adds to it, it fits into the
/// row that stands for it under its parent. So no end of a task can fail for the size of what follows.
pub const THEN_IN_TREE_BYTES_MAX: usize = 2900;
