//! This conversion shows a tree of tasks as data, as text for Mermaid and Graphviz, or as a picture.
//!
//! A write to a text in memory never fails.

use std::fmt::Write as _;

use super::task_view::{add_result, tree_state};
use crate::{
    api::{
        tree::{TreeNodeResponse, TreeResponse},
        worker::View,
    },
    flow::{base::api::VisibleState, stages::tree::read::Node},
    model::result::Bounded,
};

/// Width of a level of the picture, in pixels.
const INDENT: usize = 24;
/// Height of its lines, in pixels.
const LINE: usize = 26;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Format {
    Json,
    Mermaid,
    Dot,
    Svg,
}

impl Format {
    /// The names of all.
    pub(in crate::http) const NAMES: [&str; 4] = ["json", "mermaid", "dot", "svg"];

    /// Reads a name.
    pub(in crate::http) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "json" => Self::Json,
            "mermaid" => Self::Mermaid,
            "dot" => Self::Dot,
            "svg" => Self::Svg,
            _ => return None,
        })
    }
}

/// Converts a tree. The full view has results.
pub(in crate::http) fn response(nodes: &[Node], view: View) -> TreeResponse {
    let mut bounded = Bounded::default();
    let with_result = |(node, mut shown): (&Node, TreeNodeResponse)| {
        if let Some(result) = node.task.result.as_ref().filter(|_| view == View::Full) {
            add_result(&mut shown, &bounded.shown(result));
        }
        shown
    };
    let node = |node: &Node| TreeNodeResponse {
        id: node.task.id.to_string(),
        parent: node.task.spec.parent().map(|parent| parent.to_string()),
        callback: node.task.spec.callback().map(str::to_owned),
        state: node.task.state.into(),
        tree_state: Some(tree_state(&node.task)),
        start_time: node.task.start.into(),
        end_time: node.task.end_time.map(Into::into),
        error: node.task.error.clone(),
        result: None,
        result_base64: None,
        result_content_type: None,
        result_bytes: None,
        children: counts(node).collect(),
        cut: node.cut,
    };
    TreeResponse {
        nodes: nodes
            .iter()
            .map(|one| (one, node(one)))
            .map(with_result)
            .collect(),
    }
}

fn counts(node: &Node) -> impl Iterator<Item = (String, u64)> + '_ {
    let counts = node.children.iter();
    counts.map(|(state, count)| ((*state).to_owned(), *count))
}

/// Returns the words about a task: its callback, its state, and its children by state.
fn words(node: &Node) -> [String; 2] {
    let name = node.task.spec.callback().unwrap_or("task");
    let mut state = node.task.state.name().to_owned();
    if let Some(tree) = node.task.tree {
        write!(state, ", {}", tree.outcome.name()).unwrap_or_default();
    }
    if node.cut {
        let counts: Vec<String> = counts(node)
            .map(|(state, count)| format!("{count} {state}"))
            .collect();
        write!(state, " ({})", counts.join(", ")).unwrap_or_default();
    }
    [plain(name), state]
}

/// Names of hosts and callbacks have no characters that mean something in these forms, but those who read must not depend on it.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " ._-:,()".contains(c);
    text.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

const fn colour(state: VisibleState) -> &'static str {
    match state {
        VisibleState::Succeeded | VisibleState::Published => "#cdeccd",
        VisibleState::Failed | VisibleState::Dead | VisibleState::Expired => "#f6c9c9",
        VisibleState::Cancelled => "#dddddd",
        VisibleState::Claimed | VisibleState::Processing | VisibleState::Retrying => "#cfe2f7",
        VisibleState::Scheduled
        | VisibleState::Enqueued
        | VisibleState::Waiting
        | VisibleState::WaitingForChildren => "#fdf3c7",
    }
}

/// Writes a tree as a Mermaid flowchart.
pub(in crate::http) fn mermaid(nodes: &[Node]) -> String {
    let mut text = "flowchart TD\n".to_owned();
    for (place, node) in nodes.iter().enumerate() {
        let [name, state] = words(node);
        let colour = colour(node.task.state);
        writeln!(text, "  n{place}[\"{name}<br/>{state}\"]").unwrap_or_default();
        writeln!(text, "  style n{place} fill:{colour}").unwrap_or_default();
        if let Some(above) = node.above {
            writeln!(text, "  n{above} --> n{place}").unwrap_or_default();
        }
    }
    text
}

/// Writes a tree as a graph for Graphviz.
pub(in crate::http) fn dot(nodes: &[Node]) -> String {
    let mut text =
        "digraph tree {\n  node [shape=box style=\"rounded,filled\" fontname=sans];\n".to_owned();
    for (place, node) in nodes.iter().enumerate() {
        let [name, state] = words(node);
        let (colour, id) = (colour(node.task.state), node.task.id);
        writeln!(
            text,
            "  n{place} [label=\"{name}\\n{state}\" fillcolor=\"{colour}\" tooltip=\"{id}\"];"
        )
        .unwrap_or_default();
        if let Some(above) = node.above {
            writeln!(text, "  n{above} -> n{place};").unwrap_or_default();
        }
    }
    text.push_str("}\n");
    text
}

/// Draws a tree as a list in which children are indented below their parents.
pub(in crate::http) fn svg(nodes: &[Node]) -> String {
    let lines = lines(nodes);
    let level_max = lines.iter().map(|(_, level)| *level).max().unwrap_or(0);
    let (width, height) = (level_max * INDENT + 560, lines.len() * LINE + 8);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    let mut drawn = vec![0; nodes.len()];
    for (line, (place, level)) in lines.into_iter().enumerate() {
        let Some(node) = nodes.get(place) else {
            continue;
        };
        let (x, y) = (level * INDENT + 4, line * LINE + 4);
        if let Some(at) = drawn.get_mut(place) {
            *at = y;
        }
        if let Some(above) = node.above.and_then(|above| drawn.get(above)) {
            let (left, top, middle) = (x - INDENT / 2, above + LINE - 4, y + LINE / 2 - 2);
            writeln!(
                text,
                "<path d=\"M{left} {top}V{middle}H{x}\" fill=\"none\" stroke=\"#888\"/>"
            )
            .unwrap_or_default();
        }
        let ([name, state], colour, id) = (words(node), colour(node.task.state), node.task.id);
        let (row, base) = (LINE - 4, y + 16);
        writeln!(
            text,
            "<g><title>{id}</title><rect x=\"{x}\" y=\"{y}\" width=\"520\" height=\"{row}\" rx=\"4\" fill=\"{colour}\"/><text x=\"{}\" y=\"{base}\">{name}: {state}</text></g>",
            x + 6
        ).unwrap_or_default();
    }
    text.push_str("</svg>\n");
    text
}

/// Returns the places of the nodes with their levels, each parent right before its children.
fn lines(nodes: &[Node]) -> Vec<(usize, usize)> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        if let Some(children) = node.above.and_then(|above| below.get_mut(above)) {
            children.push(place);
        }
    }
    let mut open = vec![(0, 0)];
    let mut lines = Vec::with_capacity(nodes.len());
    while let Some((place, level)) = open.pop() {
        lines.push((place, level));
        let children = below.get(place).into_iter().flatten().rev();
        open.extend(children.map(|child| (*child, level + 1)));
    }
    lines
}
