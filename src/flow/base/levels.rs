//! The levels tell a node which features every node of the cluster knows ([`crate::model::level`]).
//!
//! A node writes its level as a row of the index before it writes itself into the list of nodes, so a node that finds it
//! there finds its level. A node without such a row has level 0, which no released program has. A level belongs to a life of a
//! process and never changes, so each is read once. A node counts as long as its row is in the list, some 30 s behind its death.
//!
//! On a store of one process there are no others, and no rows.

use std::{collections::BTreeMap, time::Duration};

use super::{api::Fault, context::Context, tables::levels};
use crate::{
    limits,
    model::{ids::NodeId, level::Level},
    store::{self, NodeRow, index::IndexRange},
};

/// How often a node writes its row.
const EVERY: Duration = Duration::from_secs(3600);

/// Writes the level of this node, when that is due.
///
/// # Errors
/// When it may not have been written; repeating it is safe.
pub(in crate::flow) async fn announce(ctx: &Context) -> Result<(), store::Error> {
    let now = ctx.time.moment();
    let written = ctx.levels.lock().written;
    if ctx.underway.is_some() || written.is_some_and(|at| now.since(at) < EVERY) {
        return Ok(());
    }
    let stamp = ctx.time.stamp();
    let put = levels::row((ctx.me, Level::OWN), stamp, ctx.now()).map_err(|refused| {
        store::Error::Unsuitable {
            reason: refused.to_string(),
        }
    })?;
    let done: Result<Vec<()>, _> = ctx.store.put_index(&[put]).await.into_iter().collect();
    done?;
    ctx.levels.lock().written = Some(now);
    Ok(())
}

/// Learns the levels of the nodes that are listed.
///
/// # Errors
/// When those of new nodes cannot be read.
pub(in crate::flow) async fn learn(ctx: &Context, nodes: &[NodeRow]) -> Result<(), store::Error> {
    let of = |node: NodeId, levels: &BTreeMap<NodeId, Level>| {
        (node == ctx.me)
            .then_some(Level::OWN)
            .or_else(|| levels.get(&node).copied())
    };
    let has_new = {
        let known = ctx.levels.lock();
        nodes
            .iter()
            .any(|row| of(row.node, &known.levels).is_none())
    };
    let read = if has_new && ctx.underway.is_none() {
        read(ctx).await?
    } else {
        BTreeMap::new()
    };
    let mut known = ctx.levels.lock();
    known
        .levels
        .retain(|node, _| nodes.iter().any(|row| row.node == *node));
    known.levels.extend(read);
    let levels = nodes.iter().map(|row| of(row.node, &known.levels));
    let least = levels.map(|level| level.unwrap_or(Level::UNKNOWN)).min();
    if let Some(least) = least
        && known.least != Some(least)
        && (known.least.is_some() || least != Level::OWN)
    {
        let (level, own) = (least.number(), Level::OWN.number());
        tracing::info!(
            level,
            own,
            "the lowest level of the cluster's nodes has changed"
        );
    }
    known.least = least;
    Ok(())
}

/// Returns the level that every node of the cluster has. Before the list was read first, it is read now.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn least(ctx: &Context) -> Result<Level, Fault> {
    if ctx.underway.is_some() {
        return Ok(Level::OWN);
    }
    if let Some(least) = ctx.levels.lock().least {
        return Ok(least.min(Level::OWN));
    }
    let nodes = ctx.store.nodes().await?;
    learn(ctx, &nodes).await?;
    Ok(ctx
        .levels
        .lock()
        .least
        .map_or(Level::OWN, |least| least.min(Level::OWN)))
}

/// Reads the levels of all nodes that have said theirs within a day.
async fn read(ctx: &Context) -> Result<BTreeMap<NodeId, Level>, store::Error> {
    let (mut levels, mut after) = (BTreeMap::new(), None);
    loop {
        let partition = levels::partition().map_err(|refused| store::Error::Unsuitable {
            reason: refused.to_string(),
        })?;
        let range = IndexRange {
            partition,
            after,
            rows_max: limits::INDEX_PAGE_ROWS_MAX,
        };
        let page = ctx.store.index_range(&range).await?;
        levels.extend(page.rows.iter().filter_map(levels::read));
        after = page.next;
        if after.is_none() {
            return Ok(levels);
        }
    }
}
