//! The printer writes answers of the service for the user, as tables or JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::Format;
use crate::{
    api::text::InstantText,
    client::{AfterCondition, TaskResponse, TaskState},
};

/// Ids of open tasks that a task waits for which are shown: some lines.
const OPEN_SHOWN_MAX: usize = 10;

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
        ("waits for", waits_for(task)),
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

/// Returns the tasks that a task waits for, with the ids of those that have not ended.
fn waits_for(task: &TaskResponse) -> Option<String> {
    let Some(after) = &task.after else {
        let waits = task.after_parent && task.state == TaskState::Waiting;
        let parent = task.parent.as_deref().filter(|_| waits);
        return parent.map(|id| format!("the own run of its parent {id}"));
    };
    let tasks = after.tasks;
    let condition = match after.condition {
        AfterCondition::AllSucceeded => "to succeed",
        AfterCondition::AllEnded => "to end",
    };
    let mut text = match after.open {
        Some(0) => format!("none any more of {tasks}"),
        Some(open) => format!("{open} of {tasks} {condition}"),
        None => format!("{tasks} {condition}"),
    };
    if let Some(deadline) = &after.deadline {
        text.push_str(&format!(", until {}", deadline.0));
    }
    let shown = after.open_ids.iter().take(OPEN_SHOWN_MAX);
    for id in shown {
        text.push_str(&format!(" {id}"));
    }
    let hidden = after.open_ids.len().saturating_sub(OPEN_SHOWN_MAX);
    if hidden > 0 {
        text.push_str(&format!(" and {hidden} more (-o json has all)"));
    }
    Some(text)
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
            attempt
                .progress
                .as_ref()
                .map_or_else(String::new, |note| format!("told {}", note.get())),
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
    let row = format!("{id:<36}  {state:<10}  {start:<24}  {attempt:<7}  {target}");
    writeln!(out, "{}", printable(&row))
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
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| row.each_ref().map(|cell| printable(cell)))
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &rows {
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

/// Writes characters that move the cursor, end the line, or turn the order of the text as escapes: a text of others stays in its
/// line and its place.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            c if c.is_control() || is_formatting(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Tells whether a character ends a line or turns the order of a text, without being a control character.
const fn is_formatting(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_stays_in_its_line() {
        let forged = "a\nb\r\u{1b}[2J\u{9b}\u{202e}\u{2028}\u{2066}\u{85}\u{7f}";
        assert_eq!(
            printable(forged),
            "a\\nb\\r\\u{1b}[2J\\u{9b}\\u{202e}\\u{2028}\\u{2066}\\u{85}\\u{7f}"
        );
        let plain = "é\t\u{1f469}\u{200d}\u{1f4bb} \\n שלום";
        assert_eq!(printable(plain), plain);
    }
}
