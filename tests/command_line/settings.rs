//! The program explains its settings to people, and its words to shells.

use super::{err, json_lines, out, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_explained_and_shells_are_taught() {
    let explained = run("", &["config", "explain", "--data-dir"], "").await;
    let text = out(&explained);
    for words in [
        "Directory of the embedded store",
        "TICKWHEEL_DATA_DIR",
        "from         default",
        "\"tickwheel-data\"",
    ] {
        assert!(text.contains(words), "{words}: {text} {}", err(&explained));
    }
    let all = run("", &["config", "explain", "-o", "jsonl"], "").await;
    assert!(json_lines(&out(&all)).len() > 15);
    let wrong = run("", &["config", "explain", "data"], "").await;
    assert!(err(&wrong).contains("did you mean data_dir?") && wrong.status.code() == Some(2));
    for (shell, words) in [
        ("bash", "complete -F _tickwheel"),
        ("zsh", "#compdef tickwheel"),
        ("fish", "complete -c tickwheel"),
    ] {
        let script = out(&run("", &["completions", shell], "").await);
        assert!(script.contains(words), "{shell}");
    }
}
