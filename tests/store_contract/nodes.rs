//! The store keeps the list of nodes for all nodes.

use tickwheel::{
    model::{ids::NodeId, time::Millis},
    store::NodeRow,
};

use super::Stores;

pub(super) async fn check(stores: &Stores) {
    a_node_is_listed_until_it_is_removed(stores).await;
}

async fn a_node_is_listed_until_it_is_removed(stores: &Stores) {
    assert_eq!(stores.other.nodes().await.unwrap(), []);
    let now = stores.time.now();
    let node = |name: &str| NodeRow {
        node: NodeId(stores.time.random_uuid()),
        name: name.to_owned(),
        address: format!("http://{name}:8080"),
        wall: now,
        ready: false,
    };
    let (mut a, b) = (node("a"), node("b"));
    stores.one.put_node(&a).await.unwrap();
    stores.one.put_node(&b).await.unwrap();
    a.wall = Millis(now.0 + 1);
    a.ready = true;
    stores.one.put_node(&a).await.unwrap();
    let mut listed = stores.other.nodes().await.unwrap();
    listed.sort_by(|x, y| x.name.cmp(&y.name));
    assert_eq!(listed, [a.clone(), b.clone()]);
    stores.one.remove_node(b.node).await.unwrap();
    assert_eq!(stores.other.nodes().await.unwrap(), [a.clone()]);
    stores.one.remove_node(a.node).await.unwrap();
    stores.one.put_node(&b).await.unwrap();
    let listed = stores.other.nodes().await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&b));
    stores.one.remove_node(b.node).await.unwrap();
}
