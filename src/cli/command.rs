//! The command runner executes a program for each task of `tickwheel worker`: its input, its limits, the
//! meaning of its end.
//!
//! No process of a command outlives the attempt: dropping the run kills its process group. The output of a
//! command is read to the end, so that the command never blocks, and kept up to a bound.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    task::JoinSet,
};

use super::{guard, passed::Passed, reach::CREDENTIALS};
use crate::{
    api::text::InstantText,
    limits::{ERROR_CHARS_MAX, RESULT_BYTES_MAX},
    worker::{Context, Job, Outcome, Raw},
};

/// Exit codes that mean that trying again is of no use.
const FATAL: [i32; 2] = [65, 100];

/// How long a cancelled command may take to end after SIGTERM.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// How long output is read after the command has ended: a process that it left behind may hold the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);

/// Bytes of standard error that are searched for the error text.
const TAIL_BYTES: usize = ERROR_CHARS_MAX;

/// A command with its arguments.
#[derive(Debug)]
pub(super) struct Program {
    command: Vec<OsString>,
}

/// A process group that is killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(pid: Option<i32>) -> Self {
        if let Some(pid) = pid {
            guard::begun(pid);
            running().insert(pid);
        }
        Self(pid.and_then(Pid::from_raw))
    }

    fn forget(&mut self) {
        if let Some(group) = self.0.take() {
            let group = group.as_raw_nonzero().get();
            running().remove(&group);
            guard::ended(group);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, signal)
        {
            tracing::debug!(%error, "a command was gone before its signal");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.forget();
    }
}

/// The groups that run, for an exit that runs no destructors.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock()
}

/// Kills every command that runs, with all processes that it has started, before this process exits at once.
pub(super) fn kill_all() {
    for pid in running().iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // One that has ended meanwhile needs no signal.
        kill_process_group(pid, Signal::KILL).unwrap_or_default();
    }
}

impl Program {
    pub(super) const fn new(command: Vec<OsString>) -> Self {
        Self { command }
    }

    /// Runs the command for a task, and logs its end in one line. Dropping the future kills the command.
    pub(super) async fn run(&self, job: Job<Raw>, context: &Context) -> Outcome {
        let (task, attempt, callback) = (job.id, job.attempt, job.callback.clone());
        let began = context.time().moment();
        let outcome = self.run_once(job, context).await;
        let took_ms = context.time().moment().since(began).as_millis();
        let (outcome_name, error) = said_of(&outcome);
        match error {
            None => tracing::info!(%task, attempt, callback, took_ms, "{outcome_name}"),
            Some(error) => {
                tracing::warn!(%task, attempt, callback, took_ms, error, "{outcome_name}")
            }
        }
        outcome
    }

    async fn run_once(&self, job: Job<Raw>, context: &Context) -> Outcome {
        let mut child = match self.spawn(&job) {
            Ok(child) => child,
            Err(error) => return Outcome::retry(format!("cannot run the command: {error}")),
        };
        // Declared behind the child, so it is dropped before it: the number cannot belong to another process
        // yet.
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let mut group = Group::of(pid);
        let (out, errors) = (Kept::default(), Kept::default());
        let mut pipes = JoinSet::new();
        pipes.spawn(write(child.stdin.take(), job.payload.0));
        pipes.spawn(read_start(child.stdout.take(), out.clone()));
        pipes.spawn(read_end(child.stderr.take(), errors.clone()));
        let ended = end(&mut child, &group, context).await;
        if !matches!(&ended, Ok(status) if status.success()) {
            // The next attempt must not run beside processes that this one has left behind.
            group.signal(Signal::KILL);
        }
        // The process was waited for: its number may belong to another process from now on.
        group.forget();
        let closed = async { while pipes.join_next().await.is_some() {} };
        if context.time().within(OUTPUT_GRACE, closed).await.is_none() {
            tracing::debug!(id = %job.id, "a command has left something behind that holds its output open");
        }
        match ended {
            Ok(status) => {
                let (out, errors) = (out.take(), errors.take());
                if status.success() && out.len() > RESULT_BYTES_MAX {
                    tracing::warn!(task = %job.id, "the output is longer than a result: its first {RESULT_BYTES_MAX} bytes are kept");
                }
                outcome(status, &out, &errors)
            }
            Err(error) => Outcome::retry(format!("cannot wait for the command: {error}")),
        }
    }

    fn spawn(&self, job: &Job<Raw>) -> io::Result<Child> {
        let mut words = self.command.iter();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        for name in CREDENTIALS {
            command.env_remove(name);
        }
        command
            .args(words)
            .env("TICKWHEEL_TASK_ID", job.id.to_string())
            .env("TICKWHEEL_ATTEMPT", job.attempt.to_string())
            .env("TICKWHEEL_CALLBACK", &job.callback)
            .env("TICKWHEEL_START_TIME", InstantText::from(job.start_time).0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// Checks that a command can be started: one that cannot would use up the attempts of every task.
///
/// It may still vanish later; then its tasks are tried again.
pub(super) fn check(command: &[OsString]) -> Result<(), String> {
    let Some(program) = command.first() else {
        return Err("no command is given behind --".to_owned());
    };
    let path = Path::new(program);
    let shown = path.display();
    if path.components().count() > 1 || path.is_absolute() {
        return match can_run(path) {
            Ok(()) => Ok(()),
            Err(why) => Err(format!("the command {shown} {why}")),
        };
    }
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&places).any(|place| can_run(&place.join(path)).is_ok());
    if found {
        Ok(())
    } else {
        Err(format!(
            "the command {shown} is in no directory of PATH: correct its name, or give its path"
        ))
    }
}

/// Tells why this user cannot run a file.
fn can_run(path: &Path) -> Result<(), &'static str> {
    if !path.is_file() {
        return Err("does not exist, or is no file: correct its path");
    }
    let runs = rustix::fs::access(path, rustix::fs::Access::EXEC_OK);
    runs.map_err(|_| "cannot be run by this user: make it executable (chmod +x)")
}

/// Returns the texts for the line about a run: its outcome, and the error.
fn said_of(outcome: &Outcome) -> (&'static str, Option<&str>) {
    match outcome {
        Outcome::Done | Outcome::DoneWith(_) | Outcome::DoneWithBytes { .. } => ("succeeded", None),
        Outcome::Retry(error) | Outcome::RetryAfter(_, error) => {
            ("failed, is tried again", Some(error))
        }
        Outcome::Fail(error) => ("failed for good", Some(error)),
        Outcome::Snooze(_) => ("given back", None),
    }
}

/// The kept part of an output.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    /// Adds to the end, unless it is already longer than any result.
    fn add_to_start(&self, some: &[u8]) {
        let mut kept = self.0.lock();
        let room = (RESULT_BYTES_MAX + 1).saturating_sub(kept.len());
        kept.extend(some.iter().take(room));
    }

    /// Adds to the end, and forgets the beginning.
    fn add_to_end(&self, some: &[u8]) {
        let mut kept = self.0.lock();
        kept.extend(some);
        let excess = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..excess);
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Waits for the end. A command whose task is cancelled is first asked to end, then killed.
async fn end(child: &mut Child, group: &Group, context: &Context) -> io::Result<ExitStatus> {
    tokio::select! {
        ended = child.wait() => return ended,
        () = context.cancelled() => group.signal(Signal::TERM),
    }
    if let Some(ended) = context.time().within(CANCEL_GRACE, child.wait()).await {
        return ended;
    }
    group.signal(Signal::KILL);
    child.wait().await
}

async fn write(stdin: Option<ChildStdin>, payload: Bytes) {
    if let Some(mut stdin) = stdin
        && let Err(error) = stdin.write_all(&payload).await
    {
        // A command need not read its input.
        tracing::debug!(%error, "a command did not read its payload");
    }
}

async fn read_start(pipe: Option<impl AsyncRead + Unpin>, kept: Kept) {
    read(pipe, |some| kept.add_to_start(some)).await;
}

/// Reads the standard error of a command, keeps its end, and passes it on.
async fn read_end(pipe: Option<impl AsyncRead + Unpin>, kept: Kept) {
    let mut passed = Passed::default();
    read(pipe, |some| {
        kept.add_to_end(some);
        passed.add(some);
    })
    .await;
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, mut keep: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        keep(buffer.get(..count).unwrap_or_default());
    }
}

/// Returns the outcome that the end of a command means.
fn outcome(status: ExitStatus, out: &[u8], errors: &[u8]) -> Outcome {
    if status.success() {
        return result(out);
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let said = String::from_utf8_lossy(errors);
    let error = match said.trim() {
        "" => how,
        said => format!("{how}: {said}"),
    };
    match status.code() {
        Some(code) if FATAL.contains(&code) => Outcome::Fail(error),
        Some(_) | None => Outcome::Retry(error),
    }
}

/// Returns the result that an output stands for: a JSON value if it is one, else its text, cut to the kept
/// size.
fn result(out: &[u8]) -> Outcome {
    if out.trim_ascii().is_empty() {
        return Outcome::Done;
    }
    if out.len() <= RESULT_BYTES_MAX
        && let Ok(value) = serde_json::from_slice::<serde_json::Value>(out)
        && value.to_string().len() <= RESULT_BYTES_MAX
    {
        return Outcome::DoneWith(value);
    }
    let text = String::from_utf8_lossy(out);
    let mut kept = 0;
    // The quotes.
    let mut bytes = 2;
    for c in text.trim_end().chars() {
        bytes += json_bytes(c);
        if bytes > RESULT_BYTES_MAX {
            break;
        }
        kept += c.len_utf8();
    }
    let text = text.get(..kept).unwrap_or_default();
    Outcome::DoneWith(serde_json::Value::String(text.to_owned()))
}

/// Returns how long a character is in a text of JSON, with its escape.
const fn json_bytes(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        c => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exit(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn exit_codes_decide() {
        assert_eq!(outcome(exit(0), b" \n", b"noise"), Outcome::Done);
        for fatal in FATAL {
            let failed = Outcome::Fail(format!("exit code {fatal}: no such user"));
            assert_eq!(outcome(exit(fatal), b"", b"no such user\n"), failed);
        }
        assert_eq!(
            outcome(exit(75), b"1", b""),
            Outcome::Retry("exit code 75".to_owned())
        );
        let killed = outcome(ExitStatus::from_raw(9), b"", b"\xff");
        assert_eq!(
            killed,
            Outcome::Retry("ended by signal 9: \u{fffd}".to_owned())
        );
    }

    #[test]
    fn output_is_json_if_it_can_be() {
        assert_eq!(
            result(b"{\"a\": [1]}\n"),
            Outcome::DoneWith(json!({"a": [1]}))
        );
        assert_eq!(result(b"1 2\n"), Outcome::DoneWith(json!("1 2")));
        assert_eq!(result(b"sent\n"), Outcome::DoneWith(json!("sent")));
    }

    #[test]
    fn a_long_output_is_cut_to_what_is_kept() {
        for text in [
            "x".repeat(RESULT_BYTES_MAX * 2),
            "\u{1}\"é\\\u{8}\t".repeat(RESULT_BYTES_MAX / 16),
            format!("[{}1]", "1,".repeat(RESULT_BYTES_MAX)),
        ] {
            let kept = Kept::default();
            kept.add_to_start(text.as_bytes());
            let Outcome::DoneWith(value) = result(&kept.take()) else {
                panic!("a success");
            };
            let length = value.to_string().len();
            assert!(
                length <= RESULT_BYTES_MAX && length > RESULT_BYTES_MAX - 10,
                "{length}"
            );
            assert!(text.starts_with(value.as_str().unwrap()));
        }
    }

    #[test]
    fn the_end_of_the_errors_is_kept() {
        let kept = Kept::default();
        for number in 0..10_000 {
            kept.add_to_end(format!("{number}\n").as_bytes());
        }
        let tail = kept.take();
        assert!(tail.len() == TAIL_BYTES && tail.ends_with(b"\n9999\n"));
    }
}
