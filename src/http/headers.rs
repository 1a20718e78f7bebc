//! The header readers interpret headers for handlers: entity tags, preconditions, trace context.
//!
//! Headers that are not supported and must not be ignored are refused.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use xxhash_rust::xxh3::xxh3_64;

use super::error::{Code, Error};
use crate::{
    flow::base::api::TaskView,
    model::{callback::Policy, schedule::life::ScheduleSpec},
    schema::{policy_bytes, schedule_bytes},
};

/// Header of the W3C trace context.
pub(super) const TRACE_PARENT: &str = "traceparent";

/// Header by which a client marks a request, so that it is done once. Where it is not offered it is refused: a client that
/// sends it relies on it.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Decides whether a task is still as the requester believes.
pub(super) type Condition = Box<dyn Fn(&TaskView) -> bool + Send + Sync>;

/// Returns the tag for a conditional change of a task: it differs after each reschedule, attempt and change
/// of state.
pub(super) fn etag(task: &TaskView) -> String {
    format!("\"{}\"", version(task))
}

/// Returns the tag of an answer. Answers with different text have different tags, be it by the view, a note
/// of progress or a requested cancel. The tag begins with that of [`etag`], so that `If-Match` takes it, too.
pub(super) fn etag_of_answer(task: &TaskView, body: &[u8]) -> String {
    format!("\"{}.{:016x}\"", version(task), xxh3_64(body))
}

fn version(task: &TaskView) -> String {
    let (generation, attempt) = (task.generation, task.attempt);
    format!("{generation}-{attempt}-{}", task.state.name())
}

/// Returns the tag for changes that is contained in the tag of an answer; a tag for changes is returned as it
/// is.
fn without_answer(tag: &str) -> String {
    let (version, _) = tag.split_once('.').unwrap_or((tag, ""));
    let end = if version.ends_with('"') { "" } else { "\"" };
    format!("{version}{end}")
}

/// Reads `If-Match`. Returns none when it is absent or accepts anything.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<Condition>, Error> {
    let Some(tags) = tags(headers, &header::IF_MATCH)? else {
        return Ok(None);
    };
    if tags.iter().any(|tag| tag == "*") {
        return Ok(None);
    }
    let tags: Vec<String> = tags.iter().map(|tag| without_answer(tag)).collect();
    Ok(Some(Box::new(move |task| tags.contains(&etag(task)))))
}

/// Returns the tag of the configuration of a callback. Equal configurations have equal tags.
pub(super) fn etag_of_policy(policy: &Policy) -> String {
    format!("\"{:016x}\"", xxh3_64(&policy_bytes(policy)))
}

/// Returns the tag of what is set for a schedule. Equal settings have equal tags.
pub(super) fn etag_of_schedule(spec: &ScheduleSpec) -> String {
    format!("\"{:016x}\"", xxh3_64(&schedule_bytes(spec)))
}

/// The conditions under which a resource may be replaced or removed.
#[derive(Debug, Default)]
pub(super) struct Preconditions {
    if_match: Option<Vec<String>>,
    if_none_match: Vec<String>,
}

impl Preconditions {
    /// Tells whether they hold for a resource with this tag, or for one that does not exist.
    pub(super) fn hold(&self, etag: Option<&str>) -> bool {
        let is = |tag: &String| etag.is_some_and(|etag| tag == "*" || tag == etag);
        // RFC 9110 compares weakly here.
        let weak = |tag: &String| is(&tag.strip_prefix("W/").unwrap_or(tag).to_owned());
        let matches = self
            .if_match
            .as_ref()
            .is_none_or(|tags| tags.iter().any(is));
        matches && !self.if_none_match.iter().any(weak)
    }
}

/// Reads `If-Match` and `If-None-Match` of a request that changes something.
pub(super) fn preconditions(headers: &HeaderMap) -> Result<Preconditions, Error> {
    Ok(Preconditions {
        if_match: tags(headers, &header::IF_MATCH)?,
        if_none_match: tags(headers, &header::IF_NONE_MATCH)?.unwrap_or_default(),
    })
}

/// Tells whether the requester has a task of this tag already. Weak tags count, as RFC 9110 says.
pub(super) fn if_none_match<'a>(
    values: impl IntoIterator<Item = &'a HeaderValue>,
    etag: &str,
) -> Result<bool, Error> {
    let tags = tags_of(values, &header::IF_NONE_MATCH)?;
    Ok(tags
        .iter()
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag))
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>, Error> {
    if !headers.contains_key(name) {
        return Ok(None);
    }
    tags_of(headers.get_all(name), name).map(Some)
}

fn tags_of<'a>(
    values: impl IntoIterator<Item = &'a HeaderValue>,
    name: &HeaderName,
) -> Result<Vec<String>, Error> {
    let mut tags = Vec::new();
    for value in values {
        let text = value.to_str().map_err(|_| {
            Error::new(Code::InvalidRequest, format!("header `{name}` is not text"))
        })?;
        tags.extend(text.split(',').map(|tag| tag.trim().to_owned()));
    }
    Ok(tags)
}

/// Reads an `Idempotency-Key`: a structured string in quotes, as its draft says, or the bare text.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let wrong = |detail: String| Error::field(Code::InvalidRequest, "Idempotency-Key", detail);
    if values.next().is_some() {
        return Err(wrong("is given twice: give it once".to_owned()));
    }
    let text = value
        .to_str()
        .map_err(|_| wrong("is not text".to_owned()))?;
    let text = text.trim();
    let quoted = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    // In quotes, a backslash stands before a quote and before itself.
    let key = match quoted {
        Some(inner) => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => text.to_owned(),
    };
    super::convert::asked::checked(key).map(Some).map_err(wrong)
}

/// Refuses an `Idempotency-Key`.
pub(super) fn refuse_idempotency_key(headers: &HeaderMap) -> Result<(), Error> {
    refuse(headers, IDEMPOTENCY_KEY)
}

/// Refuses an `If-Match` where the call does not support it.
pub(super) fn refuse_if_match(headers: &HeaderMap) -> Result<(), Error> {
    refuse(headers, header::IF_MATCH.as_str())
}

fn refuse(headers: &HeaderMap, name: &str) -> Result<(), Error> {
    if headers.contains_key(name) {
        let detail = format!("header `{name}` is not offered for this call; leave it out");
        return Err(Error::new(Code::Unsupported, detail));
    }
    Ok(())
}

/// Returns the trace context of a request when it is well formed; a bad one is ignored, as the standard asks.
pub(super) fn trace_parent(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(TRACE_PARENT)?.to_str().ok()?;
    trace_id(text).map(|_| text)
}

/// Returns the trace id of a trace context: `00-<32 hex>-<16 hex>-<2 hex>`, neither id all zeros.
pub(super) fn trace_id(trace_parent: &str) -> Option<&str> {
    let mut parts = trace_parent.split('-');
    let mut part = |length: usize| {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let part = parts.next()?;
        (part.len() == length && part.bytes().all(hex)).then_some(part)
    };
    let (version, trace, span, _flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    let zero = |id: &str| id.bytes().all(|b| b == b'0');
    let fits = version == "00" && parts.next().is_none() && !zero(trace) && !zero(span);
    fits.then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_context_must_be_well_formed() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(trace_id(good), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        for bad in [
            "",
            "00-0-0-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn preconditions_hold_for_the_tag_or_for_nothing() {
        let read = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            preconditions(&headers).unwrap()
        };
        let (none, one) = (None, Some("\"1\""));
        for (name, value, absent, present) in [
            ("if-match", "\"1\"", false, true),
            ("if-match", "\"2\", \"1\"", false, true),
            ("if-match", "\"2\"", false, false),
            ("if-match", "*", false, true),
            ("if-none-match", "*", true, false),
            ("if-none-match", "W/\"1\"", true, false),
            ("if-none-match", "\"2\"", true, true),
        ] {
            let condition = read(name, value);
            assert_eq!(
                (condition.hold(none), condition.hold(one)),
                (absent, present),
                "{name}: {value}"
            );
        }
        let free = Preconditions::default();
        assert!(free.hold(none) && free.hold(one));
    }

    #[test]
    fn the_tag_of_an_answer_names_the_task_as_its_own_does() {
        assert_eq!(without_answer("\"1-2-claimed.0123\""), "\"1-2-claimed\"");
        assert_eq!(without_answer("\"1-2-claimed\""), "\"1-2-claimed\"");
        assert_eq!(without_answer("W/\"1-2-claimed.0\""), "W/\"1-2-claimed\"");
    }

    #[test]
    fn tags_are_compared_one_by_one() {
        let mut headers = HeaderMap::new();
        assert!(if_match(&headers).unwrap().is_none());
        let known = |headers: &HeaderMap, etag| {
            if_none_match(headers.get_all(header::IF_NONE_MATCH), etag).unwrap()
        };
        assert!(!known(&headers, "\"1-2-claimed\""));
        headers.insert(
            header::IF_NONE_MATCH,
            "\"0-0-scheduled\", W/\"1-2-claimed\"".parse().unwrap(),
        );
        assert!(known(&headers, "\"1-2-claimed\""));
        assert!(!known(&headers, "\"1-2-dead\""));
        headers.insert(header::IF_MATCH, "*".parse().unwrap());
        assert!(if_match(&headers).unwrap().is_none());
        headers.insert(header::IF_MATCH, "\"1\"".parse().unwrap());
        assert!(if_match(&headers).unwrap().is_some());
    }
}
