//! The members of a node have names in their groups, by which the other nodes know whose they are.
//!
//! They are static members (KIP-345). A name is made of the node's id, which is that of one life of one process, and of a
//! number: a new feed may join while the one before it leaves. Workers are no nodes, and their members have no names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::model::ids::NodeId;

/// The beginning of a name.
const NODE: &str = "node-";

/// Characters of a UUID.
const UUID_CHARS: usize = 36;

/// The members of this process that have names. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    node: Option<NodeId>,
    groups: Arc<Mutex<BTreeMap<String, Joined>>>,
}

/// The members in one group.
#[derive(Debug, Default)]
struct Joined {
    topics: Vec<String>,
    numbers: BTreeSet<u32>,
}

/// A name that is in use until this is dropped.
#[derive(Debug)]
pub(super) struct Named {
    name: String,
    number: u32,
    group: String,
    members: Members,
}

impl Members {
    /// Returns those of a node: none yet.
    pub(super) fn of(node: NodeId) -> Self {
        Self {
            node: Some(node),
            groups: Arc::default(),
        }
    }

    /// Returns the node.
    pub(super) const fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// Gives a new member of a group a name; none without a node.
    pub(super) fn name(&self, group: &str, topics: &[String]) -> Option<Named> {
        let node = self.node?;
        let mut groups = self.groups.lock();
        let joined = groups.entry(group.to_owned()).or_default();
        joined.topics = topics.to_vec();
        let number = (0..).find(|number| !joined.numbers.contains(number))?;
        joined.numbers.insert(number);
        Some(Named {
            name: format!("{NODE}{node}.{number}"),
            number,
            group: group.to_owned(),
            members: self.clone(),
        })
    }

    /// Returns the groups that have members of this process, with their topics.
    pub(super) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let groups = self.groups.lock();
        let groups = groups.iter();
        groups
            .map(|(group, joined)| (group.clone(), joined.topics.clone()))
            .collect()
    }
}

impl Named {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let mut groups = self.members.groups.lock();
        if let Some(joined) = groups.get_mut(&self.group) {
            joined.numbers.remove(&self.number);
            if joined.numbers.is_empty() {
                groups.remove(&self.group);
            }
        }
    }
}

/// Returns the node whose member has this id at the broker, which is the name and a UUID of the broker's.
pub(super) fn node_of(id: &str) -> Option<NodeId> {
    let (node, number) = name_of(id)?.strip_prefix(NODE)?.split_once('.')?;
    number.parse::<u32>().ok()?;
    Uuid::parse_str(node).ok().map(NodeId)
}

/// Returns the name in such an id.
pub(super) fn name_of(id: &str) -> Option<&str> {
    let end = id.len().checked_sub(UUID_CHARS + 1)?;
    let (name, uuid) = id.split_at_checked(end)?;
    Uuid::parse_str(uuid.strip_prefix('-')?).ok()?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_again_when_their_members_have_gone() {
        let members = Members::of(NodeId(Uuid::from_u128(7)));
        let name = || members.name("g", &["t".to_owned()]).unwrap();
        let (first, second) = (name(), name());
        assert_ne!(first.name(), second.name());
        assert_eq!(members.groups(), [("g".to_owned(), vec!["t".to_owned()])]);
        let before = first.name().to_owned();
        drop(first);
        let third = name();
        assert_eq!(third.name(), before);
        drop((second, third));
        assert_eq!(members.groups(), []);
        assert!(Members::default().name("g", &[]).is_none());
    }

    #[test]
    fn the_node_of_a_member_is_read_from_its_id() {
        let node = NodeId(Uuid::from_u128(7));
        let name = Members::of(node).name("g", &[]).unwrap().name().to_owned();
        let id = format!("{name}-{}", Uuid::from_u128(9));
        assert_eq!(node_of(&id), Some(node));
        assert_eq!(name_of(&id), Some(&*name));
        let worker = format!("tickwheel-{}", Uuid::from_u128(9));
        for other in [&*worker, &*name, "", "-", "ä", "node-x.0"] {
            assert_eq!(node_of(other), None, "{other}");
        }
    }
}
