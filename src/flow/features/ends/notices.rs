//! The notices make the payload of the internal task that tells an end ([`crate::model::notice`]), and read it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    flow::base::{
        api::{Fault, TaskView},
        context::Context,
        read::find::view_of_row,
        rows::stored,
    },
    model::{
        action::End,
        http_call::{HttpCall, Method},
        ids::TaskId,
        kin::{TreeEnd, TreeOutcome},
        notice::Notice,
        notify::Destination,
        row::{State, TaskRow},
        time::{Millis, whole_millis},
    },
};

/// The payload of such a task: the end of a run has `state`, and that of a tree `tree`. The row of the ended task says more,
/// as long as it is there and has not moved on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Payload {
    /// The ended task.
    task: Uuid,
    /// Its generation at the end.
    generation: u32,
    /// The number of its state, as stores keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<i8>,
    /// The number of how its tree ended, as stores keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tree: Option<i32>,
    /// When it ended, in milliseconds since 1970.
    end_ms: i64,
    /// Claims up to the end.
    #[serde(default)]
    attempt: u32,
    /// Where it is told.
    to: To,
}

/// A destination, as the payload has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum To {
    Kafka {
        topic: String,
    },
    Http {
        url: String,
        method: String,
        headers: Vec<(String, String)>,
        timeout_ms: Option<u64>,
    },
}

impl To {
    pub(super) fn of(destination: &Destination) -> Self {
        match destination {
            Destination::Kafka { topic } => Self::Kafka {
                topic: topic.clone(),
            },
            Destination::Http(call) => Self::Http {
                url: call.url.clone(),
                method: call.method.name().to_owned(),
                headers: call.headers.clone(),
                timeout_ms: call.timeout.map(|limit| whole_millis(limit).unsigned_abs()),
            },
        }
    }

    pub(super) fn destination(self) -> Result<Destination, String> {
        Ok(match self {
            Self::Kafka { topic } => Destination::Kafka { topic },
            Self::Http {
                url,
                method,
                headers,
                timeout_ms,
            } => Destination::Http(Box::new(HttpCall {
                url,
                method: Method::named(&method).ok_or("its method is not known")?,
                headers,
                timeout: timeout_ms.map(Duration::from_millis),
                message_id: None,
            })),
        })
    }
}

/// The reader of internal tasks that tell ends.
#[derive(Debug)]
pub struct Notices {
    ctx: Arc<Context>,
}

impl Notices {
    /// Reads through these.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Reads the task of a notice as it is now, also when its retention has passed. None when it, or its tree, went on again or
    /// was deleted since, or is gone.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn task(&self, notice: &Notice) -> Result<Option<TaskView>, Fault> {
        let row = stored::row(&self.ctx, notice.task).await?;
        let same = |row: &TaskRow| {
            let generation = row.generation_at(notice.end);
            // A claim is told of a task that goes on.
            let has_come = row.state.is_terminal() || is_claim(notice.end);
            generation == notice.generation && has_come && !row.detail.erased
        };
        let now = self.ctx.now();
        Ok(row.filter(same).map(|row| view_of_row(row, None, now)))
    }
}

/// Tells whether a state is one that is told: an end, or a first claim.
fn is_told(state: State) -> bool {
    state.is_terminal() || state == State::Claimed
}

const fn is_claim(end: End) -> bool {
    matches!(end, End::Run(State::Claimed, _))
}

impl Payload {
    pub(super) fn of(notice: &Notice) -> Self {
        let (state, tree) = match notice.end {
            End::Run(state, _) => (Some(state.number()), None),
            End::Tree(tree) => (None, Some(tree.outcome.number())),
        };
        Self {
            task: notice.task.uuid(),
            generation: notice.generation,
            state,
            tree,
            end_ms: notice.end.at().0,
            attempt: notice.attempt,
            to: To::of(&notice.to),
        }
    }

    pub(super) fn notice(self) -> Result<Notice, String> {
        Ok(Notice {
            task: TaskId::from_uuid(self.task).ok_or("its task is no id of a task")?,
            generation: self.generation,
            end: self.end().ok_or("its state is not known")?,
            attempt: self.attempt,
            to: self.to.destination()?,
        })
    }

    fn end(&self) -> Option<End> {
        let at = Millis(self.end_ms);
        match (self.state, self.tree) {
            (Some(number), None) => {
                let state = State::from_number(number).filter(|state| is_told(*state))?;
                Some(End::Run(state, at))
            }
            (None, Some(number)) => {
                let outcome = TreeOutcome::from_number(number)?;
                Some(End::Tree(TreeEnd { outcome, at }))
            }
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

pub(super) fn write(notice: &Notice) -> Bytes {
    // Numbers and a uuid can always be written.
    let written = serde_json::to_vec(&Payload::of(notice));
    written.unwrap_or_default().into()
}

/// Reads the payload of a task that tells an end.
///
/// # Errors
/// A text about what is wrong with it.
pub fn read(payload: &[u8]) -> Result<Notice, String> {
    let payload: Payload = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    payload.notice()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::WheelNumber;

    #[test]
    fn a_notice_survives_its_payload() {
        let notice = Notice {
            task: TaskId::new(Millis(7), WheelNumber::from_low_bits(1), 9),
            generation: 3,
            end: End::Run(State::Expired, Millis(1_800_000_000_000)),
            attempt: 2,
            to: Destination::Kafka {
                topic: "ends".to_owned(),
            },
        };
        let payload = write(&notice);
        assert_eq!(read(&payload), Ok(notice.clone()));
        let call = HttpCall {
            url: "http://a.example".to_owned(),
            method: Method::Post,
            headers: vec![("a".to_owned(), "b".to_owned())],
            timeout: Some(Duration::from_secs(3)),
            message_id: None,
        };
        let over_http = Notice {
            to: Destination::Http(Box::new(call)),
            ..notice
        };
        assert_eq!(read(&write(&over_http)), Ok(over_http.clone()));
        let tree = TreeEnd {
            outcome: TreeOutcome::Cancelled,
            at: Millis(1_800_000_000_000),
        };
        let of_tree = Notice {
            end: End::Tree(tree),
            ..over_http
        };
        assert_eq!(read(&write(&of_tree)), Ok(of_tree));
        let claimed = Notice {
            end: End::Run(State::Claimed, Millis(7)),
            ..notice
        };
        assert_eq!(read(&write(&claimed)), Ok(claimed));
        let text = String::from_utf8_lossy(&payload).replace("\"state\":7", "\"state\":1");
        assert!(read(text.as_bytes()).is_err_and(|reason| reason.contains("state")));
        assert!(read(b"").is_err());
    }
}
