//! These tests run workers that are programs of their own, `tickwheel worker` and the examples,
//! against a real server.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::{
    client::{Jitter, Registered, RetryPolicy, Task, TaskResponse, TaskState, secs},
    time_source::TimeSource,
};
use tokio::process::{Child, Command};

use crate::local::Local;

/// The longest time for a step before the case has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// The command of these cases, which follows its payload.
const SCRIPT: &str = r#"
case $(cat) in
    '"echo"') echo "{\"id\": \"$TICKWHEEL_TASK_ID\", \"attempt\": $TICKWHEEL_ATTEMPT, \"callback\": \"$TICKWHEEL_CALLBACK\"}" ;;
    '"time"') echo "$TICKWHEEL_START_TIME" ;;
    '"silent"') ;;
    '"fatal"') echo "no such user" >&2; exit 65 ;;
    '"second"') [ "$TICKWHEEL_ATTEMPT" -gt 1 ] || { echo busy >&2; exit 75; } ;;
    '"background"') sleep 1000 & echo $! ;;
    '"key"') env | grep -c TICKWHEEL_API_KEY; : ;;
    '"shell"') sh -c 'sleep 1000 & echo $!; wait' | { read -r pid; echo "$pid" > "$PID_FILE"; cat; } ;;
    '"hang"') sleep 1000 & echo $! > "$PID_FILE"; wait ;;
    '"slow"') echo $$ > "$PID_FILE"; sleep 1; echo '"finished"' ;;
esac
"#;

struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        Self(child.expect("the program can be run"))
    }

    fn terminate(&self) {
        let pid = self.0.id().expect("it runs").to_string();
        let killed = std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status();
        assert!(killed.expect("kill can be run").success());
    }

    async fn ended(mut self) -> ExitStatus {
        let ended = TimeSource::real().within(LIMIT, self.0.wait()).await;
        ended
            .expect("it ends in time")
            .expect("it can be waited for")
    }
}

fn worker(server: &Local, pid_file: &Path) -> Program {
    Program::start(
        Command::new(env!("CARGO_BIN_EXE_tickwheel"))
            .args([
                "worker",
                "--callback",
                "work",
                "--server",
                &server.url,
                "--",
                "sh",
                "-c",
                SCRIPT,
            ])
            .env("TICKWHEEL_API_KEY", "twk_of_the_worker")
            .env("PID_FILE", pid_file),
    )
}

fn example(server: &Local, name: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name);
    Program::start(Command::new(path).env("TICKWHEEL_SERVER", &server.url))
}

async fn register(server: &Local, callback: &str, payload: Value) -> Registered {
    let soon = RetryPolicy::exponential(Duration::from_millis(100), 2.0, secs(1))
        .with_jitter(Jitter::None);
    let task = Task::callback(callback).json(&payload).unwrap().retry(soon);
    server
        .client
        .register(task.heartbeat_timeout(secs(3)))
        .await
        .unwrap()
}

async fn end(server: &Local, task: &Registered) -> TaskResponse {
    let ended = server.client.wait(task.id, LIMIT).await.unwrap();
    assert!(tickwheel::client::has_ended(ended.state), "{ended:?}");
    ended
}

fn result(task: &TaskResponse) -> Value {
    let raw = task.result.as_ref().map_or("null", |raw| raw.get());
    serde_json::from_str(raw).unwrap()
}

/// Waits until a command has written its process id.
async fn pid(file: &PathBuf) -> String {
    let time = TimeSource::real();
    let written = async {
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if text.ends_with('\n') {
                return text.trim().to_owned();
            }
            time.sleep(Duration::from_millis(10)).await;
        }
    };
    time.within(LIMIT, written)
        .await
        .expect("the command begins in time")
}

fn is_alive(pid: &str) -> bool {
    // A dead process that was not waited for is still listed, with a state that says so.
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_each_task_and_its_exit_code_decides() {
    let (server, dir) = (Local::start().await, tempfile::tempdir().unwrap());
    let worker = worker(&server, &dir.path().join("pid"));
    let mut tasks = Vec::new();
    for what in [
        "echo",
        "time",
        "silent",
        "fatal",
        "second",
        "background",
        "key",
    ] {
        tasks.push(register(&server, "work", json!(what)).await);
    }
    let mut ended = Vec::new();
    for task in &tasks {
        ended.push(end(&server, task).await);
    }
    let states: Vec<TaskState> = ended.iter().map(|task| task.state).collect();
    assert_eq!(states[3], TaskState::Failed);
    let others = [0, 1, 2, 4, 5].map(|place| states[place]);
    assert_eq!(others, [TaskState::Succeeded; 5], "{ended:?}");
    let echo = json!({"id": tasks[0].id.to_string(), "attempt": 1, "callback": "work"});
    assert_eq!(result(&ended[0]), echo);
    assert_eq!(
        result(&ended[1]),
        json!(ended[1].start_time.0),
        "not JSON, so a string"
    );
    assert_eq!(result(&ended[2]), Value::Null);
    assert_eq!(
        ended[3].error.as_deref(),
        Some("exit code 65: no such user")
    );
    assert_eq!(ended[4].attempt, 2);
    assert_eq!(
        result(&ended[6]),
        json!(0),
        "the key of the worker is in its environment"
    );
    // Processes that a command leaves behind delay nothing.
    let left = result(&ended[5]).to_string();
    std::process::Command::new("kill")
        .arg(&left)
        .status()
        .unwrap();
    worker.terminate();
    assert_eq!(worker.ended().await.code(), Some(0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_is_ended_with_everything_it_has_started() {
    let (server, dir) = (Local::start().await, tempfile::tempdir().unwrap());
    let file = dir.path().join("pid");
    let worker = worker(&server, &file);
    let task = register(&server, "work", json!("hang")).await;
    let started = pid(&file).await;
    assert!(is_alive(&started));
    server.client.cancel(task.id).await.unwrap();
    assert_eq!(end(&server, &task).await.state, TaskState::Cancelled);
    assert!(!is_alive(&started));
    worker.terminate();
    assert_eq!(worker.ended().await.code(), Some(0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_takes_its_commands_along() {
    let (server, dir) = (Local::start().await, tempfile::tempdir().unwrap());
    let file = dir.path().join("pid");
    let mut worker = worker(&server, &file);
    register(&server, "work", json!("shell")).await;
    let started = pid(&file).await;
    assert!(is_alive(&started));
    worker.0.kill().await.unwrap();
    let time = TimeSource::real();
    let dead = async {
        while is_alive(&started) {
            time.sleep(Duration::from_millis(10)).await;
        }
    };
    let dead = time.within(LIMIT, dead).await;
    dead.expect("the command dies with its worker");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_told_to_stop_lets_its_commands_finish() {
    let (server, dir) = (Local::start().await, tempfile::tempdir().unwrap());
    let file = dir.path().join("pid");
    let worker = worker(&server, &file);
    let task = register(&server, "work", json!("slow")).await;
    pid(&file).await;
    worker.terminate();
    assert_eq!(worker.ended().await.code(), Some(0));
    let task = server.client.get(task.id).await.unwrap();
    assert_eq!(
        (task.state, result(&task), task.attempt),
        (TaskState::Succeeded, json!("finished"), 1)
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_example_works() {
    let server = Local::start().await;
    let worker = example(&server, "worker.py");
    let greet = register(&server, "greet", json!({"name": "Ada"})).await;
    let broken = register(&server, "greet", json!({"nobody": 1})).await;
    let refused = register(&server, "refuse", json!({})).await;
    // This takes longer than the heartbeat timeout of 3 s.
    let long = register(&server, "count", json!({"until": 40})).await;
    let endless = register(&server, "count", json!({"until": 100_000})).await;
    let greeted = end(&server, &greet).await;
    assert_eq!(result(&greeted), json!({"greeting": "Hello, Ada!"}));
    assert_eq!(end(&server, &refused).await.state, TaskState::Failed);
    server.client.cancel(endless.id).await.unwrap();
    let stopped = result(&end(&server, &endless).await);
    assert!(stopped["stopped_at"].as_u64() < Some(100), "{stopped}");
    let counted = end(&server, &long).await;
    assert_eq!(
        (result(&counted), counted.attempt),
        (json!({"counted": 40}), 1)
    );
    let dead = end(&server, &broken).await;
    assert_eq!((dead.state, dead.attempt), (TaskState::Dead, 10));
    assert!(
        dead.error
            .as_deref()
            .unwrap_or_default()
            .contains("KeyError: 'name'"),
        "{dead:?}"
    );
    worker.terminate();
    assert_eq!(worker.ended().await.code(), Some(0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shell_example_works() {
    let server = Local::start().await;
    let worker = example(&server, "worker.sh");
    for number in 0..2 {
        let task = register(&server, "nightly", json!({"table": number})).await;
        let ended = end(&server, &task).await;
        assert_eq!((ended.state, ended.attempt), (TaskState::Succeeded, 1));
        assert!(result(&ended)["bytes"].as_u64() > Some(100), "{ended:?}");
    }
    worker.terminate();
    assert_eq!(worker.ended().await.code(), Some(0));
    server.stop().await;
}
