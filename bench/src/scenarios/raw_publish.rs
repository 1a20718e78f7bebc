//! This scenario produces the records of a backlog by the Kafka client alone, to bound the rate of the
//! service.
//!
//! The records have the same size and headers as the service's; acks=all, idempotent.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context as _, bail};
use rdkafka::{
    ClientConfig, ClientContext,
    config::FromClientConfigAndContext as _,
    error::RDKafkaErrorCode,
    message::{DeliveryResult, Header, OwnedHeaders},
    producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer},
};
use tickwheel::{
    flow::life::record::record,
    model::dispatch::Dispatch,
    queue::{
        Partition, Record,
        message::{self, TimeTexts},
    },
};

use super::{Bench, WARM_UP};
use crate::{
    observer::{self, Observer, Registered},
    report::Report,
    servers::PARTITIONS,
    tasks::{self, Kind},
};

pub(super) const KAFKA: &str = "raw produce, records as registered";
pub(super) const CALLBACK: &str = "raw produce, task messages";

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Failures(AtomicU64);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    for (kind, case) in [(Kind::Kafka, KAFKA), (Kind::Callback, CALLBACK)] {
        let name = format!("raw{}", bench.servers.time.random());
        let topic = match kind {
            Kind::Kafka => name.clone(),
            Kind::Callback => message::topic(&name, tickwheel::model::task::Priority::Normal),
        };
        bench.servers.topics(std::slice::from_ref(&topic)).await?;
        let (registered, records) = records(bench, kind, &name)?;
        let observer = Observer::start(&bench.servers.kafka, &topic, &bench.servers.time)?;
        let kafka = bench.servers.kafka.clone();
        let produced = tokio::task::spawn_blocking(move || produce(&kafka, &records));
        let arrivals = &observer.arrivals;
        let verdict = observer::wait(&bench.servers.time, &registered, arrivals, PATIENCE).await;
        produced.await??;
        if round != WARM_UP {
            report.rate(case, round, verdict.per_second(), verdict.check);
        }
    }
    Ok(())
}

fn records(bench: &Bench, kind: Kind, name: &str) -> anyhow::Result<(Registered, Vec<Record>)> {
    let due = bench.servers.time.now();
    let mut registered = HashMap::new();
    let mut records = Vec::new();
    let mut times = TimeTexts::default();
    for _ in 0..bench.tasks {
        let id = bench.raw.draw(due);
        let spec = tasks::spec(tasks::target(kind, name), due);
        let content = spec.content().context("the content is apart")?;
        let dispatch = Dispatch::first(id, due);
        let record = record(&dispatch, &spec, content, due, &mut times);
        registered.insert(id, due);
        records.push(record);
    }
    Ok((registered, records))
}

/// Sends all records and waits for their acknowledgements.
fn produce(kafka: &str, records: &[Record]) -> anyhow::Result<()> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", kafka)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", "1")
        .set("partitioner", "murmur2_random");
    let producer = ThreadedProducer::from_config_and_context(&config, Failures::default())?;
    // An idempotent producer requests its number at the first record, so that record belongs to no task.
    if let Some(record) = records.first() {
        let first: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&record.topic).payload(b"warm");
        producer.send(first).map_err(|(error, _)| error)?;
        producer.flush(PATIENCE)?;
    }
    for record in records {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (name, value) in &record.headers {
            headers = headers.insert(Header {
                key: name.as_ref(),
                value: Some(value.as_ref()),
            });
        }
        let mut next = BaseRecord {
            topic: &record.topic,
            partition: match record.partition {
                Partition::OfWheel(wheel) => Some(wheel.partition(PARTITIONS)),
                Partition::Fixed(partition) => Some(partition),
                Partition::ByKey => None,
            },
            payload: Some(&record.value[..]),
            key: record.key.as_deref(),
            timestamp: None,
            headers: Some(headers),
            delivery_opaque: (),
        };
        while let Err((error, back)) = producer.send(next) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            next = back;
            producer.poll(Duration::from_millis(1));
        }
    }
    producer.flush(PATIENCE)?;
    match producer.context().0.load(Ordering::Relaxed) {
        0 => Ok(()),
        failed => bail!("{failed} records were not acknowledged"),
    }
}
