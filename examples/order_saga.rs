//! The order saga shows how steps that need each other run as one tree, and how what was done is undone when one of them fails.
//!
//! ```text
//! tickwheel dev
//! cargo run --example order_saga
//! ```
//!
//! # What it shows
//! - Each step is a task with its own retries. A step waits for the one above it by `after_parent`, and is cancelled if that
//!   fails. The service keeps all of it: no program needs to be up between two steps.
//! - What comes behind a step is its tree. If that is faulted or cancelled, a task follows that undoes the step. It is in the
//!   tree above, so that ends behind it, and then what is above is undone: the last step first.
//! - A cancel of the whole order passes over the tasks that undo something. They also come for steps that were cancelled before
//!   they ran, so the systems that they call do nothing for an order that they do not know.
//! - The tree ends once: `completed` when nothing of it failed, `cancelled` when somebody has cancelled it as a whole, else
//!   `faulted`. One task follows each of these ends.
//!
//! A step may run twice, as its worker may die before it has reported. So each hands the number of the order to the system that
//! it changes, which does the same thing for the same order once.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tickwheel::{
    client::{
        Client, EndState, FollowUp, RetryPolicy, Task, TaskId, TreeNodeResponse, TreeResponse, secs,
    },
    worker::{Context, Failure, Job, Outcome, Source, Worker},
};
use tokio::sync::{mpsc, oneshot};

/// The steps that the worker can do.
const STEPS: [&str; 8] = [
    "order",
    "reserve_stock",
    "charge_card",
    "ship",
    "release_stock",
    "refund_card",
    "confirm",
    "apologise",
];

/// The ends of a tree that did not come to what it was made for.
const VAIN: [EndState; 2] = [EndState::Faulted, EndState::Cancelled];

/// An order, the payload of all its steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    number: u32,
    address: String,
}

impl Order {
    /// Returns a step of it.
    fn step(&self, callback: &str) -> anyhow::Result<Task> {
        let soon = RetryPolicy::fixed(secs(1));
        Ok(Task::callback(callback)
            .json(self)?
            .max_attempts(3)
            .retry(soon))
    }

    /// Returns a step that undoes another one when what comes behind that has failed, or was cancelled.
    fn undo(&self, callback: &str) -> anyhow::Result<FollowUp> {
        Ok(FollowUp::from(self.step(callback)?).at(VAIN).in_tree())
    }

    /// Returns all of it.
    fn saga(&self) -> anyhow::Result<Task> {
        let ship = self.step("ship")?.after_parent();
        let charge = self
            .step("charge_card")?
            .after_parent()
            .then(self.undo("refund_card")?)
            .child(ship);
        let reserve = self
            .step("reserve_stock")?
            .after_parent()
            .then(self.undo("release_stock")?)
            .child(charge);
        let confirm = FollowUp::from(self.step("confirm")?).at([EndState::Completed]);
        let apologise = FollowUp::from(self.step("apologise")?).at(VAIN);
        Ok(self
            .step("order")?
            .child(reserve)
            .then(confirm)
            .then(apologise))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = std::env::var("TICKWHEEL_SERVER");
    let server = server.unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let client = Client::connect(&server)?;
    let (tell, mut over) = mpsc::channel(16);
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = worker(&server, &tell)?;
    let worker = tokio::spawn(worker.run_until(async {
        // An end without a word is an end, too.
        stopped.await.unwrap_or_default();
    }));

    let mut roots = HashMap::new();
    for (number, address) in [(1, "Main Street 7"), (2, "nowhere")] {
        let order = Order {
            number,
            address: address.to_owned(),
        };
        roots.insert(number, client.register(order.saga()?).await?.id);
    }
    for _ in 0..roots.len() {
        // The last step of an order comes when its tree has ended.
        let number = over.recv().await;
        let number = number.ok_or_else(|| anyhow::anyhow!("the worker has ended"))?;
        if let Some(root) = roots.get(&number) {
            show(&client, &server, number, *root).await?;
        }
    }
    drop(stop);
    worker.await??;
    Ok(())
}

/// Returns the worker; it tells which orders are over.
fn worker(server: &str, over: &mpsc::Sender<u32>) -> anyhow::Result<Worker> {
    let mut worker = Worker::builder().source(Source::poll(server));
    for step in STEPS {
        let over = over.clone();
        worker = worker.callback(step, move |job: Job<Order>, _: Context| {
            let over = over.clone();
            async move { run(&job, &over).await }
        });
    }
    Ok(worker.build()?)
}

/// Does a step.
#[expect(clippy::print_stdout, reason = "people read it")]
async fn run(job: &Job<Order>, over: &mpsc::Sender<u32>) -> Result<Outcome, Failure> {
    let (number, step) = (job.payload.number, job.callback.as_str());
    if step == "ship" && job.payload.address == "nowhere" {
        println!("order {number}: ship fails");
        return Ok(Outcome::fail("nobody lives there"));
    }
    println!("order {number}: {step}");
    if let "confirm" | "apologise" = step {
        over.send(number).await?;
    }
    Ok(Outcome::Done)
}

/// Shows the tree of an order.
#[expect(clippy::print_stdout, reason = "people read it")]
async fn show(client: &Client, server: &str, number: u32, root: TaskId) -> anyhow::Result<()> {
    let tree = client.tree(root, None).await?;
    println!("tree of order {number}: {root}");
    for line in lines(&tree) {
        println!("  {line}");
    }
    println!("  as a picture: {server}/v1/tasks/{root}/tree?format=svg");
    Ok(())
}

/// Returns a line for each task of a tree, each right below its parent.
fn lines(tree: &TreeResponse) -> Vec<String> {
    let mut below: HashMap<&str, Vec<&TreeNodeResponse>> = HashMap::new();
    for node in tree.nodes.iter().skip(1) {
        let parent = node.parent.as_deref().unwrap_or_default();
        below.entry(parent).or_default().push(node);
    }
    let mut lines = Vec::new();
    let mut open: Vec<(&TreeNodeResponse, usize)> = tree
        .nodes
        .first()
        .map(|root| (root, 0))
        .into_iter()
        .collect();
    while let Some((node, level)) = open.pop() {
        let name = node.callback.as_deref().unwrap_or("task");
        let tree = node
            .tree_state
            .map(|state| format!(", tree {}", state.name()));
        let indent = "  ".repeat(level);
        lines.push(format!(
            "{indent}{name}: {}{}",
            node.state,
            tree.unwrap_or_default()
        ));
        let children = below.get(node.id.as_str()).into_iter().flatten();
        open.extend(children.map(|child| (*child, level + 1)));
    }
    lines
}
