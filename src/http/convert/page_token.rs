//! Page tokens tell the service which list a request continues, and where.
//!
//! A token is opaque to clients and checked when it comes back. It carries its filters: a request with other
//! filters is refused, and the refusal names the filter that differs. A token is not signed. A forged one
//! reads another part of the same wheels, within the same bounds.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    flow::{
        base::api::VisibleState,
        stages::query::{filed::Filed, filter::Filter, list::Cursor},
    },
    model::{
        entry::{Key, KeyCode},
        family::BUCKETS,
        ids::TaskId,
        time::Millis,
    },
};

/// Longest token that is read: longer than the token of the longest filter.
const TOKEN_CHARS_MAX: usize = 1024;

/// More days than there are between the years 1 and 9999.
const DAYS_MAX: i64 = 3_700_000;

/// The content of a token. A field is never reused for another meaning: a token may come back to a newer
/// node.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    callback: Option<String>,
    state: Option<String>,
    from: Option<i64>,
    to: Option<i64>,
    /// Due time, id, generation and code of the key that everything has been listed up to.
    behind: (i64, Uuid, u32, i32),
    through: i64,
    end: i64,
    /// The id of a task that has ended, once the walk has reached the ended tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Uuid>,
    /// The id of a task, where the walk is among those of a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labelled: Option<Uuid>,
    /// Day, state and id, where the walk is among the filed rows of tasks that have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filed: Option<(i64, u8, Uuid)>,
    /// Only tasks that have not ended are listed.
    #[serde(default, skip_serializing_if = "is_false")]
    pending: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collection: Option<String>,
    /// The hash of the labels, which may be long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<u64>,
    /// The hash of the class of error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<u64>,
    /// The service's own tasks are listed, too.
    #[serde(default, skip_serializing_if = "is_false")]
    internal: bool,
    /// Children are left out.
    #[serde(default, skip_serializing_if = "is_false")]
    roots: bool,
    /// The hash of the name of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A hash that stays the same in all versions. Each text ends with a byte that no text has.
fn hash<'a>(texts: impl Iterator<Item = &'a String>) -> Option<u64> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0xff);
    }
    (!bytes.is_empty()).then(|| xxh3_64(&bytes))
}

/// Returns the callbacks of a filter as its query has them.
fn callback(filter: &Filter) -> Option<String> {
    let several = filter.beginning.as_ref();
    let several = several.map(|beginning| format!("{beginning}*"));
    several.or_else(|| filter.callback.clone())
}

fn labels_hash(filter: &Filter) -> Option<u64> {
    hash(filter.labels.iter().flat_map(|(name, value)| [name, value]))
}

fn error_hash(filter: &Filter) -> Option<u64> {
    hash(filter.error.iter())
}

fn schedule_hash(filter: &Filter) -> Option<u64> {
    hash(filter.schedule.iter())
}

/// Writes a token.
#[must_use]
pub fn write(filter: &Filter, cursor: &Cursor) -> String {
    let Key {
        due,
        id,
        generation,
        code,
    } = cursor.behind;
    let token = Token {
        callback: callback(filter),
        state: filter.state.map(|state| state.name().to_owned()),
        from: filter.from.map(|at| at.0),
        to: filter.to.map(|at| at.0),
        behind: (due.0, id.uuid(), generation, code.0),
        through: cursor.through.0,
        end: cursor.to.0,
        ended: cursor.ended.map(TaskId::uuid),
        labelled: cursor.labelled.map(TaskId::uuid),
        filed: cursor.filed.map(|at| (at.day, at.state, at.behind.uuid())),
        pending: filter.pending,
        collection: filter.collection.clone(),
        labels: labels_hash(filter),
        error: error_hash(filter),
        internal: filter.internal,
        roots: filter.roots,
        schedule: schedule_hash(filter),
    };
    // Numbers, texts and a uuid can always be written.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// Reads a token that must belong to this filter.
///
/// # Errors
/// A text about the mistake.
pub fn read(text: &str, filter: &Filter) -> Result<Cursor, String> {
    let foreign = || "is not a token of this service: send `next_page_token` as it was".to_owned();
    if text.len() > TOKEN_CHARS_MAX {
        return Err(foreign());
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| foreign())?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|_| foreign())?;
    let state = filter.state.map(VisibleState::name);
    let differs = [
        ("callback", token.callback != callback(filter)),
        ("state", token.state.as_deref() != state),
        ("start_time_from", token.from != filter.from.map(|at| at.0)),
        ("start_time_to", token.to != filter.to.map(|at| at.0)),
        ("ended", token.pending != filter.pending),
        ("collection", token.collection != filter.collection),
        ("label.NAME", token.labels != labels_hash(filter)),
        ("error", token.error != error_hash(filter)),
        ("internal", token.internal != filter.internal),
        ("roots", token.roots != filter.roots),
        ("schedule", token.schedule != schedule_hash(filter)),
    ];
    if let Some((name, _)) = differs.into_iter().find(|(_, differs)| *differs) {
        return Err(format!(
            "belongs to a list with another `{name}`: send the filters of the first page with every page, or no token"
        ));
    }
    let times = [token.behind.0, token.through, token.end];
    let sound = |at: i64| (-Millis::MAX.0..=Millis::MAX.0 + 1).contains(&at);
    if !times.into_iter().all(sound) {
        return Err(foreign());
    }
    let days = -DAYS_MAX..=DAYS_MAX;
    if token.filed.is_some_and(|(day, ..)| !days.contains(&day)) {
        return Err(foreign());
    }
    let filed = token.filed.map(|(day, state, behind)| Filed {
        day,
        state,
        behind: TaskId::bound(behind),
    });
    let (due, id, generation, code) = token.behind;
    Ok(Cursor {
        behind: Key {
            due: Millis(due),
            id: TaskId::bound(id),
            generation,
            code: KeyCode(code),
        },
        through: Millis(token.through),
        to: Millis(token.end),
        ended: token.ended.map(TaskId::bound),
        labelled: token.labelled.map(TaskId::bound),
        filed,
    })
}

/// Writes the token of a list of children: a bucket, and the child behind which the list goes on.
#[must_use]
pub fn write_children((bucket, after): (u8, Option<TaskId>)) -> String {
    let after = after.map(TaskId::uuid);
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&(bucket, after)).unwrap_or_default())
}

/// Reads the token of a list of children.
///
/// # Errors
/// A text about the mistake.
pub fn read_children(text: &str) -> Result<(u8, Option<TaskId>), String> {
    let foreign = || "is not a token of this list: send `next_page_token` as it was".to_owned();
    if text.len() > TOKEN_CHARS_MAX {
        return Err(foreign());
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| foreign())?;
    let (bucket, after): (u8, Option<Uuid>) =
        serde_json::from_slice(&bytes).map_err(|_| foreign())?;
    if bucket >= BUCKETS {
        return Err(foreign());
    }
    Ok((bucket, after.map(TaskId::bound)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter() -> Filter {
        Filter {
            callback: Some("c".repeat(128)),
            beginning: None,
            collection: Some("c".repeat(128)),
            state: Some(VisibleState::Processing),
            labels: [("tenant".to_owned(), "acme".to_owned())].into(),
            error: Some("refused".to_owned()),
            from: Some(Millis::EPOCH),
            to: Some(Millis::MAX),
            pending: true,
            ended: true,
            every: true,
            internal: true,
            roots: true,
            schedule: Some("nightly".to_owned()),
        }
    }

    fn cursor() -> Cursor {
        Cursor {
            behind: Key::behind(Millis(1_800_000_000_437)),
            through: Millis::MAX,
            to: Millis::MAX,
            ended: Some(TaskId::bound(Uuid::max())),
            labelled: Some(TaskId::bound(Uuid::max())),
            filed: Some(Filed {
                day: -20_000,
                state: 4,
                behind: TaskId::bound(Uuid::max()),
            }),
        }
    }

    #[test]
    fn a_token_comes_back_as_it_was() {
        for filter in [filter(), Filter::default()] {
            let token = write(&filter, &cursor());
            assert!(token.len() < TOKEN_CHARS_MAX, "{}", token.len());
            assert_eq!(read(&token, &filter), Ok(cursor()));
        }
    }

    #[test]
    fn a_token_of_other_filters_names_what_differs() {
        let token = write(&filter(), &cursor());
        let others = [
            (
                "callback",
                Filter {
                    callback: None,
                    ..filter()
                },
            ),
            (
                "state",
                Filter {
                    state: Some(VisibleState::Dead),
                    ..filter()
                },
            ),
            (
                "collection",
                Filter {
                    collection: None,
                    ..filter()
                },
            ),
            (
                "label.NAME",
                Filter {
                    labels: [("tenanta".to_owned(), "cme".to_owned())].into(),
                    ..filter()
                },
            ),
            (
                "error",
                Filter {
                    error: Some("refused by #".to_owned()),
                    ..filter()
                },
            ),
            (
                "start_time_from",
                Filter {
                    from: Some(Millis(1)),
                    ..filter()
                },
            ),
            (
                "start_time_to",
                Filter {
                    to: None,
                    ..filter()
                },
            ),
        ];
        for (name, other) in others {
            let refused = read(&token, &other).unwrap_err();
            assert!(refused.contains(&format!("another `{name}`")), "{refused}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let odd = write(
            &Filter::default(),
            &Cursor {
                through: Millis(i64::MAX),
                ..cursor()
            },
        );
        for text in ["", "x", "e30", "!!!", &"A".repeat(2000), &odd] {
            let refused = read(text, &Filter::default()).unwrap_err();
            assert!(refused.contains("is not a token"), "{text}: {refused}");
        }
    }
}
