//! The alert rules ask for metrics that exist, have a section of the runbook each, and a test for promtool (`tests/alerts`).

use super::{query, read, registered};

const RULES: &str = "deploy/prometheus/alerts.yml";

/// A rule: its name, its expression, and the rest of it.
fn rules(text: &str) -> Vec<(String, String, String)> {
    let rules = text.split("- alert: ").skip(1);
    let rule = |text: &str| {
        let (name, rest) = text.split_once('\n').expect("a rule has lines");
        let (_, rest) = rest
            .split_once("expr: |\n")
            .expect("a rule has an expression");
        let lines = rest
            .lines()
            .take_while(|line| line.starts_with("          "));
        let expression: Vec<&str> = lines.map(str::trim).collect();
        (name.to_owned(), expression.join("\n"), rest.to_owned())
    };
    rules.map(rule).collect()
}

#[test]
fn rules_ask_for_metrics_that_exist() {
    let known = registered();
    let rules = rules(&read(RULES));
    assert!(rules.len() > 20, "the rules are read");
    for (name, expression, _) in rules {
        let faults = query::faults(&expression, &known);
        assert!(faults.is_empty(), "{name}: {faults:?}\n{expression}");
    }
}

#[test]
fn every_alert_has_a_section_of_the_runbook_and_a_test() {
    let (runbook, tests) = (
        read("docs/runbook.md"),
        read("deploy/prometheus/alerts.test.yml"),
    );
    let rules = rules(&read(RULES));
    for (name, _, rest) in &rules {
        let section = runbook
            .split("\n## ")
            .find(|section| section.lines().next() == Some(name));
        let section = section.unwrap_or_else(|| panic!("docs/runbook.md has no section {name}"));
        assert!(
            section.contains("```sh\n"),
            "the section {name} has no command"
        );
        let link = format!("runbook_url: docs/runbook.md#{}\n", name.to_lowercase());
        assert!(rest.contains(&link), "{name} has no {link}");
        let fires = format!("{{alertname=\"{name}\"}}");
        assert!(tests.contains(&fires), "no test makes {name} fire");
    }
    let sections = runbook.lines().filter_map(|line| line.strip_prefix("## "));
    for section in sections {
        let is_alert = rules.iter().any(|(name, ..)| name == section);
        assert!(is_alert, "docs/runbook.md: there is no alert {section}");
    }
}

#[test]
fn the_page_of_metrics_names_alerts_that_exist() {
    let (page, rules) = (read("docs/metrics.md"), rules(&read(RULES)));
    let named = page.split('`').filter(|word| word.starts_with("Tickwheel"));
    for alert in named {
        assert!(
            rules.iter().any(|(name, ..)| name == alert),
            "there is no alert {alert}"
        );
    }
}
