//! The printer writes answers of the service for the user, as tables or JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::Format;
use crate::{api::text::InstantText, client::TaskResponse};

/// Prints an answer about a task; `outcome` names the action.
pub(super) fn task(
    out: &mut impl Write,
    format: Format,
    outcome: Option<&str>,
    task: &TaskResponse,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Answer<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<&'a str>,
        #[serde(flatten)]
        task: &'a TaskResponse,
    }
    let answer = Answer { outcome, task };
    match format {
        Format::Table => rows(out, outcome, task),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &answer)?;
            writeln!(out)
        }
        Format::Jsonl => {
            serde_json::to_writer(&mut *out, &answer)?;
            writeln!(out)
        }
    }
}

fn rows(out: &mut impl Write, outcome: Option<&str>, task: &TaskResponse) -> io::Result<()> {
    let target = task.target.to_string();
    let text = |text: &InstantText| text.0.clone();
    let labels = task
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<String> = labels.collect();
    let attempts = format!("{} of {}", task.attempt, task.max_attempts);
    let rows = [
        ("outcome", outcome.map(str::to_owned)),
        ("id", Some(task.id.clone())),
        ("target", Some(target)),
        ("collection", task.collection.clone()),
        ("state", Some(state(task))),
        ("start", Some(text(&task.start_time))),
        (
            "next",
            Some(text(&task.effective_start_time)).filter(|at| *at != task.start_time.0),
        ),
        ("fired", task.fire_time.as_ref().map(text)),
        ("claimed", task.claim_time.as_ref().map(text)),
        ("ended", task.end_time.as_ref().map(text)),
        ("attempt", Some(attempts).filter(|_| task.attempt > 0)),
        ("worker", task.worker.clone()),
        (
            "progress",
            task.progress.as_ref().map(|raw| raw.get().to_owned()),
        ),
        (
            "result",
            task.result.as_ref().map(|raw| raw.get().to_owned()),
        ),
        ("error", task.error.clone()),
        (
            "labels",
            Some(labels.join(" ")).filter(|labels| !labels.is_empty()),
        ),
        (
            "payload",
            task.payload.as_ref().map(|raw| raw.get().to_owned()),
        ),
        (
            "payload",
            task.payload_base64
                .as_ref()
                .map(|text| format!("base64 {text}")),
        ),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            writeln!(out, "{name:<12}{}", printable(&value))?;
        }
    }
    attempt_rows(out, task)
}

/// Prints a line for each attempt.
fn attempt_rows(out: &mut impl Write, task: &TaskResponse) -> io::Result<()> {
    if task.attempts_dropped > 0 {
        writeln!(
            out,
            "{:<12}{} more are not kept",
            "attempts", task.attempts_dropped
        )?;
    }
    for attempt in &task.attempts {
        let time = |at: &Option<InstantText>| at.as_ref().map_or("", |at| &at.0).to_owned();
        let told = [
            attempt
                .outcome
                .clone()
                .unwrap_or_else(|| "running".to_owned()),
            time(&attempt.claim_time),
            time(&attempt.end_time),
            attempt.worker.clone().unwrap_or_default(),
            attempt.error.clone().unwrap_or_default(),
        ];
        let told: Vec<String> = told.into_iter().filter(|text| !text.is_empty()).collect();
        let name = format!("attempt {}", attempt.attempt);
        writeln!(out, "{name:<12}{}", printable(&told.join("  ")))?;
    }
    Ok(())
}

/// A table of tasks that prints them one below the other, as they come.
#[derive(Debug)]
pub(super) struct TaskRows {
    format: Format,
    begun: bool,
}

impl TaskRows {
    pub(super) const fn new(format: Format) -> Self {
        Self {
            format,
            begun: false,
        }
    }

    /// Prints a task.
    pub(super) fn row(&mut self, out: &mut impl Write, task: &TaskResponse) -> io::Result<()> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.format {
            Format::Table => {
                if first {
                    line(out, ["ID", "STATE", "START", "ATTEMPT", "TARGET"])?;
                }
                let attempt = format!("{}/{}", task.attempt, task.max_attempts);
                let target = task.target.to_string();
                let start = &task.effective_start_time.0;
                line(out, [&task.id, task.state.name(), start, &attempt, &target])
            }
            Format::Json => {
                write!(out, "{}", if first { "[\n" } else { ",\n" })?;
                serde_json::to_writer_pretty(out, task).map_err(Into::into)
            }
            Format::Jsonl => {
                serde_json::to_writer(&mut *out, task)?;
                writeln!(out)
            }
        }
    }

    /// Ends the output.
    pub(super) fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match (self.format, self.begun) {
            (Format::Json, true) => writeln!(out, "\n]"),
            (Format::Json, false) => writeln!(out, "[]"),
            (Format::Table | Format::Jsonl, _) => Ok(()),
        }
    }
}

fn line(out: &mut impl Write, columns: [&str; 5]) -> io::Result<()> {
    let [id, state, start, attempt, target] = columns;
    let target = printable(target);
    writeln!(
        out,
        "{id:<36}  {state:<10}  {start:<24}  {attempt:<7}  {target}"
    )
}

/// Prints a value as JSON, indented or in one line.
pub(super) fn json(out: &mut impl Write, format: Format, value: &impl Serialize) -> io::Result<()> {
    match format {
        Format::Json => serde_json::to_writer_pretty(&mut *out, value)?,
        Format::Table | Format::Jsonl => serde_json::to_writer(&mut *out, value)?,
    }
    writeln!(out)
}

/// Prints rows of which each column is as wide as its widest cell.
pub(super) fn aligned<const N: usize>(
    out: &mut impl Write,
    rows: &[[String; N]],
) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:<width$}"));
        let cells: Vec<String> = cells.collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// Returns a count with its noun: `1 task`, `2 tasks`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// Returns the state's name, as the API writes it.
pub(super) fn state(task: &TaskResponse) -> String {
    let name = serde_json::to_value(task.state).ok();
    let name = name
        .as_ref()
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default();
    if task.cancel_requested {
        format!("{name} (cancel requested)")
    } else {
        name.to_owned()
    }
}

/// Replaces control characters: a payload must not move the cursor of its reader.
pub(super) fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() && c != '\n' && c != '\t' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}
