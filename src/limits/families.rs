//! The bounds of trees of tasks.

use std::time::Duration;

/// Rows of children that a check reads at once: 2 MB at most, and a tree of 100,000 takes some 200 reads.
pub const CHILDREN_PAGE: usize = 500;

/// How often a check reads its record anew after another write was first: every loser makes a step of somebody.
pub const FAMILY_RACES_MAX: usize = 32;

/// Parents whose trees one node checks at once: they share syncs and leave room for others.
pub const FAMILIES_IN_FLIGHT_MAX: usize = 16;

/// Parents that wait for a check of a node, 100 bytes each. Others are left to their looks.
pub const FAMILIES_POKED_MAX: usize = 100_000;

/// Parents of which a node remembers how far their children have ended. Others are read from their first child.
pub const FAMILY_CURSORS_MAX: usize = 10_000;

/// How long the end of a child waits for others of the same parent before its tree is checked: one check serves all of them.
pub const FAMILY_PAUSE: Duration = Duration::from_millis(100);

/// How many times as long as it took a check waits before the next one: checks take a quarter of one reader.
pub const FAMILY_PAUSE_TIMES: u32 = 3;

/// How often a node repeats a check that failed, before it is left to the look of the parent.
pub const FAMILY_TRIES_MAX: u32 = 20;

/// How long such a check waits.
pub const FAMILY_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long the record of a parent outlives its tree, at least: no add is under way that long, and its row stays as long.
pub const FAMILY_KEPT: Duration = Duration::from_secs(8 * 24 * 3600);

/// Children that one check releases at once when the own run of their parent has ended: they share syncs.
pub const RELEASES_IN_FLIGHT_MAX: usize = 32;

/// How long a tree is held open for children to come, at most: longer waits are those of a client that has forgotten them.
pub const CHILDREN_WITHIN_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Tasks of a tree that is registered in one request.
pub const TREE_TASKS_MAX: usize = 1000;

/// Levels of such a tree; a deeper one is made by adding to it.
pub const TREE_LEVELS_MAX: usize = 40;

/// Tasks that the view of a tree shows; it says where it was cut.
pub const TREE_NODES_SHOWN_MAX: usize = 1000;

/// Rows of children that one view of a tree reads: some seconds of a store. The view says where it was cut.
pub const TREE_ROWS_READ_MAX: usize = 100_000;

/// Tasks that one request cancels of a tree: seconds of a store. The same request goes on.
pub const TREE_CANCELS_MAX: usize = 5000;

/// Tasks that one request runs again of a tree: seconds of a store. The next request goes on.
pub const TREE_RETRIES_MAX: usize = 1000;

/// Tasks of one parent that such a request runs again at once: they share syncs.
pub const RETRIES_IN_FLIGHT_MAX: usize = 32;

/// Parents above a task whose trees are opened with its own: deeper than anybody builds, and some seconds of a store.
pub const TREE_LEVELS_OPENED_MAX: usize = 1000;
