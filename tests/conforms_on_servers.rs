//! Two nodes that share Cassandra and Kafka keep every promise of the API, whichever of them is asked.

use crate::{
    cluster::{Cluster, Stack},
    conformance::{Service, Topics, every_promise_holds},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it waits for limits, gates and lost workers, about a minute: make test-all"]
async fn two_nodes_keep_every_promise() {
    let cluster = Cluster::init(Stack::of_this_run(), 4);
    let more = ["--http-allow", "127.0.0.0/8"];
    let (one, two) = (
        cluster.node_with(1, &more).await,
        cluster.node_with(2, &more).await,
    );
    let topics = Topics {
        kafka: cluster.stack().kafka.clone(),
    };
    let urls = vec![one.url.clone(), two.url.clone()];
    every_promise_holds(Service::new(urls, Some(topics))).await;
}
