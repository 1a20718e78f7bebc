//! The view of a schedule shows the user in some lines what was set, and where the schedule stands.

use std::io::{self, Write};

use super::output::printable;
use crate::client::{Missed, Overlap, ScheduleResponse};

/// Prints a schedule.
pub(super) fn show(out: &mut impl Write, schedule: &ScheduleResponse) -> io::Result<()> {
    writeln!(out, "{}: {}", schedule.name, schedule.state.name())?;
    writeln!(out, "{}", printable(&schedule.description))?;
    if let Some(pause) = &schedule.pause {
        let reason = pause.reason.as_deref().unwrap_or("no reason was given");
        let who = pause.who.as_deref().unwrap_or("somebody");
        let told = format!("paused by {who} since {}: {reason}", pause.since.0);
        writeln!(out, "{}", printable(&told))?;
    }
    for time in &schedule.next_run_times {
        writeln!(out, "  {time}")?;
    }
    for (name, value) in settings(schedule) {
        if let Some(value) = value {
            writeln!(out, "{name:<18}{}", printable(&value))?;
        }
    }
    let (runs, missed, skipped) = (schedule.runs, schedule.runs_missed, schedule.runs_skipped);
    writeln!(out, "{runs} runs, {missed} missed, {skipped} skipped")
}

/// Returns the settings that the description does not have, as far as they are set.
fn settings(schedule: &ScheduleResponse) -> [(&'static str, Option<String>); 11] {
    let set = &schedule.schedule;
    let labels = set.labels.iter().flatten();
    let labels: Vec<String> = labels
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let task = set.task.as_ref();
    let task = task.and_then(|task| serde_json::to_string(task).ok());
    [
        ("overlap", set.overlap.map(overlap)),
        ("missed", set.missed.map(missed)),
        (
            "catch_up_window",
            set.catch_up_window.as_ref().map(|text| text.0.clone()),
        ),
        ("jitter", set.jitter.as_ref().map(|text| text.0.clone())),
        ("start_time", set.start_time.as_ref().map(|at| at.0.clone())),
        ("end_time", set.end_time.as_ref().map(|at| at.0.clone())),
        ("limit", set.limit.map(|runs| runs.to_string())),
        (
            "pause_on_failure",
            set.pause_on_failure.then(|| "true".to_owned()),
        ),
        ("note", set.note.clone()),
        ("labels", (!labels.is_empty()).then(|| labels.join(" "))),
        ("task", task),
    ]
}

fn overlap(policy: Overlap) -> String {
    let means = match policy {
        Overlap::Skip => "skip (a run does not start while another goes on)",
        Overlap::Allow => "allow (runs may go on beside each other)",
        Overlap::BufferOne => "buffer_one (one run waits for the one that goes on)",
        Overlap::CancelOther => "cancel_other (a new run cancels the one that goes on)",
    };
    means.to_owned()
}

fn missed(policy: Missed) -> String {
    let means = match policy {
        Missed::Latest => "latest (of times that passed, one run starts for the last)",
        Missed::All => "all (a run starts for each time that passed)",
        Missed::Skip => "skip (times that passed start no run)",
    };
    means.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schedule_is_shown_with_its_policies_in_lines_of_its_own() {
        let at = "2030-01-01T00:00:00Z";
        let schedule = json!({
            "name": "nightly", "cron": "30 2 * * *", "overlap": "buffer_one", "missed": "all", "catch_up_window": "1d",
            "limit": 7, "note": "a\nforged line", "labels": {"team": "mail"}, "task": {"callback": "report"},
            "state": "paused", "pause": {"since": at, "who": "ann\u{202e}"}, "description": "At 02:30",
            "next_run_times": [], "time_zone_version": "2026a", "generation": 0, "create_time": at, "update_time": at,
            "runs": 3, "runs_missed": 1, "runs_skipped": 2,
        });
        let schedule: ScheduleResponse = serde_json::from_value(schedule).unwrap();
        let mut out = Vec::new();
        show(&mut out, &schedule).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2],
            format!("paused by ann\\u{{202e}} since {at}: no reason was given")
        );
        assert!(
            lines[3].starts_with("overlap           buffer_one ("),
            "{text}"
        );
        assert!(lines[4].starts_with("missed            all ("), "{text}");
        let rest = [
            "catch_up_window   1d",
            "limit             7",
            "note              a\\nforged line",
            "labels            team=mail",
            "task              {\"callback\":\"report\"}",
            "3 runs, 1 missed, 2 skipped",
        ];
        assert_eq!(lines[5..], rest);
    }
}
