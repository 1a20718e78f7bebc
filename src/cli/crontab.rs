//! The crontab reader turns the lines of a crontab file into schedules for `tickwheel schedule import`.
//!
//! It knows comments, `CRON_TZ=` and other variables, names such as `@daily`, and the user of a system crontab. A line that
//! cannot be used is told by its number.

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
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The times.
    pub(super) cron: String,
    /// The zone of the lines above.
    pub(super) zone: Option<String>,
    /// The user of a system crontab.
    pub(super) user: Option<String>,
    /// The command.
    pub(super) command: String,
}

impl Entry {
    /// Returns the schedule.
    pub(super) fn request(
        &self,
        callback: &str,
        zone: Option<String>,
    ) -> Result<ScheduleRequest, Failure> {
        let payload = match &self.user {
            Some(user) => serde_json::json!({"command": self.command, "user": user}),
            None => serde_json::json!({"command": self.command}),
        };
        let payload = serde_json::value::to_raw_value(&payload);
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
    let mut zone = None;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(line) {
            match name {
                "CRON_TZ" | "TZ" => zone = Some(value.to_owned()),
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
            Ok((cron, user, command)) => Line::Entry {
                number,
                entry: Entry {
                    cron,
                    zone: zone.clone(),
                    user,
                    command,
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

type Parts = (String, Option<String>, String);

fn entry(line: &str, system: bool) -> Result<Parts, String> {
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
    if command.is_empty() {
        return Err("has no command".to_owned());
    }
    // A percent sign is a line end in a crontab, unless it is escaped.
    Ok((cron, user, command.replace("\\%", "%")))
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
                user: None,
                command: command.to_owned(),
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
