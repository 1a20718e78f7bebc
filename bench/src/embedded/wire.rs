//! The wire format builds the requests of the harness as text, and scans answers for the few values that it
//! needs.

use std::ops::Range;

use anyhow::{Context as _, ensure};
use memchr::memmem;
use uuid::Uuid;

use crate::payload;

use tickwheel::model::time::{Millis, rfc3339};

/// The callback of every task, also of pending ones, so that one that came out early would be seen.
pub(crate) const CALLBACK: &str = "bench";

/// An attempt that was handed out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) id: u128,
    pub(crate) number: u32,
}

/// The fields that distinguish the tasks of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) callback: &'static str,
    /// How long an attempt lives without a sign of life.
    pub(crate) heartbeat_timeout: &'static str,
    pub(crate) priority: &'static str,
}

impl Form {
    pub(crate) const USUAL: Self = Self {
        callback: CALLBACK,
        // Longer than any measurement, because a worker that is slow under load has not died.
        heartbeat_timeout: "10m",
        priority: "normal",
    };
}

/// Writes the tasks of a load, each by its number and its start.
pub(crate) trait Items: Clone + Send + 'static {
    fn push(&self, body: &mut String, index: u64, start: Millis);
}

impl Items for Form {
    fn push(&self, body: &mut String, _: u64, start: Millis) {
        push_task(body, *self, "", start);
    }
}

impl<F: Fn(&mut String, u64, Millis) + Clone + Send + 'static> Items for F {
    fn push(&self, body: &mut String, index: u64, start: Millis) {
        self(body, index, start);
    }
}

/// Appends a task. Further fields end with a comma.
pub(crate) fn push_task(body: &mut String, form: Form, fields: &str, start: Millis) {
    let Form {
        callback,
        heartbeat_timeout: timeout,
        priority,
    } = form;
    let start = rfc3339(start);
    body.push_str(&format!(
        r#"{{"callback":"{callback}",{fields}"start_time":"{start}","heartbeat_timeout":"{timeout}","priority":"{priority}","payload":{}}}"#,
        payload::next()
    ));
}

/// Returns the body of one registration.
pub(crate) fn task(start: Millis) -> String {
    let mut body = String::with_capacity(512);
    push_task(&mut body, Form::USUAL, "", start);
    body
}

/// Returns the body of a registration of many tasks.
pub(crate) fn batch_of(
    items: &impl Items,
    indexes: Range<u64>,
    due: impl Fn(u64) -> Millis,
) -> String {
    let mut body = String::with_capacity(64 * 1024);
    body.push_str(r#"{"tasks":["#);
    let first = indexes.start;
    for index in indexes {
        if index > first {
            body.push(',');
        }
        items.push(&mut body, index, due(index));
    }
    body.push_str("]}");
    body
}

/// Returns the body of a poll.
pub(crate) fn poll(worker: usize, tasks_max: usize, wait: &str) -> String {
    poll_for(CALLBACK, worker, tasks_max, wait)
}

/// Returns the body of a poll for the tasks of a callback.
pub(super) fn poll_for(callback: &str, worker: usize, tasks_max: usize, wait: &str) -> String {
    format!(
        r#"{{"worker":"bench-{worker}","callbacks":["{callback}"],"max_tasks":{tasks_max},"wait":"{wait}"}}"#
    )
}

/// Writes the body of a settle; all succeeded.
pub(crate) fn settle(body: &mut String, worker: usize, attempts: &[Attempt]) {
    body.clear();
    body.push_str(&format!(r#"{{"worker":"bench-{worker}","tasks":["#));
    for (index, attempt) in attempts.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let (id, number) = (Uuid::from_u128(attempt.id), attempt.number);
        body.push_str(&format!(
            r#"{comma}{{"id":"{id}","attempt":{number},"outcome":"succeeded"}}"#
        ));
    }
    body.push_str("]}");
}

/// Returns the ids of an answer to registrations.
pub(crate) fn ids(answer: &[u8]) -> impl Iterator<Item = anyhow::Result<u128>> + '_ {
    const NAME: &[u8] = br#""id":""#;
    memmem::find_iter(answer, NAME).map(|at| id_at(answer, at + NAME.len()))
}

/// Returns the attempts of an answer to a poll.
pub(crate) fn attempts(answer: &[u8]) -> impl Iterator<Item = anyhow::Result<Attempt>> + '_ {
    const NAME: &[u8] = br#"{"id":""#;
    const NUMBER: &[u8] = br#"","attempt":"#;
    memmem::find_iter(answer, NAME).map(|at| {
        let at = at + NAME.len();
        let rest = answer.get(at + 36..).unwrap_or_default();
        let digits = rest.strip_prefix(NUMBER).context("an attempt")?;
        let digits = digits.split(|byte| *byte == b',').next();
        Ok(Attempt {
            id: id_at(answer, at)?,
            number: std::str::from_utf8(digits.unwrap_or_default())?.parse()?,
        })
    })
}

/// Returns how many reports of a settle were accepted.
pub(crate) fn settled(answer: &[u8]) -> usize {
    memmem::find_iter(answer, br#""status":"ok""#).count()
}

/// Makes sure that every report of a settle was accepted.
pub(crate) fn all_settled(answer: &[u8], wanted: usize) -> anyhow::Result<()> {
    let ok = settled(answer);
    ensure!(
        ok == wanted,
        "{ok} of {wanted} were settled: {}",
        beginning(answer)
    );
    Ok(())
}

/// Returns the state of a task in an answer to a read.
pub(crate) fn state(answer: &[u8]) -> &str {
    text(answer, br#""state":""#)
}

/// Returns the outcome in the answer to a cancel.
pub(crate) fn outcome(answer: &[u8]) -> &str {
    text(answer, br#""outcome":""#)
}

/// Writes the body of a cancel of many.
pub(crate) fn cancels(ids: &[u128]) -> String {
    let mut body = String::with_capacity(16 + 39 * ids.len());
    body.push_str(r#"{"ids":["#);
    for (index, id) in ids.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        body.push_str(&format!(r#"{comma}"{}""#, Uuid::from_u128(*id)));
    }
    body.push_str("]}");
    body
}

/// Returns the outcomes in the answer to a cancel of many tasks; cancels that failed are left out.
pub(crate) fn outcomes(answer: &[u8]) -> impl Iterator<Item = &str> + '_ {
    const NAME: &[u8] = br#""outcome":""#;
    memmem::find_iter(answer, NAME).map(|at| text_at(answer, at + NAME.len()))
}

/// Returns the beginning of an answer, for messages.
pub(crate) fn beginning(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer.get(..500.min(answer.len())).unwrap_or_default()).into_owned()
}

/// Returns the first text behind a name.
fn text<'a>(answer: &'a [u8], name: &[u8]) -> &'a str {
    let at = memmem::find(answer, name).map_or(answer.len(), |at| at + name.len());
    text_at(answer, at)
}

fn text_at(answer: &[u8], at: usize) -> &str {
    let rest = answer.get(at..).unwrap_or_default();
    let text = rest.split(|byte| *byte == b'"').next().unwrap_or_default();
    std::str::from_utf8(text).unwrap_or_default()
}

fn id_at(answer: &[u8], at: usize) -> anyhow::Result<u128> {
    let text = answer.get(at..at + 36).context("a cut id")?;
    Ok(Uuid::try_parse_ascii(text)?.as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_found_in_an_answer() {
        let id = "01a1fbd2-44d1-8001-8ff2-bbbde5d2f1bc";
        let answer = format!(r#"{{"tasks":[{{"id":"{id}","attempt":12,"generation":0}}]}}"#);
        let found: Vec<Attempt> = attempts(answer.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].id, id.parse::<Uuid>().unwrap().as_u128());
        assert_eq!(found[0].number, 12);
        assert_eq!(ids(answer.as_bytes()).count(), 1);
    }

    #[test]
    fn a_report_that_was_not_taken_is_a_fault() {
        let answer = br#"{"results":[{"status":"ok"},{"status":"lost"}]}"#;
        assert!(all_settled(answer, 2).is_err());
        assert!(all_settled(answer, 1).is_ok());
    }

    #[test]
    fn a_state_is_found_in_an_answer() {
        assert_eq!(state(br#"{"id":"x","state":"succeeded"}"#), "succeeded");
        assert_eq!(state(b"{}"), "");
    }

    #[test]
    fn outcomes_are_found_in_their_order() {
        let answer = br#"{"results":[{"outcome":"cancelled","task":{}},{"error":{}},{"outcome":"too_late"}]}"#;
        let found: Vec<&str> = outcomes(answer).collect();
        assert_eq!(found, ["cancelled", "too_late"]);
        let ids = [1_u128, 2].map(|id| Uuid::from_u128(id).to_string());
        assert_eq!(
            cancels(&[1, 2]),
            format!(r#"{{"ids":["{}","{}"]}}"#, ids[0], ids[1])
        );
    }
}
