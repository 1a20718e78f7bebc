//! The command `tickwheel forecast` shows the user how many tasks are due in the time ahead.

use std::{
    io::{self, Write},
    time::Duration,
};

use clap::Args;

use super::{
    ClientArgs, Exit, Failure, Format,
    output::{aligned, counted, json},
    times,
};
use crate::client::{ForecastResponse, ForecastStep};

/// Callbacks that are listed: those with the most tasks.
const CALLBACKS_SHOWN: usize = 10;

/// Characters of the longest bar.
const BAR: u64 = 40;

/// `tickwheel forecast`.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// Only tasks of this callback.
    #[arg(long, value_name = "NAME")]
    callback: Option<String>,
    /// Length of a step, in whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = times::duration)]
    step: Duration,
    /// So many steps, 1440 at most.
    #[arg(long, value_name = "COUNT", default_value_t = 60)]
    count: usize,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let client = command.client.connect()?;
    let callback = command.callback.as_deref();
    let told = client
        .forecast(callback, command.step, command.count)
        .await?;
    let mut out = io::stdout().lock();
    match command.client.print.output {
        Format::Table => table(&mut out, &told)?,
        format => json(&mut out, format, &told)?,
    }
    Ok(Exit::Ok)
}

/// Writes a line for each step that has tasks, then one for each of the busiest callbacks.
fn table(out: &mut impl Write, told: &ForecastResponse) -> io::Result<()> {
    let more = if told.exact { "" } else { " at least" };
    let (tasks, steps) = (counted(told.total, "task"), told.steps.len());
    writeln!(out, "{tasks}{more} due in {steps} x {}", told.step.0)?;
    let most = told.steps.iter().map(|step| step.tasks).max();
    let most = most.unwrap_or_default().max(1);
    let busy = |step: &&ForecastStep| step.tasks > 0 || step.at_most.is_some_and(|most| most > 0);
    let rows: Vec<[String; 3]> = told
        .steps
        .iter()
        .filter(busy)
        .map(|step| row(step, most))
        .collect();
    aligned(out, &rows)?;
    let mut callbacks: Vec<_> = told.callbacks.iter().filter(|one| one.total > 0).collect();
    callbacks.sort_by_key(|one| std::cmp::Reverse(one.total));
    let rows: Vec<[String; 2]> = callbacks
        .iter()
        .take(CALLBACKS_SHOWN)
        .map(|one| [name(&one.callback), one.total.to_string()])
        .collect();
    if rows.len() > 1 {
        writeln!(out)?;
        aligned(out, &rows)?;
    }
    out.flush()
}

fn row(step: &ForecastStep, most: u64) -> [String; 3] {
    let tasks = match step.at_most {
        Some(at_most) if at_most == step.tasks => step.tasks.to_string(),
        Some(at_most) => format!("{} to {at_most}", step.tasks),
        None => format!("{}+", step.tasks),
    };
    let bar = usize::try_from(step.tasks.saturating_mul(BAR).div_ceil(most)).unwrap_or_default();
    [step.from.0.clone(), tasks, "#".repeat(bar)]
}

fn name(callback: &str) -> String {
    if callback.is_empty() {
        "records of Kafka".to_owned()
    } else {
        callback.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_with_tasks_are_shown_with_their_bounds() {
        let told: ForecastResponse = serde_json::from_value(json!({
            "time": "t", "step": "1m", "exact": false, "total": 6,
            "steps": [
                {"from": "09:00", "tasks": 4, "at_most": 4}, {"from": "09:01", "tasks": 0, "at_most": 0},
                {"from": "09:02", "tasks": 2, "at_most": 3}, {"from": "09:03", "tasks": 1},
            ],
            "callbacks": [
                {"callback": "a", "total": 2, "tasks": []}, {"callback": "", "total": 4, "tasks": []},
            ],
        }))
        .unwrap();
        let mut out = Vec::new();
        table(&mut out, &told).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "6 tasks at least due in 4 x 1m\n",
            &*format!("09:00  4       {}\n", "#".repeat(40)),
            &*format!("09:02  2 to 3  {}\n", "#".repeat(20)),
            &*format!("09:03  1+      {}\n", "#".repeat(10)),
            "records of Kafka  4\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("09:01"), "{text}");
    }
}
