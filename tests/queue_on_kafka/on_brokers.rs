//! `Env::kafka` gives a case of the contract the brokers that `make test` has started.

use tickwheel::{
    model::ids::NodeId,
    queue::kafka::{GroupProtocol, KafkaPublisher, KafkaSubscriptions, Settings},
};

use crate::queue_contract::*;

impl Env {
    pub(crate) fn kafka(group_protocol: GroupProtocol) -> Self {
        let brokers = std::env::var("TICKWHEEL_TEST_KAFKA").expect(
            "no Kafka to test with: use `make test`, or set TICKWHEEL_TEST_KAFKA=HOST:PORT",
        );
        let settings = Settings {
            partitions: PARTITIONS,
            group_protocol,
            // A machine that runs all cases at once must not make a topic look sick.
            patience: LIMIT,
            ..Settings::new(&brokers)
        };
        let time = TimeSource::real();
        // As a node makes them: its members have names.
        let node = NodeId(time.random_uuid());
        let publisher = KafkaPublisher::connect(settings.clone(), time.clone()).unwrap();
        Self {
            publisher: Arc::new(publisher),
            subscriptions: Arc::new(KafkaSubscriptions::of_node(settings, time.clone(), node)),
            queue: Queue::Kafka(brokers),
            prefix: format!("test-{}", time.random_uuid().simple()),
            time,
        }
    }
}

/// The brokers of a case, for clients of its own.
pub(super) fn brokers(env: &Env) -> String {
    match &env.queue {
        Queue::Kafka(brokers) => brokers.clone(),
        Queue::Memory(_) | Queue::Embedded(_) => panic!("these cases are about Kafka"),
    }
}
