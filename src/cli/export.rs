//! The command `tickwheel task export` writes tasks for the user as lines that `task import` accepts.
//!
//! It writes tasks that have not ended, or tasks in one state. A line has all fields of a registration, with
//! the start time as it is now. The history of a task (attempts, state, id) is not part of it: the import
//! makes another task. Neither is its place in a tree, nor what it follows; a warning says how many tasks have one.

use std::{collections::HashSet, io::Write as _};

use clap::Args;
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;

use super::{
    Exit, Failure,
    fields::by_flags,
    list::{FilterArgs, next_page},
    output::counted,
    private, reach,
};
use crate::{
    api::{notify::Notify, task_request::TaskRequest, text::InstantText},
    client::{
        ActionResponse, EndState, Error, FollowUpResponse, StartTime, TaskFilter, TaskResponse,
        TaskState, TreeState, has_ended,
    },
    limits::LIST_TASKS_MAX,
    model::ids::TaskId,
    time_source::TimeSource,
};

/// Tasks that are read at once: each read is a small request of its own, with the payload.
const READS_IN_FLIGHT_MAX: usize = 16;

/// `tickwheel task export`.
#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    client: ExportArgs,
}

/// The servers to read from; the format is fixed.
#[derive(Debug, Clone, Args)]
struct ExportArgs {
    /// Server of the service; several, separated by commas, are tried in turn.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = super::SERVER_DEFAULT,
        value_name = "URL",
        help_heading = reach::HEADING
    )]
    server: String,
    #[command(flatten)]
    access: reach::AccessArgs,
}

/// How many exported tasks have something that a registration of them does not have.
#[derive(Debug, Default, PartialEq, Eq)]
struct LeftOut {
    /// They are in a tree.
    of_trees: u64,
    /// They follow another task, whose result may be with them.
    followers: u64,
    /// They wait for others, and are not exported: these have other ids where they are imported.
    waiting: u64,
}

impl LeftOut {
    fn note(&mut self, task: &TaskResponse) {
        let is_root = task
            .tree_state
            .is_some_and(|state| state != TreeState::None);
        let in_tree = task.parent.is_some() || is_root;
        self.of_trees += u64::from(in_tree);
        self.followers += u64::from(task.previous.is_some());
    }

    /// Returns a line for each kind of them.
    fn warnings(&self) -> String {
        let mut text = String::new();
        if self.of_trees > 0 {
            let count = self.of_trees;
            text.push_str(&format!(
                "\nwarning: tasks of trees: {count}; each is exported by itself, without what follows the end of its tree, and \
                 children that wait for their parent are not exported"
            ));
        }
        if self.followers > 0 {
            let count = self.followers;
            text.push_str(&format!(
                "\nwarning: tasks that follow another one: {count}; its result is not exported"
            ));
        }
        if self.waiting > 0 {
            let count = self.waiting;
            text.push_str(&format!(
                "\nwarning: tasks that wait for others: {count}; they are not exported, since these get other ids"
            ));
        }
        text
    }
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command { filter, client } = command;
    let client = reach::builder(&client.server, client.access.access()?).build()?;
    let ends = filter.has_end();
    let time = TimeSource::real();
    let mut filter = filter.filter(time.now(), LIST_TASKS_MAX);
    // If a state of ended tasks is asked for, only those are exported. Otherwise the service does not walk
    // over ended tasks.
    let wanted = filter.state;
    filter.pending = wanted.is_none_or(|state| !has_ended(state));
    let is_wanted = |state| match wanted {
        Some(wanted) => state == wanted,
        None => !has_ended(state),
    };
    let asked = filter.clone();
    let mut pages = client.list(filter);
    let progress = ProgressBar::new_spinner();
    let mut seen: HashSet<TaskId> = HashSet::new();
    let (mut count, mut left_out) = (0_u64, LeftOut::default());
    private::warn_of_open_output("payloads");
    loop {
        let page = next_page(&mut pages, &time).await;
        let page = page.map_err(|error| after(count, by_flags(error)))?;
        let Some(tasks) = page else { break };
        let mut ids: Vec<TaskId> = Vec::new();
        for task in tasks.iter().filter(|task| is_wanted(task.state)) {
            match task.id.parse() {
                Ok(id) if !seen.insert(id) => {}
                Ok(_) if task.state == TaskState::Waiting => left_out.waiting += 1,
                Ok(id) => ids.push(id),
                Err(_) => {}
            }
        }
        let mut reads = stream::iter(ids)
            .map(|id| client.get(id))
            .buffered(READS_IN_FLIGHT_MAX);
        while let Some(read) = reads.next().await {
            let task = match read {
                // A task that was listed in the wanted state is exported, even if it has moved on since.
                Ok(task) if wanted.is_some() || is_wanted(task.state) => task,
                // It has ended since.
                Ok(_) | Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(after(count, error.into())),
            };
            left_out.note(&task);
            write_line(task)?;
            count += 1;
            progress.set_position(count);
        }
        progress.set_message(counted(count, "task"));
        progress.tick();
    }
    progress.finish_and_clear();
    let until = pages.start_time_to().filter(|_| !pages.is_whole());
    let summary = summary(count, &asked, until, ends);
    let warnings = left_out.warnings();
    writeln!(std::io::stderr(), "{summary}{warnings}").unwrap_or_default();
    Ok(Exit::Ok)
}

/// Adds to a failure what was exported before it.
fn after(count: u64, Failure { exit, text }: Failure) -> Failure {
    let text = match count {
        0 => text,
        count => format!(
            "{text}; {} were exported until then",
            counted(count, "task")
        ),
    };
    Failure { exit, text }
}

/// Describes the export, and which tasks are missing from it when no end was asked for; `until` is the end
/// that the list had.
fn summary(count: u64, asked: &TaskFilter, until: Option<&str>, ends: bool) -> String {
    let tasks = counted(count, "task");
    let callback = asked.callback.as_ref();
    let callback = callback.map_or_else(String::new, |name| format!(" of `{name}`"));
    let state = asked.state.map_or_else(
        || " that have not ended".to_owned(),
        |state| format!(" that are {}", state.name()),
    );
    let from = asked.start_time_from.as_ref();
    let from = from.map(|StartTime(InstantText(from))| format!("at or after {from}"));
    let until_text = until.map(|until| format!("before {until}"));
    let range: Vec<String> = from.into_iter().chain(until_text).collect();
    if range.is_empty() {
        return format!("exported {tasks}: all{callback}{state}");
    }
    let range = range.join(" and ");
    let mut text = format!("exported {tasks}{callback}{state}, starting {range}");
    if until.is_none() {
        return text;
    }
    if !ends {
        text.push_str(
            "\nwarning: tasks that start then or later are not part of it: the store of this service is read tick by tick; \
             --to TIME looks further ahead",
        );
    }
    text
}

fn write_line(task: TaskResponse) -> Result<(), Failure> {
    let line = serde_json::to_string(&request(task))
        .map_err(|error| Failure::failed(format!("a task cannot be written: {error}")))?;
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Returns the request that would register the task as it is.
fn request(task: TaskResponse) -> TaskRequest {
    let tracked = task.target.is_tracked();
    let (callback, kafka, http) = task.target.into_fields();
    TaskRequest {
        callback,
        http,
        kafka,
        id: None,
        idempotency_key: None,
        key: task.key,
        ordering_key: task.ordering_key,
        on_conflict: None,
        // Its tree is not exported: the task stands for itself.
        parent: None,
        children: None,
        after_parent: false,
        children_within: None,
        children_complete: false,
        // Its dependencies have other ids where it is imported.
        after: None,
        collection: task.collection,
        start_time: Some(task.start_time),
        delay: None,
        payload: task.payload,
        payload_base64: task.payload_base64,
        content_type: task.content_type,
        priority: tracked.then_some(task.priority),
        max_attempts: tracked.then_some(task.max_attempts),
        retry: task.retry,
        claim_timeout: task.claim_timeout,
        heartbeat_timeout: task.heartbeat_timeout,
        attempt_timeout: task.attempt_timeout,
        expire_after: task.expire_after,
        retention: task.retention,
        dead_retention: task.dead_retention,
        notify: task.notify.and_then(own_notice),
        actions: some_of(own_actions(task.actions)),
        checks: some_of(task.checks),
        then: some_of(own_follow_ups(task.then)),
        labels: (!task.labels.is_empty()).then_some(task.labels),
    }
}

/// Returns the follow-ups of the own run outside of trees: the others belong to the tree.
fn own_follow_ups(mut then: Vec<FollowUpResponse>) -> Vec<FollowUpResponse> {
    then.retain(|follow| !follow.in_tree && !follow.states.iter().any(is_of_tree));
    then
}

const fn is_of_tree(state: &EndState) -> bool {
    matches!(state, EndState::Completed | EndState::Faulted)
}

/// Returns the notice of ends of the own run: the others belong to the tree.
fn own_notice(mut notify: Notify) -> Option<Notify> {
    if let Some(states) = &mut notify.states {
        states.retain(|state| !is_of_tree(state));
        if states.is_empty() {
            return None;
        }
    }
    Some(notify)
}

/// Returns the actions at ends of the own run: the others belong to the tree.
fn own_actions(mut actions: Vec<ActionResponse>) -> Vec<ActionResponse> {
    actions.retain(|action| !action.states.iter().flatten().any(is_of_tree));
    actions
}

/// Returns what a request has for a list of an answer.
fn some_of<T, U: From<T>>(items: Vec<T>) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.into_iter().map(U::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_says_what_it_is_and_warns_when_it_had_to_stop() {
        let until = Some("2030-01-31T09:00:00.000Z");
        let mut asked = TaskFilter::default();
        assert_eq!(
            summary(1, &asked, None, false),
            "exported 1 task: all that have not ended"
        );
        assert_eq!(
            summary(2, &asked, until, true),
            "exported 2 tasks that have not ended, starting before 2030-01-31T09:00:00.000Z"
        );
        let stopped = summary(0, &asked, until, false);
        let (_, warning) = stopped.split_once('\n').unwrap();
        assert!(
            warning.starts_with("warning: ") && warning.contains("--to TIME"),
            "{warning}"
        );
        asked.callback = Some("mail".to_owned());
        asked.state = Some(TaskState::Dead);
        assert_eq!(
            summary(3, &asked, None, false),
            "exported 3 tasks: all of `mail` that are dead"
        );
        asked.start_time_from = Some("2030-01-30T09:00:00Z".into());
        assert_eq!(
            summary(3, &asked, until, true),
            "exported 3 tasks of `mail` that are dead, starting at or after 2030-01-30T09:00:00Z and before \
             2030-01-31T09:00:00.000Z"
        );
        assert_eq!(
            summary(3, &asked, None, false),
            "exported 3 tasks of `mail` that are dead, starting at or after 2030-01-30T09:00:00Z"
        );
    }
}
