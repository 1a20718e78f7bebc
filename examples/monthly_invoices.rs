//! The monthly invoices show how a schedule starts many tasks, and how one more task follows when all of them have ended.
//!
//! ```text
//! tickwheel dev
//! cargo run --example monthly_invoices
//! ```
//!
//! # What it shows
//! - A schedule whose run knows at its time which tasks it needs: it registers a tree with one invoice for each customer. The
//!   registration is marked by the id of the run. So a run that is repeated, since its worker died, makes one tree.
//! - Each invoice is a task with its own retries: one that fails holds up no other.
//! - The join: a summary follows the end of the whole tree, whether all went well (`completed`) or not (`faulted`).
//!
//! Here the first run is triggered at once, and the program ends behind its summary. The schedule stays.

use serde::{Deserialize, Serialize};
use tickwheel::{
    client::{
        Client, EndState, FollowUp, RetryPolicy, ScheduleRequest, Task, TaskId, TaskState, secs,
    },
    worker::{Context, Failure, Job, Outcome, Source, Worker},
};
use tokio::sync::mpsc;

const SCHEDULE: &str = "monthly-invoices";

/// The customers, and what they owe in euros. One of them has no address.
const CUSTOMERS: [(&str, u32, bool); 3] = [
    ("acme", 120, true),
    ("globex", 80, true),
    ("initech", 45, false),
];

/// The payload of an invoice.
#[derive(Debug, Serialize, Deserialize)]
struct Customer {
    name: String,
    owes: u32,
    has_address: bool,
}

/// The result of an invoice.
#[derive(Debug, Serialize, Deserialize)]
struct Invoice {
    euros: u32,
}

#[expect(clippy::print_stdout, reason = "people read it")]
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = std::env::var("TICKWHEEL_SERVER");
    let server = server.unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let client = Client::connect(&server)?;
    let run = Task::callback("invoices_of_month");
    let schedule = ScheduleRequest {
        time_zone: Some("Europe/Berlin".to_owned()),
        ..ScheduleRequest::cron("0 6 1 * *").runs(run.request().clone())
    };
    let set = client.set_schedule(SCHEDULE, &schedule).await?;
    println!("{}: {}", set.name, set.description);
    client.trigger_schedule(SCHEDULE).await?;

    let (tell, mut summed) = mpsc::channel(1);
    let of_run = client.clone();
    let worker = Worker::builder()
        .callback("invoices_of_month", move |job: Job<()>, _: Context| {
            let client = of_run.clone();
            async move { plan(&client, &job).await }
        })
        .callback("books", |_: Job<()>, _: Context| async {
            // All invoices need the rates of the month.
            Ok(Outcome::Done)
        })
        .callback("invoice", |job: Job<Customer>, _: Context| async move {
            invoice(&job)
        })
        .callback("summary", move |job: Job<()>, _: Context| {
            let (client, tell) = (client.clone(), tell.clone());
            async move {
                let outcome = summary(&client, &job).await?;
                // The worker stops then, and reports this one first.
                tell.send(()).await?;
                Ok(outcome)
            }
        })
        .source(Source::poll(&server))
        .build()?;
    let over = async {
        // A channel that is closed is an end, too.
        summed.recv().await.unwrap_or_default();
    };
    worker.run_until(over).await?;
    Ok(())
}

/// Registers the invoices of a month.
#[expect(clippy::print_stdout, reason = "people read it")]
async fn plan(client: &Client, job: &Job<()>) -> Result<Outcome, Failure> {
    let summary = Task::callback("summary");
    let ends = [EndState::Completed, EndState::Faulted];
    let mut month = Task::callback("books")
        .idempotency_key(format!("invoices of {}", job.id))
        .then(FollowUp::from(summary).at(ends));
    for (name, owes, has_address) in CUSTOMERS {
        let customer = Customer {
            name: name.to_owned(),
            owes,
            has_address,
        };
        let invoice = Task::callback("invoice")
            .json(&customer)?
            .label("customer", name)
            .max_attempts(5)
            .retry(RetryPolicy::fixed(secs(1)))
            // Not before the books are closed.
            .after_parent();
        month = month.child(invoice);
    }
    let month = client.register(month).await?;
    println!(
        "{} invoices are to be made: tree {}",
        CUSTOMERS.len(),
        month.id
    );
    Outcome::done_with(&month.id.to_string())
}

/// Makes an invoice. The number of the task is that of the invoice, so a repetition makes no second one.
#[expect(clippy::print_stdout, reason = "people read it")]
fn invoice(job: &Job<Customer>) -> Result<Outcome, Failure> {
    let Customer {
        name,
        owes,
        has_address,
    } = &job.payload;
    if !has_address {
        println!("invoice of {name}: failed, it has no address");
        return Ok(Outcome::fail(format!("{name} has no address")));
    }
    if name == "globex" && job.attempt == 1 {
        println!("invoice of {name}: the printer is busy, once more in a second");
        return Ok(Outcome::retry("the printer is busy"));
    }
    println!("invoice of {name}: {owes} euros");
    Outcome::done_with(&Invoice { euros: *owes })
}

/// Adds up what the tree has made that this task follows.
#[expect(clippy::print_stdout, reason = "people read it")]
async fn summary(client: &Client, job: &Job<()>) -> Result<Outcome, Failure> {
    let previous = job.previous.as_ref().ok_or("it follows no tree")?;
    let tree = client.tree(previous.id, Some(1)).await?;
    let (mut euros, mut wrong) = (0, Vec::new());
    for node in tree.nodes.iter().skip(1) {
        if node.state == TaskState::Succeeded {
            let id: TaskId = node.id.parse()?;
            let result = client.get(id).await?.result.ok_or("it has no result")?;
            let made: Invoice = serde_json::from_str(result.get())?;
            euros += made.euros;
        } else {
            wrong.push(node.error.clone().unwrap_or_default());
        }
    }
    let state = previous.tree_state.map_or("over", |state| state.name());
    println!(
        "the run is {state}: {euros} euros, {} not made",
        wrong.len()
    );
    for error in &wrong {
        println!("  {error}");
    }
    Outcome::done_with(&serde_json::json!({"euros": euros, "not_made": wrong}))
}
