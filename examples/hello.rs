//! The shortest worker: registers a greeting that is due in two seconds, and greets until Ctrl-C.
//!
//! ```text
//! tickwheel dev
//! cargo run --example hello
//! ```

use serde::{Deserialize, Serialize};
use tickwheel::{
    client::{Client, Task, secs},
    worker::{Context, Job, Outcome, Source, Worker},
};

#[derive(Serialize, Deserialize)]
struct Greeting {
    name: String,
}

#[expect(clippy::print_stdout, reason = "that is all it does")]
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = std::env::var("TICKWHEEL_SERVER");
    let server = server.unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let stop = async {
        // Without the signal it runs until it is killed.
        tokio::signal::ctrl_c().await.unwrap_or_default();
    };

    let client = Client::connect(&server)?;
    let greeting = Greeting { name: "Ada".into() };
    let task = Task::callback("greet").delay(secs(2)).json(&greeting)?;
    client.register(task).await?;

    let worker = Worker::builder()
        .callback("greet", |job: Job<Greeting>, _: Context| async move {
            println!("hello {}, attempt {}", job.payload.name, job.attempt);
            Ok(Outcome::Done) // an error would be a retry
        })
        .source(Source::poll(&server))
        .build()?;
    worker.run_until(stop).await?;
    Ok(())
}
