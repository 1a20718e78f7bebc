//! An export says which parts of tasks it leaves out.

use std::time::Duration;

use tickwheel::client::{After, Client, EndState, FollowUp, Task};

use super::{Site, err, json_lines, out, run};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_warns_of_trees_and_of_tasks_that_follow_others_or_wait_for_them() {
    let site = Site::start().await;
    let client = Client::connect(&site.url).unwrap();
    let plain = Task::callback("plain").delay(HOUR);
    let plain = client.register(plain).await.unwrap().id;
    let export = ["task", "export", "--to", "2h"];
    let exported = run(&site.url, &export, "").await;
    assert_eq!(json_lines(&out(&exported)).len(), 1);
    assert!(!err(&exported).contains("warning"), "{}", err(&exported));

    let child = || Task::callback("child").delay(HOUR);
    let root = Task::callback("root").delay(HOUR);
    let root = root.child(child()).child(child().after_parent());
    client.register(root).await.unwrap();
    let next = FollowUp::from(Task::callback("next").delay(HOUR)).at([EndState::Cancelled]);
    let first = Task::callback("first").delay(HOUR).then(next);
    let first = client.register(first).await.unwrap().id;
    client.cancel(first).await.unwrap();
    let waiter = Task::callback("waiter").after(After::all_ended([plain]));
    client.register(waiter).await.unwrap();
    let exported = run(&site.url, &export, "").await;
    let warnings = err(&exported);
    assert!(exported.status.success(), "{warnings}");
    let mut callbacks: Vec<String> = json_lines(&out(&exported))
        .iter()
        .map(|line| line["callback"].as_str().unwrap().to_owned())
        .collect();
    callbacks.sort();
    assert_eq!(callbacks, ["child", "next", "plain", "root"], "{warnings}");
    assert!(
        warnings.contains("warning: tasks of trees: 2; each is exported by itself"),
        "{warnings}"
    );
    assert!(
        warnings.contains("warning: tasks that follow another one: 1;"),
        "{warnings}"
    );
    assert!(
        warnings.contains("warning: tasks that wait for others: 1;"),
        "{warnings}"
    );
}
