//! The table shows what each fault did to the tasks around it.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    history::{History, Run, Task},
    lateness::{calm, lateness, permille, recovered_ms},
    records,
    runs::lost_claims,
    sick, waits,
};

fn seconds(ms: i64) -> String {
    format!("{:.1}", ms as f64 / 1000.0)
}

/// Everything that is measured.
pub(super) fn of(history: &History) -> String {
    let mut text = String::from(
        "\n| fault | lasted s | up again s | tasks due | late p50 ms | p99 | p99.9 | max | ran again | lost claims | recovered after s |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let (from, to) = calm(history);
    row(&mut text, history, "none", from, to, ["", "", ""]);
    for (index, fault) in history.faults.iter().enumerate() {
        let lasted = seconds(fault.mended - fault.from);
        let up = seconds(fault.healed - fault.mended);
        let recovered = seconds(recovered_ms(history, fault));
        let until = history.until(index);
        let of_fault = [lasted.as_str(), up.as_str(), recovered.as_str()];
        row(&mut text, history, &fault.name, fault.from, until, of_fault);
    }
    let runs: usize = history.tasks.iter().map(|task| task.runs.len()).sum();
    let told = history
        .tasks
        .iter()
        .filter(|task| task.registered.is_some());
    let lost: u64 = history.tasks.iter().map(lost_claims).sum();
    let causes: Vec<String> = causes(history)
        .into_iter()
        .map(|(cause, count)| format!("{count} {cause}"))
        .collect();
    let late = records::lateness(history);
    let at = |of: usize| permille(&late, of).unwrap_or(0);
    let known = history.records.iter().filter(|record| record.id.is_some());
    let produced: usize = history
        .records
        .iter()
        .map(|record| record.arrived.len())
        .sum();
    writeln!(
        text,
        "\n{} tasks for a topic ({} acknowledged), {produced} records: late p50 {} ms, p99 {} ms, max {} ms",
        history.records.len(),
        known.count(),
        at(500),
        at(990),
        at(1000),
    )
    .expect("a text grows");
    for compared in sick::compared(history) {
        writeln!(
            text,
            "\nall others while one broker is down, p99: {} ms beside a healthy topic, {} ms beside a sick one",
            compared.healthy_ms, compared.sick_ms,
        )
        .expect("a text grows");
    }
    let most = history.counts.iter().map(|count| count.entries).max();
    writeln!(
        text,
        "\n{} tasks ({} acknowledged), {runs} runs, {} calls without answer, {lost} claims without answer, at most {} live entries\nran again: {}\n",
        history.tasks.len(),
        told.count(),
        history.unknown,
        most.unwrap_or(0),
        if causes.is_empty() { "none".to_owned() } else { causes.join(", ") },
    )
    .expect("a text grows");
    text + &waits::table(history)
}

fn row(
    text: &mut String,
    history: &History,
    name: &str,
    from: i64,
    to: i64,
    [lasted, up, recovered]: [&str; 3],
) {
    let late = lateness(history, from, to);
    let due = |task: &&Task| (from..to).contains(&task.start);
    let again: usize = history.tasks.iter().filter(due).map(Task::extra).sum();
    let lost: u64 = history.tasks.iter().filter(due).map(lost_claims).sum();
    let at = |of: usize| permille(&late, of).map_or(String::new(), |ms| ms.to_string());
    writeln!(
        text,
        "| {name} | {lasted} | {up} | {} | {} | {} | {} | {} | {again} | {lost} | {recovered} |",
        history.tasks.iter().filter(due).count(),
        at(500),
        at(990),
        at(999),
        at(1000),
    )
    .expect("a text grows");
}

/// Why tasks ran again: the end of the run before.
fn causes(history: &History) -> BTreeMap<&'static str, usize> {
    let mut causes = BTreeMap::new();
    for pair in history.tasks.iter().flat_map(|task| task.runs.windows(2)) {
        if let Some(cause) = cause(&pair[0]) {
            *causes.entry(cause).or_default() += 1;
        }
    }
    causes
}

fn cause(before: &Run) -> Option<&'static str> {
    let how = before.end.as_ref().map(|(_, how)| how.as_str());
    let cut = before.cut.as_ref().map(|(_, did)| did.as_str());
    match (how, cut) {
        // The task asked for it.
        (Some("retry"), _) => None,
        (Some("fenced"), _) => Some("worker stopped, and fenced"),
        (_, Some("pause")) => Some("worker stopped"),
        (None, Some(_)) => Some("worker killed"),
        (Some("dropped"), _) => Some("lease lost and run dropped"),
        (Some(_), _) => Some("done, but not settled"),
        (None, None) => Some("never ended"),
    }
}
