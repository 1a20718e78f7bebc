//! Tickwheel starts tasks at a given time for programs that must not forget them; this crate is its SDK.
//!
//! The service keeps a task on disk, hands it out at its millisecond, and makes sure that a worker runs it.
//! A program registers tasks with the [`client`], and runs them with a [`worker`]. The types of the HTTP API
//! are in [`api`].
//!
//! # Quick start
//! Start a service with `tickwheel dev`, which listens on `127.0.0.1:7420`. A program needs a part of the
//! crate only, which compiles no C:
//!
//! ```toml
//! [dependencies]
//! tickwheel = { version = "0.2", default-features = false, features = ["worker"] }
//! ```
//!
//! The program registers a greeting that is due in two seconds, and runs it:
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use tickwheel::{
//!     client::{Client, Task, secs},
//!     worker::{Context, Job, Outcome, Source, Worker},
//! };
//!
//! #[derive(Serialize, Deserialize)]
//! struct Greeting {
//!     name: String,
//! }
//!
//! # async fn example(stop: impl Future<Output = ()>) -> Result<(), Box<dyn std::error::Error>> {
//! let server = "http://127.0.0.1:7420";
//! let client = Client::connect(server)?;
//! let greeting = Greeting { name: "Ada".into() };
//! let registered = client.register(Task::callback("greet").delay(secs(2)).json(&greeting)?).await?;
//! println!("registered {}", registered.id);
//!
//! let worker = Worker::builder()
//!     .callback("greet", |job: Job<Greeting>, _: Context| async move {
//!         println!("hello {}, attempt {}", job.payload.name, job.attempt);
//!         Ok(Outcome::Done) // an error would be a retry
//!     })
//!     .source(Source::poll(server))
//!     .build()?;
//! worker.run_until(stop).await?; // for example `tokio::signal::ctrl_c()`
//! # Ok(())
//! # }
//! ```
//!
//! # Where to read on
//! - [`client::Client`] has every call, [`client::Task`] every field of a task.
//! - [`worker`] says what a callback may rely on; [`worker::Builder`] has the settings of a worker.
//! - [`client::Error`] tells what to do about a call that failed.
//! - The README, the guarantees and the pages for operators come with the source of the crate.
//!
//! # Features
//! | feature | contents |
//! |---|---|
//! | `client` | [`client`] and [`api`] |
//! | `worker` | `client`, and workers that poll the service |
//! | `kafka` | with `worker`: workers that consume the topics of the service; compiles C and C++ |
//! | `testing` | [`testing`]: a service inside of a test, with a clock that can be moved |
//! | `tls` | HTTPS for the client and workers, with `kafka` also TLS and SCRAM; compiles C |
//! | `cli` (the default) | the program `tickwheel` for one machine; compiles C |
//! | `cluster` | with `cli`: the program for many machines, on Cassandra or Scylla and Kafka; compiles C and C++ |
//!
//! # Stability
//! [`api`], [`client`], [`testing`] and [`worker`] are the public surface, and follow semantic versioning. Items that their
//! pages do not show are not part of it. Enums and answers that may grow are `non_exhaustive`. The other
//! features and modules serve the program, its tests and its load harness, and may change with every version.

pub mod api;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "testing", all(feature = "cli", debug_assertions)))]
pub mod testing;
#[cfg(feature = "worker")]
pub mod worker;

// The rooms of the program. The binary, the tests and the load harness are crates of their own, so the rooms are public
// for the compiler. They are hidden from the documentation because no promise is made about them. `make check` documents
// them with `--cfg tickwheel_rooms`, so that their comments and links are checked.
#[cfg(feature = "cli")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod app;
#[cfg(feature = "cli")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod cli;
#[cfg(feature = "cli")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod config;
#[cfg(feature = "server")]
#[cfg(any(test, debug_assertions, feature = "testing"))]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod doubles;
#[cfg(feature = "server")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod failpoint;
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod flaw;
#[cfg(feature = "server")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod flow;
#[cfg(feature = "server")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod http;
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod limits;
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod model;
#[cfg(feature = "queue")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod queue;
#[cfg(feature = "queue")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod schema;
#[cfg(feature = "server")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod store;
#[cfg(feature = "server")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod telemetry;
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod time_source;
#[cfg(feature = "queue")]
#[cfg_attr(not(tickwheel_rooms), doc(hidden))]
pub mod wake;
