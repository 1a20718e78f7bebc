//! The node store keeps the list of nodes for the cluster.

use async_trait::async_trait;
use uuid::Uuid;

use super::{Store, link::Purpose};
use crate::{
    limits::LIST_ROWS_MAX,
    model::{ids::NodeId, time::Millis},
    store::{Error, NodeRow, NodeStore},
};

#[async_trait]
impl NodeStore for Store {
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error> {
        let NodeRow {
            node,
            name,
            address,
            wall,
            ready,
        } = node;
        let written = self.time.stamp();
        let values = (node.0, name, address, wall.0, *ready, written);
        let statement = &self.statements.put_node;
        let _timed = self.timed("put_node");
        self.link.write("put a node", statement, values).await
    }

    async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        let values = (self.time.stamp(), node.0);
        let statement = &self.statements.remove_node;
        let _timed = self.timed("remove_node");
        self.link.write("remove a node", statement, values).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        type Row = (
            Uuid,
            Option<String>,
            Option<String>,
            Option<i64>,
            Option<bool>,
        );
        let statement = &self.statements.nodes;
        let _timed = self.timed("nodes");
        let rows: Vec<Row> = self
            .link
            .rows(
                (Purpose::Urgent, "list the nodes"),
                statement,
                (),
                LIST_ROWS_MAX,
            )
            .await?;
        // The list is a hint, so a row that is not whole counts as none.
        let whole = |(node, name, address, wall, ready): Row| {
            Some(NodeRow {
                node: NodeId(node),
                name: name?,
                address: address?,
                wall: Millis(wall?),
                ready: ready?,
            })
        };
        Ok(rows.into_iter().filter_map(whole).collect())
    }
}
