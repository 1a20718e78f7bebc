//! The command `tickwheel task tree` shows a task with all below it to the user.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use clap::Args;

use super::{ClientArgs, Exit, Failure, Format, output::printable};
use crate::{
    api::text::shorten,
    client::{TreeNodeResponse, TreeResponse, TreeState},
    model::ids::TaskId,
};

pub(super) const EXAMPLES: &str = "Examples:
  tickwheel task tree 0198c2a4-7c51-8003-a1b2-c3d4e5f60718
  tickwheel task tree 0198c2a4-7c51-8003-a1b2-c3d4e5f60718 --depth 1 -o json";

/// The tree to show.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// The id of its root, as printed by `task register`.
    id: TaskId,
    /// Show so many levels below it; all by default.
    #[arg(long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Show the results of its tasks, too: those of up to 4 KiB, 256 KiB of them in all.
    #[arg(long)]
    results: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command {
        id,
        depth,
        results,
        client: of,
    } = command;
    let client = of.connect()?;
    let tree = if results {
        client.tree_with_results(id, depth).await?
    } else {
        client.tree(id, depth).await?
    };
    print(&mut io::stdout().lock(), of.print.output, &tree)?;
    Ok(Exit::Ok)
}

fn print(out: &mut impl Write, format: Format, tree: &TreeResponse) -> io::Result<()> {
    match format {
        Format::Table => write(out, tree),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, tree)?;
            writeln!(out)
        }
        Format::Jsonl => {
            for node in &tree.nodes {
                serde_json::to_writer(&mut *out, node)?;
                writeln!(out)?;
            }
            Ok(())
        }
    }
}

/// Writes one line for each task, each parent right before its children.
fn write(out: &mut impl Write, tree: &TreeResponse) -> io::Result<()> {
    let Some(root) = tree.nodes.first() else {
        return Ok(());
    };
    let mut below: HashMap<&str, Vec<&TreeNodeResponse>> = HashMap::new();
    for node in tree.nodes.iter().skip(1) {
        let parent = node.parent.as_deref().unwrap_or_default();
        below.entry(parent).or_default().push(node);
    }
    let mut open = vec![(root, 0)];
    while let Some((node, level)) = open.pop() {
        line(out, node, level)?;
        let children = below.get(node.id.as_str()).into_iter().flatten().rev();
        open.extend(children.map(|child| (*child, level + 1)));
    }
    Ok(())
}

fn line(out: &mut impl Write, node: &TreeNodeResponse, level: usize) -> io::Result<()> {
    let indent = "  ".repeat(level);
    let name = node.callback.as_deref().unwrap_or("task");
    let told = format!("{}  {name}  {}", node.id, node.state);
    write!(out, "{indent}{}", printable(&told))?;
    if let Some(tree) = node
        .tree_state
        .filter(|tree| *tree != TreeState::None && tree.name() != node.state.name())
    {
        write!(out, ", tree {}", tree.name())?;
    }
    if node.cut {
        let counts = node.children.iter();
        let counts: Vec<String> = counts
            .map(|(state, count)| format!("{count} {state}"))
            .collect();
        write!(out, "  ({} below)", counts.join(", "))?;
    }
    if let Some(result) = &node.result {
        write!(out, "  {}", printable(&shorten(result.get())))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn children_are_indented_below_their_parents() {
        let node = |id: &str, parent: Option<&str>, state: &str| {
            json!({"id": id, "parent": parent, "callback": "mail", "state": state,
                "start_time": "2030-01-01T00:00:00Z"})
        };
        let mut nodes = vec![
            node("a", None, "waiting_for_children"),
            node("b", Some("a"), "succeeded"),
            node("c", Some("a"), "scheduled"),
            node("d", Some("b"), "failed"),
        ];
        nodes[0]["tree_state"] = json!("waiting_for_children");
        nodes[1]["tree_state"] = json!("faulted");
        nodes[3]["children"] = json!({"open": 2});
        nodes[3]["cut"] = json!(true);
        nodes[1]["result"] = json!({"rows": 7});
        let text = json!({"nodes": nodes}).to_string();
        let tree: TreeResponse = serde_json::from_str(&text).unwrap();
        let mut out = Vec::new();
        write(&mut out, &tree).unwrap();
        let expected = "a  mail  waiting_for_children
  b  mail  succeeded, tree faulted  {\"rows\":7}
    d  mail  failed  (2 open below)
  c  mail  scheduled
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
