//! The rule that the row of a task changes through the door alone: who changes a row also pays what the change owes.

use super::{Source, code, fail_if_any, is_code, is_test, rust, sources};

/// The one file of the flow that writes rows, which is private to the door.
const WRITER: &str = "src/flow/life/door/writer.rs";

#[test]
fn only_the_door_writes_rows() {
    let checked = sources(|path| path.starts_with("src/flow/") && rust(path) && !is_test(path));
    let (writers, others): (Vec<Source>, Vec<Source>) = checked
        .into_iter()
        .partition(|source| source.path == WRITER);
    assert_eq!(
        writers.iter().flat_map(writes).count(),
        1,
        "{WRITER} writes rows"
    );
    fail_if_any(&others.iter().flat_map(writes).collect::<Vec<_>>());
}

fn writes(Source { path, text }: &Source) -> Vec<String> {
    let lines = code(text).filter(is_code);
    let lines = lines.filter(|(_, line)| line.contains(".swap_tasks("));
    lines
        .map(|(number, _)| format!("{path}:{number}: change a row by `Door::apply`"))
        .collect()
}

#[test]
fn writes_of_rows_are_found() {
    let found = |text: &str| {
        let (path, text) = ("a.rs".to_owned(), text.to_owned());
        writes(&Source { path, text }).len()
    };
    assert_eq!(found("    let a = ctx.store.swap_tasks(&one).await;"), 1);
    assert_eq!(
        found("    // As store.swap_tasks(&one) does.\n    door.apply(id);"),
        0
    );
}
