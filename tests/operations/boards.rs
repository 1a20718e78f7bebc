//! The boards for Grafana ask for metrics that exist, and have panels that can be told apart.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{query, read, registered};

const BOARDS: [&str; 2] = [
    "deploy/grafana/service.json",
    "deploy/grafana/callbacks.json",
];

#[test]
fn boards_ask_for_metrics_that_exist() {
    let known = registered();
    for path in BOARDS {
        let board: Value = serde_json::from_str(&read(path)).expect("a board is JSON");
        let variables = board["templating"]["list"].as_array().expect("variables");
        let variables: Vec<&str> = variables
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
        for panel in board["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a panel has a title");
            assert!(
                ids.insert(panel["id"].as_u64()),
                "{path}: {title}: its id is another's"
            );
            assert!(
                titles.insert(title),
                "{path}: two panels are called {title}"
            );
            if panel["type"] == "row" {
                continue;
            }
            let targets = panel["targets"].as_array().expect("queries");
            assert!(!targets.is_empty(), "{path}: {title}");
            for target in targets {
                let text = target["expr"].as_str().expect("a query");
                let faults = query::faults(text, &known);
                assert!(faults.is_empty(), "{path}: {title}: {faults:?}\n{text}");
                let used = text
                    .split("\"$")
                    .skip(1)
                    .filter_map(|rest| rest.split('"').next());
                for variable in used {
                    assert!(
                        variables.contains(&variable),
                        "{path}: {title}: no variable {variable}"
                    );
                }
            }
        }
        let asked = board["templating"]["list"]
            .as_array()
            .expect("variables")
            .iter();
        for definition in asked.filter_map(|one| one["definition"].as_str()) {
            let faults = query::faults(definition, &known);
            assert!(faults.is_empty(), "{path}: {definition}: {faults:?}");
        }
    }
}
