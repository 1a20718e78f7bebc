//! Members of a node are taken out of their groups by others, and leave by themselves, long before a session ends.

use std::collections::BTreeSet;

use tickwheel::{
    model::ids::NodeId,
    queue::{
        Consumer, Subscriptions,
        kafka::{GroupProtocol, KafkaSubscriptions, Settings},
    },
};

use super::on_brokers::brokers;
use crate::queue_contract::*;

/// Shorter than a session by enough that nothing here waits for one.
const SOON: Duration = Duration::from_secs(5);

/// The subscriptions of a new node.
fn node(env: &Env) -> (NodeId, KafkaSubscriptions) {
    let node = NodeId(env.time.random_uuid());
    let settings = Settings {
        partitions: PARTITIONS,
        ..Settings::new(&brokers(env))
    };
    let subscriptions = KafkaSubscriptions::of_node(settings, env.time.clone(), node);
    (node, subscriptions)
}

/// Publishes until both consumers have received at the same time.
async fn share(env: &Env, first: &mut dyn Consumer, second: &mut dyn Consumer) {
    let until = env.time.moment().after(LIMIT);
    loop {
        env.publish(to_all(env, "early")).await;
        let (of_first, of_second) =
            tokio::join!(first.receive(100, STEP), second.receive(100, STEP));
        let (of_first, of_second) = (of_first.unwrap(), of_second.unwrap());
        first.handled(&places(&of_first));
        second.handled(&places(&of_second));
        if !of_first.is_empty() && !of_second.is_empty() {
            return;
        }
        assert!(
            env.time.moment() < until,
            "the members never shared the partitions"
        );
    }
}

fn to_all(env: &Env, value: &'static str) -> Vec<Record> {
    let record = |partition| env.record("t", Partition::Fixed(partition), value);
    (0..PARTITIONS).map(record).collect()
}

/// Receives until records of all partitions with this value have come.
async fn receives_all(env: &Env, consumer: &mut dyn Consumer, value: &str) -> Duration {
    let begun = env.time.moment();
    let mut seen = BTreeSet::new();
    while seen.len() < PARTITIONS as usize {
        let received = consumer.receive(100, STEP).await.unwrap();
        consumer.handled(&places(&received));
        let new = received
            .iter()
            .filter(|one| one.value.as_ref() == value.as_bytes());
        seen.extend(new.map(|one| one.partition));
        let took = env.time.moment().since(begun);
        assert!(took < LIMIT, "only {seen:?} came");
    }
    env.time.moment().since(begun)
}

/// Has a node look for members of another, as often as it takes to get an answer.
async fn take_out(env: &Env, survivor: &KafkaSubscriptions, dead: NodeId) {
    let until = env.time.moment().after(LIMIT);
    while let Err(error) = survivor.take_out(dead).await {
        assert!(env.time.moment() < until, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_node_are_taken_out_by_another_and_join_anew_if_it_lives() {
    let env = Env::kafka(GroupProtocol::Classic);
    let ((dead, of_dead), (_, of_survivor)) = (node(&env), node(&env));
    let (group, topics) = (env.name("g"), env.names(&["t"]));
    let mut first = of_dead.subscribe(&group, &topics).await.unwrap();
    let mut second = of_survivor.subscribe(&group, &topics).await.unwrap();
    share(&env, &mut *first, &mut *second).await;
    // The client of the first one keeps its session, so only the survivor can end its membership.
    take_out(&env, &of_survivor, dead).await;
    env.publish(to_all(&env, "behind")).await;
    let took = receives_all(&env, &mut *second, "behind").await;
    assert!(took < SOON, "{took:?}");
    // It lives after all, and the survivor finds out.
    share(&env, &mut *first, &mut *second).await;
    take_out(&env, &of_survivor, dead).await;
    share(&env, &mut *first, &mut *second).await;
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_a_name_leaves_its_group_when_it_is_closed() {
    let env = Env::kafka(GroupProtocol::Classic);
    let ((_, of_leaver), (_, of_other)) = (node(&env), node(&env));
    let (group, topics) = (env.name("g"), env.names(&["t"]));
    let mut leaver = of_leaver.subscribe(&group, &topics).await.unwrap();
    let mut other = of_other.subscribe(&group, &topics).await.unwrap();
    share(&env, &mut *leaver, &mut *other).await;
    let begun = env.time.moment();
    leaver.close().await;
    let took = env.time.moment().since(begun);
    assert!(
        took < Duration::from_secs(2),
        "a stop waits for it: {took:?}"
    );
    env.publish(to_all(&env, "behind")).await;
    let took = receives_all(&env, &mut *other, "behind").await;
    assert!(took < SOON, "{took:?}");
    other.close().await;
}
