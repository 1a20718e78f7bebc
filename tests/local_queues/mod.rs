//! The queue contract holds in memory, on the embedded queue, and on a Kafka client whose brokers are mocked.

mod embedded;
#[cfg(feature = "cluster")]
mod keyless;
mod memory;
