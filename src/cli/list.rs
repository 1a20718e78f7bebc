//! The command `tickwheel task list` prints tasks for the user that a walk over the wheel finds, page by page
//! as they come.

use std::{io::Write as _, time::Duration};

use clap::Args;
use jiff::SignedDuration;

use super::{
    ClientArgs, Exit, Failure,
    fields::by_flags,
    output::{TaskRows, counted},
    times,
};
use crate::{
    api::text::InstantText,
    client::{EndState, Error, StartTime, TaskFilter, TaskPages, TaskResponse, TaskState},
    limits::LIST_TASKS_MAX,
    model::time::Millis,
    time_source::TimeSource,
};

/// Failures in a row after which a list gives up.
const FAILURES_MAX: u32 = 5;

/// Wait between failures when the service gives none.
const PAUSE: Duration = Duration::from_secs(1);

/// Every state, for the flag.
const STATES: [TaskState; 13] = [
    TaskState::Scheduled,
    TaskState::Enqueued,
    TaskState::Claimed,
    TaskState::Processing,
    TaskState::Succeeded,
    TaskState::Failed,
    TaskState::Retrying,
    TaskState::Cancelled,
    TaskState::Expired,
    TaskState::Dead,
    TaskState::Published,
    TaskState::Waiting,
    TaskState::WaitingForChildren,
];

/// The filter of a list.
#[derive(Debug, Clone, Args)]
pub(super) struct FilterArgs {
    /// Only tasks of this callback; 'mail.*' is all whose names begin with `mail.`.
    #[arg(long, value_name = "NAME")]
    callback: Option<String>,
    /// Only tasks of this collection.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Only tasks with this label, as name=value. May be given several times: a task has all of them.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Only tasks whose last error is of the class of this one: its first line, without its numbers.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only tasks in this state: scheduled, enqueued, claimed, processing, retrying, succeeded, failed, cancelled, expired,
    /// dead, published, waiting, waiting_for_children.
    #[arg(long, value_name = "STATE", value_parser = state, hide_possible_values = true)]
    pub(super) state: Option<TaskState>,
    /// Only tasks that are no children of others.
    #[arg(long)]
    roots: bool,
    /// Only runs of this schedule.
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Only tasks that start at this time or later: RFC 3339, or from now, such as 2h or -10m.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    from: Option<Bound>,
    /// Only tasks that start earlier than this, in the same form. Without it an embedded store lists all, and
    /// a cluster looks 24 h ahead.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    to: Option<Bound>,
}

/// An end of a range of start times.
#[derive(Debug, Clone)]
enum Bound {
    At(String),
    FromNow(SignedDuration),
}

/// `tickwheel task list`.
#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    filter: FilterArgs,
    /// The task that this key of --callback names: the live one, or the last. It is also found long after it has ended.
    #[arg(long, value_name = "TEXT", requires = "callback", conflicts_with_all = ["collection", "labels", "error", "state",
        "roots", "schedule", "from", "to", "limit", "internal"])]
    key: Option<String>,
    /// Stop after this many tasks.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// List the service's own tasks, too.
    #[arg(long)]
    internal: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) fn state(text: &str) -> Result<TaskState, String> {
    let named = STATES.into_iter().find(|state| state.name() == text);
    named.ok_or_else(|| {
        let names = STATES.map(TaskState::name);
        format!("expected one of {}", names.join(", "))
    })
}

/// Reads an end of a task or of its tree.
pub(super) fn end(text: &str) -> Result<EndState, String> {
    let text = serde_json::Value::from(text);
    serde_json::from_value(text).map_err(|_| {
        "expected succeeded, failed, cancelled, expired, dead, completed or faulted".to_owned()
    })
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected name=value, such as tenant=acme")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

fn time(text: &str) -> Result<Bound, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(Bound::At(at.to_string()));
    }
    if let Ok(offset) = text.parse::<SignedDuration>() {
        return Ok(Bound::FromNow(offset));
    }
    // A number alone may be a year or seconds.
    let after = Some(text).filter(|text| text.parse::<u32>().is_err());
    let after = after.and_then(|text| times::duration(text).ok());
    let after = after.and_then(|after| SignedDuration::try_from(after).ok());
    after.map(Bound::FromNow).ok_or_else(|| {
        "expected a time such as 2030-01-31T09:00:00Z, or one from now such as 2h, 168h or -10m"
            .to_owned()
    })
}

impl Bound {
    fn start_time(self, now: Millis) -> StartTime {
        match self {
            Self::At(text) => text.into(),
            Self::FromNow(offset) => {
                let offset = i64::try_from(offset.as_millis()).unwrap_or(i64::MAX);
                let at = now.0.saturating_add(offset);
                InstantText::from(Millis(at.clamp(Millis::EPOCH.0, Millis::MAX.0))).into()
            }
        }
    }
}

impl FilterArgs {
    /// Tells whether an end of the range was given.
    pub(super) const fn has_end(&self) -> bool {
        self.to.is_some()
    }

    /// Returns the filter. Times relative to now count from `now`.
    pub(super) fn filter(self, now: Millis, page_size: usize) -> TaskFilter {
        TaskFilter {
            callback: self.callback,
            collection: self.collection,
            state: self.state,
            labels: self.labels.into_iter().collect(),
            error: self.error,
            start_time_from: self.from.map(|bound| bound.start_time(now)),
            start_time_to: self.to.map(|bound| bound.start_time(now)),
            pending: false,
            internal: false,
            roots: self.roots,
            schedule: self.schedule,
            page_size: Some(page_size),
        }
    }
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command {
        filter,
        key,
        limit,
        internal,
        client,
    } = command;
    if let Some(key) = key {
        return by_key(filter.callback.as_deref(), &key, &client).await;
    }
    let ends = filter.has_end();
    let limit = limit.unwrap_or(usize::MAX);
    let page_size = limit.clamp(1, LIST_TASKS_MAX);
    let time = TimeSource::real();
    let filter = TaskFilter {
        internal,
        ..filter.filter(time.now(), page_size)
    };
    let mut pages = client.connect()?.list(filter);
    let mut rows = TaskRows::new(client.print.output);
    let mut count = 0;
    while count < limit
        && let Some(tasks) = next_page(&mut pages, &time).await.map_err(by_flags)?
    {
        let mut out = std::io::stdout().lock();
        for task in tasks.iter().take(limit - count) {
            rows.row(&mut out, task)?;
            count += 1;
        }
        out.flush()?;
    }
    rows.end(&mut std::io::stdout().lock())?;
    if let Some(to) = pages.start_time_to().filter(|_| count < limit && !ends) {
        let tasks = counted(count as u64, "task");
        let more = if pages.is_whole() {
            tasks
        } else {
            format!("{tasks} starting before {to}; --to TIME looks further ahead")
        };
        writeln!(std::io::stderr(), "{more}").unwrap_or_default();
    }
    Ok(Exit::Ok)
}

/// Prints the task that a key names, if any.
async fn by_key(callback: Option<&str>, key: &str, of: &ClientArgs) -> Result<Exit, Failure> {
    let callback = callback.unwrap_or_default();
    let task = of.connect()?.get_by_key(callback, key).await;
    let task = task.map_err(by_flags)?;
    let mut rows = TaskRows::new(of.print.output);
    let mut out = std::io::stdout().lock();
    if let Some(task) = &task {
        rows.row(&mut out, task)?;
    }
    rows.end(&mut out)?;
    Ok(Exit::Ok)
}

/// Reads the next page. It waits for the end of short outages, since a long list would have to begin anew.
pub(super) async fn next_page(
    pages: &mut TaskPages,
    time: &TimeSource,
) -> Result<Option<Vec<TaskResponse>>, Error> {
    // Without an answer to the first page it is more likely that there is no service.
    let mut failures = if pages.start_time_to().is_some() {
        0
    } else {
        FAILURES_MAX
    };
    loop {
        match pages.next().await {
            Err(error) if error.is_temporary() && failures < FAILURES_MAX => {
                failures += 1;
                time.sleep(error.retry_after().unwrap_or(PAUSE)).await;
            }
            page => return page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_instants_or_count_from_now() {
        let at = |text: &str| time(text).unwrap().start_time(Millis(1_800_000_000_000));
        let start = |ms: i64| StartTime::from(InstantText::from(Millis(ms)));
        assert_eq!(
            at("2030-01-31T10:00:00+01:00"),
            "2030-01-31T09:00:00Z".into()
        );
        assert_eq!(at("2h"), start(1_800_007_200_000));
        assert_eq!(at("-10m"), start(1_799_999_400_000));
        assert_eq!(at("-99999999h"), start(0));
        for text in ["", "tomorrow", "2030-01-31", "10"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_state_has_its_name() {
        for known in STATES {
            assert_eq!(state(known.name()), Ok(known));
        }
        assert!(state("Dead").unwrap_err().contains("scheduled, enqueued"));
        assert_eq!(end("faulted"), Ok(EndState::Faulted));
        assert_eq!(end("dead"), Ok(EndState::Dead));
        assert!(end("processing").unwrap_err().contains("completed"));
    }
}
