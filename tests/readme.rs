//! These tests run the commands of the README and of pages as they stand there, with the address of a test server.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tickwheel::{
    api::{poll::PollRequest, worker::SettleRequest},
    client::{Client, Task, TaskState, TreeState},
    model::ids::TaskId,
    time_source::TimeSource,
};

use crate::readme_block::block_of;

const LIMIT: Duration = Duration::from_secs(30);

const README: &str = include_str!("../README.md");

/// The page that has the calls of a worker.
const WORKERS: &str = include_str!("../docs/workers.md");

fn block(name: &str) -> &'static str {
    block_of(README, name)
}

/// `tickwheel serve` on a directory of its own, killed at the end.
struct Served {
    child: Child,
    address: String,
    directory: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().ok();
    }
}

impl Served {
    fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    fn start_at(address: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (child, address) = Self::spawn(address, directory.path());
        Self {
            child,
            address,
            directory,
        }
    }

    /// Starts the program on a directory; returns it and its address once it is ready.
    fn spawn(address: &str, directory: &Path) -> (Child, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tickwheel"))
            .args(["serve", "--listen", address, "--data-dir"])
            .arg(directory)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = lines.find_map(|line| {
            let line = line.ok()?;
            line.strip_prefix("ready on http://").map(str::to_owned)
        });
        // The log is read on, so that the program never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        (child, ready.expect("it becomes ready"))
    }

    fn client(&self) -> Client {
        Client::connect(&format!("http://{}", self.address)).unwrap()
    }

    /// Replaces what differs for a reader: the address.
    fn here(&self, text: &str) -> String {
        text.replace("localhost:7420", &self.address)
    }
}

fn shell(text: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-euc", text]);
    command
}

/// Registers the greeting with the curl line, and returns its id.
fn greeting(served: &Served) -> TaskId {
    let answered = shell(&served.here(block("curl"))).output().unwrap();
    let text = String::from_utf8(answered.stdout).unwrap();
    let answer: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    assert_eq!(answer["state"], "scheduled", "{text}");
    answer["id"].as_str().unwrap().parse().unwrap()
}

async fn succeeded(served: &Served, id: TaskId) {
    let task = served.client().wait(id, LIMIT).await.unwrap();
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
}

/// A worker that runs until the end of its case.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().ok();
    }
}

/// A reader types them in this order, in the folder of the sources, where `make demo` has left the program.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_lines_put_the_program_on_the_path_register_a_task_and_run_it() {
    let served = Served::start();
    let folder = tempfile::tempdir().unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_tickwheel")).parent().unwrap();
    std::fs::create_dir(folder.path().join("target")).unwrap();
    std::os::unix::fs::symlink(built, folder.path().join("target/debug")).unwrap();
    let (path, curl, command) = (block("path"), served.here(block("curl")), block("command"));
    let mut typed = Running(
        shell(&format!("{path}\n{curl}\necho\nexec {command}"))
            .current_dir(folder.path())
            .env("TICKWHEEL_SERVER", format!("http://{}", served.address))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(typed.0.stdout.take().unwrap()).lines();
    let answer: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let id = answer["id"].as_str().unwrap().parse().unwrap();
    succeeded(&served, id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_a_worker_in_python_are_these() {
    let served = Served::start();
    let id = greeting(&served);
    let script = served.here(block_of(WORKERS, "python"));
    let mut worker = Running(
        Command::new("python3")
            .args(["-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(worker.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "hello Ada");
    succeeded(&served, id).await;
    // The worker goes on behind a task that it cannot run, and runs the next one.
    let nameless = Task::callback("greet").max_attempts(1);
    let nameless = served.client().register(nameless).await.unwrap().id;
    let ended = served.client().wait(nameless, LIMIT).await.unwrap();
    assert_eq!(ended.state, TaskState::Dead, "{ended:?}");
    assert!(
        ended
            .error
            .as_ref()
            .is_some_and(|error| error.contains("KeyError")),
        "{ended:?}"
    );
    let next = greeting(&served);
    assert_eq!(lines.next().unwrap().unwrap(), "hello Ada");
    succeeded(&served, next).await;
}

/// The service is not there yet, comes, goes, and comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_in_python_waits_for_a_service_that_is_away() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let script = block_of(WORKERS, "python").replace("localhost:7420", &address);
    let mut worker = Running(
        Command::new("python3")
            .args(["-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(worker.0.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        TimeSource::real().sleep(Duration::from_millis(1500)).await;
        assert!(worker.0.try_wait().unwrap().is_none(), "it has ended");
        let served = Served::start_at(&address);
        let id = greeting(&served);
        assert_eq!(lines.next().unwrap().unwrap(), "hello Ada");
        succeeded(&served, id).await;
    }
}

/// The block is a shell script; the program and its server are those of this test.
#[test]
fn the_commands_for_a_team_do_what_they_say() {
    let served = Served::start();
    let path = Path::new(env!("CARGO_BIN_EXE_tickwheel"));
    let folder = path.parent().unwrap().to_str().unwrap();
    let run = |script: &str| {
        let ran = Command::new("bash")
            .args(["-ec", script])
            .env("TICKWHEEL_SERVER", format!("http://{}", served.address))
            .env(
                "PATH",
                format!("{folder}:{}", std::env::var("PATH").unwrap()),
            )
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let shown = run(block_of(include_str!("../docs/callbacks.md"), "team"));
    assert!(shown.contains("its database moves"), "{shown}");
    let callback = run("tickwheel callback get greet -o json");
    for words in ["\"max_attempts\": 5", "\"7d\"", "\"gate\": \"open\""] {
        assert!(callback.contains(words), "{words}: {callback}");
    }
}

/// The block makes keys in files of its folder.
#[test]
fn the_commands_for_keys_do_what_they_say() {
    let served = Served::start();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_tickwheel")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let script = served.here(block_of(include_str!("../docs/security.md"), "security"));
    let ran = Command::new("bash")
        .args(["-euc", &script])
        .current_dir(folder.path())
        .env("TICKWHEEL_SERVER", format!("http://{}", served.address))
        .env("PATH", format!("{}:{path}", program.display()))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let shown = String::from_utf8(ran.stdout).unwrap();
    for words in ["scheduled", "producer", "createApiKey"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_of_upgrades_copy_stop_and_look() {
    let mut served = Served::start();
    let id = greeting(&served);
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_tickwheel")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let script = served.here(block_of(include_str!("../docs/upgrade.md"), "directory"));
    let mut running = Command::new("bash")
        .args(["-euc", &script])
        .current_dir(folder.path())
        .env("DATA_DIR", served.directory.path())
        .env("PATH", format!("{}:{path}", program.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The commands wait for the end of the server, which its parent has to take notice of.
    let time = TimeSource::real();
    while running.try_wait().unwrap().is_none() {
        served.child.try_wait().unwrap();
        time.sleep(Duration::from_millis(50)).await;
    }
    let ran = running.wait_with_output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let ended = served.child.try_wait().unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    // The next program finds the task, and so does one on the copy.
    let copy = folder.path().join("new");
    let file = folder.path().join("before.tickwheel");
    let restored = Command::new(env!("CARGO_BIN_EXE_tickwheel"))
        .args(["backup", "restore"])
        .arg(file)
        .arg("--data-dir")
        .arg(&copy)
        .output()
        .unwrap();
    assert!(restored.status.success(), "{restored:?}");
    for directory in [served.directory.path(), &copy] {
        let (child, address) = Served::spawn("127.0.0.1:0", directory);
        let client = Client::connect(&format!("http://{address}")).unwrap();
        let found = client.get(id).await;
        drop(Running(child));
        assert_eq!(found.unwrap().id, id.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_of_the_page_of_jobs_cancels_what_it_names() {
    let served = Served::start();
    let client = served.client();
    let time = TimeSource::real();
    let later = |tenant: &str| {
        let task = Task::callback("send_email").label("tenant", tenant);
        task.delay(Duration::from_secs(3600))
    };
    let matching = client.register(later("acme")).await.unwrap().id;
    let other = client.register(later("other")).await.unwrap().id;
    let begin = served.here(block_of(include_str!("../docs/jobs.md"), "job"));
    let answered = shell(&begin).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    let ended = client.wait(matching, LIMIT).await.unwrap();
    assert_eq!(ended.state, TaskState::Cancelled, "{answered:?}");
    time.sleep(Duration::from_secs(1)).await;
    let other = client.get(other).await.unwrap();
    assert_eq!(other.state, TaskState::Scheduled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schedule_of_the_page_of_schedules_starts_its_tasks() {
    let served = Served::start();
    let begin = served.here(block_of(include_str!("../docs/schedules.md"), "schedule"));
    let answered = shell(&begin).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    let poll = PollRequest {
        worker: "w1".to_owned(),
        callbacks: vec!["ping".to_owned()],
        ..PollRequest::default()
    };
    let mut started = 0;
    while started < 3 {
        let polled = served.client().poll(&poll, LIMIT).await.unwrap();
        assert!(
            !polled.tasks.is_empty(),
            "{started} of 3 runs: {answered:?}"
        );
        started += polled.tasks.len();
    }
    let schedule = served.client().schedule("ping").await.unwrap();
    assert_eq!(schedule.runs, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tree_of_the_page_of_trees_is_drawn_and_cancelled() {
    let served = Served::start();
    let begin = served.here(block_of(include_str!("../docs/trees.md"), "tree"));
    let directory = tempfile::tempdir().unwrap();
    let mut shell = shell(&begin);
    let answered = shell.current_dir(directory.path()).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    let drawn = String::from_utf8(answered.stdout).unwrap();
    assert!(drawn.contains("n0[\"report<br/>scheduled\"]"), "{drawn}");
    assert_eq!(drawn.matches("n0 --> ").count(), 2, "{drawn}");
    let text = std::fs::read_to_string(directory.path().join("tree.json")).unwrap();
    let root: serde_json::Value = serde_json::from_str(&text).unwrap();
    let id: TaskId = root["id"].as_str().unwrap().parse().unwrap();
    let client = served.client();
    let cancelled = client.cancel_tree(id).await.unwrap();
    assert_eq!((cancelled.cancelled, cancelled.complete), (2, true));
    let ended = client.wait(id, LIMIT).await.unwrap();
    assert_eq!(ended.tree_state, Some(TreeState::Cancelled));
    let tree = client.tree(id, Some(0)).await.unwrap();
    assert_eq!(tree.nodes[0].children["cancelled"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_report_of_the_page_of_joins_waits_for_both() {
    let served = Served::start();
    let begin = served.here(block_of(include_str!("../docs/joins.md"), "join"));
    let answered = shell(&begin).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    let report: serde_json::Value = serde_json::from_slice(&answered.stdout).unwrap();
    assert_eq!(report["state"], "waiting", "{report}");
    assert_eq!(report["after"]["ids"].as_array().unwrap().len(), 2);
    let client = served.client();
    for (callback, tasks) in [("collect", 2), ("report", 1)] {
        let poll = PollRequest {
            worker: "w1".to_owned(),
            callbacks: vec![callback.to_owned()],
            max_tasks: Some(2),
            ..PollRequest::default()
        };
        let mut ran = 0;
        while ran < tasks {
            let polled = client.poll(&poll, LIMIT).await.unwrap();
            assert!(!polled.tasks.is_empty(), "{callback} is not due");
            ran += polled.tasks.len();
            let items = polled.tasks.iter().map(|task| {
                let item = serde_json::json!({
                    "id": task.id, "attempt": task.attempt, "outcome": "succeeded",
                });
                serde_json::from_str(&item.to_string()).unwrap()
            });
            let report = SettleRequest {
                worker: "w1".to_owned(),
                tasks: items.collect(),
            };
            client.settle(&report).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chain_of_the_page_of_chains_goes_on_with_the_result() {
    let served = Served::start();
    let begin = served.here(block_of(include_str!("../docs/chains.md"), "chain"));
    let answered = shell(&begin).output().unwrap();
    assert!(answered.status.success(), "{answered:?}");
    let client = served.client();
    let mut poll = PollRequest {
        worker: "w1".to_owned(),
        ..PollRequest::default()
    };
    for (callback, result) in [
        ("fetch", serde_json::json!({"rows": 7})),
        ("load", 1.into()),
    ] {
        poll.callbacks = vec![callback.to_owned()];
        let polled = client.poll(&poll, LIMIT).await.unwrap();
        let task = &polled.tasks[0];
        let previous = task.previous.as_ref();
        assert_eq!(previous.is_some(), callback == "load", "{previous:?}");
        let text = previous.and_then(|previous| Some(previous.result.as_ref()?.get()));
        assert_eq!(text.is_some(), callback == "load", "{text:?}");
        let item = serde_json::json!({
            "id": task.id, "attempt": task.attempt, "outcome": "succeeded", "result": result,
        });
        let item = serde_json::from_str(&item.to_string()).unwrap();
        let report = SettleRequest {
            worker: "w1".to_owned(),
            tasks: vec![item],
        };
        client.settle(&report).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_report_of_the_page_of_results_returns_bytes() {
    let served = Served::start();
    let client = served.client();
    let id = client.register(Task::callback("greet")).await.unwrap().id;
    let poll = PollRequest {
        worker: "w1".to_owned(),
        callbacks: vec!["greet".to_owned()],
        ..PollRequest::default()
    };
    let polled = client.poll(&poll, LIMIT).await.unwrap();
    let report = served.here(block_of(include_str!("../docs/results.md"), "result"));
    let attempt = polled.tasks[0].attempt.to_string();
    let answered = shell(&report)
        .env("TASK_ID", id.to_string())
        .env("ATTEMPT", attempt)
        .output()
        .unwrap();
    assert!(answered.status.success(), "{answered:?}");
    let task = client.wait(id, LIMIT).await.unwrap();
    assert_eq!(task.state, TaskState::Succeeded, "{answered:?}");
    assert_eq!(task.result_base64.as_deref(), Some("aGVsbG8="));
    assert_eq!(task.result_content_type.as_deref(), Some("text/plain"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_in_rust_is_an_example_that_runs() {
    let example = include_str!("../examples/hello.rs");
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        plain(example).contains(&plain(block("rust"))),
        "examples/hello.rs is not what the README shows"
    );
    let served = Served::start();
    let built = Path::new(env!("CARGO_BIN_EXE_tickwheel")).with_file_name("examples");
    let mut worker = Running(
        Command::new(built.join("hello"))
            .env("TICKWHEEL_SERVER", format!("http://{}", served.address))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example is built: cargo build --example hello"),
    );
    let out = BufReader::new(worker.0.stdout.take().unwrap());
    let line = out.lines().next().unwrap().unwrap();
    assert_eq!(line, "hello Ada, attempt 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_without_a_kafka_is_refused_in_words() {
    let served = Served::start();
    let refused = served.client().register(Task::kafka("reminders")).await;
    assert!(refused.unwrap_err().to_string().contains("--kafka"));
}

#[test]
fn the_demo_shows_five_tasks_and_stops() {
    let root = env!("CARGO_MANIFEST_DIR");
    let ran = Command::new(format!("{root}/examples/demo.sh"))
        .arg(env!("CARGO_BIN_EXE_tickwheel"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(text.matches(" ms  succeeded").count(), 5, "{text}");
}
