//! The crontab reader turns the lines of a crontab file into schedules for `tickwheel schedule import`.
//!
//! It knows comments, `CRON_TZ=` and other variables, names such as `@daily`, the user of a system crontab, and the input behind
//! a percent sign. A line that cannot be used is told by its number.

use serde::Serialize;

use super::Failure;
use crate::{
    api::target::CallbackTarget,
    client::{ScheduleRequest, TaskRequest},
};

/// A line that is not empty and no comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It starts a command.
    Entry {
        /// Its number, from 1 on.
        number: usize,
        /// The entry.
        entry: Entry,
    },
    /// It cannot be used.
    Wrong {
        /// Its number.
        number: usize,
        /// The reason.
        why: String,
    },
}

/// An entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The times.
    pub(super) cron: String,
    /// The zone of the times: `CRON_TZ=` in a line above.
    pub(super) zone: Option<String>,
    /// The zone in which the command runs: `TZ=` in a line above.
    pub(super) command_zone: Option<String>,
    /// The user of a system crontab.
    pub(super) user: Option<String>,
    /// The command.
    pub(super) command: String,
    /// The standard input of the command.
    pub(super) input: Option<String>,
}

/// The payload for a worker.
#[derive(Serialize)]
struct Payload<'a> {
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Environment<'a>>,
}

#[derive(Serialize)]
struct Environment<'a> {
    #[serde(rename = "TZ")]
    zone: &'a str,
}

impl Entry {
    /// Returns the schedule.
    pub(super) fn request(
        &self,
        callback: &str,
        zone: Option<String>,
    ) -> Result<ScheduleRequest, Failure> {
        let payload = serde_json::value::to_raw_value(&Payload {
            command: &self.command,
            user: self.user.as_deref(),
            input: self.input.as_deref(),
            environment: self
                .command_zone
                .as_deref()
                .map(|zone| Environment { zone }),
        });
        let payload = payload.map_err(|error| Failure::failed(error.to_string()))?;
        let task = TaskRequest {
            callback: Some(CallbackTarget::Name(callback.to_owned())),
            payload: Some(payload),
            ..TaskRequest::default()
        };
        let note = format!("from a crontab: {}", self.command);
        Ok(ScheduleRequest {
            time_zone: zone,
            note: Some(note.chars().take(256).collect()),
            ..ScheduleRequest::cron(self.cron.clone()).runs(task)
        })
    }
}

/// Reads the lines of a file.
pub(super) fn lines(text: &str, system: bool) -> Vec<Line> {
    let (mut zone, mut command_zone) = (None, None);
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(line) {
            match name {
                "CRON_TZ" => zone = Some(value.to_owned()),
                "TZ" => command_zone = Some(value.to_owned()),
                // They are of the machine that the command ran on.
                "SHELL" | "PATH" | "MAILTO" | "HOME" | "LOGNAME" => {}
                other => lines.push(Line::Wrong {
                    number,
                    why: format!(
                        "the variable {other} has no meaning here: set it where the worker runs"
                    ),
                }),
            }
            continue;
        }
        lines.push(match entry(line, system) {
            Ok(entry) => Line::Entry {
                number,
                entry: Entry {
                    zone: zone.clone(),
                    command_zone: command_zone.clone(),
                    ..entry
                },
            },
            Err(why) => Line::Wrong { number, why },
        });
    }
    lines
}

fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| (name, value.trim().trim_matches(['"', '\''])))
}

fn entry(line: &str, system: bool) -> Result<Entry, String> {
    let times = if line.starts_with('@') { 1 } else { 5 };
    let (cron, rest) = words(line, times).ok_or("has too few fields for a time and a command")?;
    if cron == "@reboot" {
        return Err("@reboot is not a time: start it with the machine".to_owned());
    }
    let (user, command) = if system {
        let (user, command) = words(rest, 1).ok_or("has no command behind the user")?;
        (Some(user), command)
    } else {
        (None, rest)
    };
    let (command, input) = with_input(command);
    if command.trim().is_empty() {
        return Err("has no command".to_owned());
    }
    Ok(Entry {
        cron,
        user,
        command,
        input,
        ..Entry::default()
    })
}

/// Divides a command at its first percent sign, behind which its input stands: further ones end lines of it. One with a backslash
/// before it stands for itself.
fn with_input(text: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'%') => {
                chars.next();
                push(&mut parts, '%');
            }
            '%' => parts.push(String::new()),
            c => push(&mut parts, c),
        }
    }
    let command = parts.remove(0);
    // As cron does it: the last line ends like the others, and no input is none.
    let mut input = parts.join("\n");
    if !input.is_empty() && !input.ends_with('\n') {
        input.push('\n');
    }
    let input = Some(input).filter(|text| !text.is_empty());
    (command, input)
}

fn push(parts: &mut [String], c: char) {
    if let Some(last) = parts.last_mut() {
        last.push(c);
    }
}

/// Takes the first words of a line; returns them and the rest.
fn words(line: &str, count: usize) -> Option<(String, &str)> {
    let (mut taken, mut rest) = (Vec::with_capacity(count), line);
    for _ in 0..count {
        let (word, behind) = rest.split_once(char::is_whitespace)?;
        taken.push(word);
        rest = behind.trim_start();
    }
    Some((taken.join(" "), rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_a_crontab_are_entries_or_told_by_their_numbers() {
        let text = "# m h dom mon dow command\nSHELL=/bin/sh\n\n0 5 * * 1 tar -zcf /backups/home.tgz /home/\n\
                    CRON_TZ=Europe/Berlin\n@daily  run \"a b\"\n@reboot x\n* * *\nDEBUG=1\n5 4 * * sun date +\\%F\n";
        let entry = |number, cron: &str, zone: Option<&str>, command: &str| Line::Entry {
            number,
            entry: Entry {
                cron: cron.to_owned(),
                zone: zone.map(str::to_owned),
                command: command.to_owned(),
                ..Entry::default()
            },
        };
        let read = lines(text, false);
        assert_eq!(read.len(), 6, "{read:?}");
        assert_eq!(
            read[0],
            entry(4, "0 5 * * 1", None, "tar -zcf /backups/home.tgz /home/")
        );
        let zone = Some("Europe/Berlin");
        assert_eq!(read[1], entry(6, "@daily", zone, "run \"a b\""));
        for (line, number) in [(&read[2], 7), (&read[3], 8), (&read[4], 9)] {
            assert!(
                matches!(line, Line::Wrong { number: at, .. } if *at == number),
                "{line:?}"
            );
        }
        assert_eq!(read[5], entry(10, "5 4 * * sun", zone, "date +%F"));
    }

    fn only(text: &str) -> (Entry, serde_json::Value) {
        let mut read = lines(text, false);
        let Some(Line::Entry { entry, .. }) = read.pop() else {
            panic!("{read:?}")
        };
        let request = entry.request("shell", None).unwrap();
        let payload = request.task.unwrap().payload.unwrap();
        let payload = serde_json::from_str(payload.get()).unwrap();
        (entry, payload)
    }

    #[test]
    fn a_percent_sign_begins_the_input_and_ends_its_lines() {
        let (_, payload) = only("30 2 1 * * cat%hello");
        assert_eq!(payload, json!({"command": "cat", "input": "hello\n"}));
        let (_, payload) = only("@daily date +\\%F | mail -s x%Dear all,%%100\\% done%");
        let input = "Dear all,\n\n100% done\n";
        assert_eq!(
            payload,
            json!({"command": "date +%F | mail -s x", "input": input})
        );
        let (_, payload) = only("@daily cat%");
        assert_eq!(payload, json!({"command": "cat"}));
        let read = lines("@daily %input", false);
        assert!(matches!(&*read, [Line::Wrong { .. }]), "{read:?}");
    }

    #[test]
    fn one_variable_is_the_zone_of_the_times_and_another_that_of_the_commands() {
        let (entry, payload) = only("TZ=America/New_York\n30 2 1 * * cat");
        assert_eq!(entry.zone, None);
        let environment = json!({"TZ": "America/New_York"});
        assert_eq!(
            payload,
            json!({"command": "cat", "environment": environment})
        );
        let (entry, payload) = only("CRON_TZ=Europe/Berlin\nTZ=UTC\n@daily x");
        assert_eq!(entry.zone.as_deref(), Some("Europe/Berlin"));
        assert_eq!(payload["environment"]["TZ"], "UTC");
    }

    #[test]
    fn a_system_crontab_has_a_user() {
        let read = lines("17 * * * * root cd / && run-parts /etc/cron.hourly\n", true);
        let [Line::Entry { number: 1, entry }] = read.as_slice() else {
            panic!("{read:?}")
        };
        assert_eq!(entry.user.as_deref(), Some("root"));
        assert_eq!(entry.command, "cd / && run-parts /etc/cron.hourly");
        let request = entry.request("shell", None).unwrap();
        let payload = request.task.unwrap().payload.unwrap();
        assert!(payload.get().contains("run-parts"), "{payload}");
    }
}
