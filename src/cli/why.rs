//! The printer of causes shows the user why something does not run.

use std::io::{self, Write};

use super::{
    Exit, Failure, Format,
    output::{json, printable},
};
use crate::client::{Cause, ScheduleWhyResponse, WhyResponse};

/// Prints why a task does not run.
pub(super) fn print(why: &WhyResponse, format: Format) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    match format {
        Format::Table => write(&mut out, &why.sentence, &why.causes)?,
        format => json(&mut out, format, why)?,
    }
    Ok(Exit::Ok)
}

/// Prints why a schedule has no run at a time.
pub(super) fn print_time(why: &ScheduleWhyResponse, format: Format) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    match format {
        Format::Table => write_time(&mut out, why)?,
        format => json(&mut out, format, why)?,
    }
    Ok(Exit::Ok)
}

fn write_time(out: &mut impl Write, why: &ScheduleWhyResponse) -> io::Result<()> {
    writeln!(out, "{}", printable(&why.sentence))?;
    for advice in why.causes.iter().filter_map(|cause| cause.advice.as_ref()) {
        writeln!(out, "{}", printable(advice))?;
    }
    let times = [("before", &why.previous_time), ("behind", &why.next_time)];
    for (name, time) in times {
        if let Some(time) = time {
            writeln!(out, "{name}: {}", time.0)?;
        }
    }
    out.flush()
}

/// Writes the sentence, then what is known of each cause.
pub(super) fn write(out: &mut impl Write, sentence: &str, causes: &[Cause]) -> io::Result<()> {
    writeln!(out, "{}", printable(sentence))?;
    for cause in causes {
        writeln!(out, "\n{}", printable(&head(cause)))?;
        if !sentence.ends_with(&cause.detail) {
            writeln!(out, "  {}", printable(&cause.detail))?;
        }
        for task in cause.tasks.iter().skip(1) {
            let id = task.id.as_deref().unwrap_or("another task");
            let callback = task.callback.as_deref().unwrap_or_default();
            let state = task.state.map_or("", |state| state.name());
            let line = format!("{id}  {callback}  {state}");
            writeln!(out, "  {}", printable(line.trim_end()))?;
        }
        if let Some(advice) = &cause.advice {
            writeln!(out, "  {}", printable(advice))?;
        }
    }
    out.flush()
}

fn head(cause: &Cause) -> String {
    let mut head = cause.code.name().to_owned();
    if let Some(since) = &cause.since {
        head.push_str(&format!("  since {}", since.0));
    }
    if let Some(until) = &cause.until {
        head.push_str(&format!("  until {}", until.0));
    }
    if !cause.certain {
        head.push_str("  not certain");
        if let Some(node) = &cause.node {
            head.push_str(&format!(": ask {} ({})", node.name, node.address));
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_is_printed_with_its_neighbours() {
        let why: ScheduleWhyResponse = serde_json::from_value(json!({
            "name": "n", "scheduled_time": "t", "time": "t", "sentence": "Paused.",
            "causes": [{"code": "paused", "detail": "Paused.", "certain": true, "advice": "Resume it."}],
            "previous_time": "a", "next_time": "b",
        }))
        .unwrap();
        let mut out = Vec::new();
        write_time(&mut out, &why).unwrap();
        let expected = "Paused.\nResume it.\nbefore: a\nbehind: b\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn causes_are_printed_below_the_sentence() {
        let causes: Vec<Cause> = serde_json::from_value(json!([
            {"code": "gate", "detail": "Held.", "advice": "Open the gate.", "certain": true,
                "since": "2030-01-01T00:00:00Z", "until": "2030-01-02T00:00:00Z"},
            {"code": "limit", "detail": "The `rate` of `mail`, 5 a second, is used up.",
                "certain": false, "node": {"name": "n1", "address": "http://n1:7420"}},
            {"code": "tasks", "detail": "Waits for 3 tasks.", "certain": true,
                "tasks": [{"id": "a"}, {"id": "b", "callback": "x", "state": "dead"}, {}]},
        ]))
        .unwrap();
        let mut out = Vec::new();
        write(&mut out, "Due since then. Held.", &causes).unwrap();
        let expected = "Due since then. Held.

gate  since 2030-01-01T00:00:00Z  until 2030-01-02T00:00:00Z
  Open the gate.

limit  not certain: ask n1 (http://n1:7420)
  The `rate` of `mail`, 5 a second, is used up.

tasks
  Waits for 3 tasks.
  b  x  dead
  another task
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
