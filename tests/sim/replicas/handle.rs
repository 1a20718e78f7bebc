//! `Handle` is one node's store: every call passes the faults between this node and the replicas.

use std::{collections::BTreeMap, fmt, future::pending, iter, sync::Arc, time::Duration};

use tickwheel::{
    limits::GROUP_ROWS_MAX,
    model::state::{Expect, Transition},
    store::{Error, Swapped},
    time_source::TimeSource,
};

use super::{
    Replicas,
    cluster::{Cluster, Who},
    faults::SwapFate,
    read::View,
    round::Partition,
    tables::Write,
};

/// A node's handle. Its time source stamps the writes that a node makes with its own clock.
pub(crate) struct Handle {
    pub(super) replicas: Arc<Replicas>,
    pub(super) node: usize,
    pub(super) time: TimeSource,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.node)
    }
}

/// How a read begins.
enum Begun<T> {
    Never,
    Failed(Duration, &'static str),
    /// The read sees the rows of its beginning.
    Early(Duration, T),
    /// The read sees the rows of its end.
    Late(Duration),
}

/// Conditional writes that are judged together.
struct Group {
    partition: Partition,
    members: Vec<usize>,
    fate: SwapFate,
}

/// The state of a conditional write that has been sent.
struct Swapping {
    wait: Duration,
    answers: Vec<Result<Swapped<Expect>, Error>>,
    /// The groups that are decided when the wait is over.
    late: Vec<Group>,
}

impl Handle {
    /// Returns the number by which the controls name this node.
    pub(crate) const fn node(&self) -> usize {
        self.node
    }

    /// Waits for an answer. A killed node never gets one.
    pub(super) async fn wait(&self, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        self.replicas.time.sleep(wait).await;
        if self.replicas.lock().is_killed(self.node) {
            pending::<()>().await;
        }
    }

    /// Sends plain writes, each with the number of items that it answers for.
    pub(super) async fn write(
        &self,
        operation: &'static str,
        writes: impl Iterator<Item = (usize, Write)>,
    ) -> Vec<Result<(), Error>> {
        // The writes are dropped before the wait, so a caller's iterator need not be sendable.
        let Some((wait, answers)) = self.send(operation, writes) else {
            return pending().await;
        };
        self.wait(wait).await;
        answers
    }

    /// Sends plain writes that are answered for as one.
    pub(super) async fn write_all(
        &self,
        operation: &'static str,
        writes: impl Iterator<Item = Write>,
    ) -> Result<(), Error> {
        let Some((wait, answers)) = self.send(operation, writes.map(|write| (1, write))) else {
            return pending().await;
        };
        self.wait(wait).await;
        answers.into_iter().collect()
    }

    fn send(
        &self,
        operation: &'static str,
        writes: impl Iterator<Item = (usize, Write)>,
    ) -> Option<(Duration, Vec<Result<(), Error>>)> {
        let mut cluster = self.replicas.lock();
        if cluster.is_killed(self.node) {
            return None;
        }
        let (mut wait, mut answers) = (Duration::ZERO, Vec::new());
        for (items, write) in writes {
            let sent = cluster.send(self.node, operation, write);
            wait = wait.max(sent.wait);
            let answer = sent.answer.map_err(|why| unavailable(operation, why));
            answers.extend(iter::repeat_n(answer, items));
        }
        Some((wait, answers))
    }

    /// Reads; the trace gets the number of rows that were read.
    pub(super) async fn read<T>(
        &self,
        operation: &'static str,
        act: impl Fn(&mut Cluster, View) -> T,
    ) -> Result<T, Error> {
        match self.begin_read(operation, &act) {
            Begun::Never => pending().await,
            Begun::Failed(wait, why) => {
                self.wait(wait).await;
                Err(unavailable(operation, why))
            }
            Begun::Early(wait, value) => {
                self.wait(wait).await;
                Ok(value)
            }
            Begun::Late(wait) => {
                self.wait(wait).await;
                let mut cluster = self.replicas.lock();
                Ok(self.see(&mut cluster, operation, &act))
            }
        }
    }

    fn see<T>(
        &self,
        cluster: &mut Cluster,
        operation: &str,
        act: impl Fn(&mut Cluster, View) -> T,
    ) -> T {
        let view = cluster.view(self.node);
        let value = act(cluster, view);
        let of = view.of;
        cluster.note(
            Who::Node(self.node),
            format_args!("{operation} answered by {of}"),
        );
        value
    }

    fn begin_read<T>(
        &self,
        operation: &'static str,
        act: impl Fn(&mut Cluster, View) -> T,
    ) -> Begun<T> {
        let mut cluster = self.replicas.lock();
        if cluster.is_killed(self.node) {
            return Begun::Never;
        }
        if cluster.is_calm() {
            return Begun::Early(Duration::ZERO, self.see(&mut cluster, operation, act));
        }
        if !cluster.reach(self.node).is_quorum() {
            return Begun::Failed(cluster.unavailability(self.node), "no quorum");
        }
        let fail = cluster.faults.reads_fail;
        if cluster.dice.hits(fail) {
            cluster.note(Who::Node(self.node), format_args!("{operation} fails"));
            let refused = cluster.dice.coin();
            let patience = cluster.faults.patience;
            let wait = if refused { cluster.refusal() } else { patience };
            return Begun::Failed(wait, "it failed");
        }
        let wait = cluster.quorum_trip(self.node, operation);
        if wait.is_zero() || cluster.dice.coin() {
            Begun::Early(wait, self.see(&mut cluster, operation, act))
        } else {
            Begun::Late(wait)
        }
    }

    /// Sends a conditional write of one partition; `act` is its round.
    pub(super) async fn swap<T>(
        &self,
        operation: &'static str,
        act: impl Fn(&mut Cluster, SwapFate) -> T,
    ) -> Result<T, Error> {
        let begun = {
            let mut cluster = self.replicas.lock();
            if cluster.is_killed(self.node) {
                None
            } else {
                let (fate, wait, late) = cluster.begin_swap(self.node, operation);
                let failed = fate == SwapFate::Fails;
                let value = (!late && !failed).then(|| act(&mut cluster, fate));
                Some((fate, wait, value))
            }
        };
        let Some((fate, wait, value)) = begun else {
            return pending().await;
        };
        self.wait(wait).await;
        if fate == SwapFate::Fails {
            return Err(unavailable(operation, "it was not sent"));
        }
        Ok(value.unwrap_or_else(|| act(&mut self.replicas.lock(), fate)))
    }

    /// Sends conditional writes of tasks, those of one partition together.
    pub(super) async fn swap_all(
        &self,
        transitions: &[Transition],
    ) -> Vec<Result<Swapped<Expect>, Error>> {
        let Some(swapping) = self.begin_swap_all(transitions) else {
            return pending().await;
        };
        let Swapping {
            wait,
            mut answers,
            late,
        } = swapping;
        self.wait(wait).await;
        if !late.is_empty() {
            let mut cluster = self.replicas.lock();
            for group in late {
                self.decide(&mut cluster, transitions, &group, &mut answers);
            }
        }
        answers
    }

    fn begin_swap_all(&self, transitions: &[Transition]) -> Option<Swapping> {
        let operation = "swap_tasks";
        let mut cluster = self.replicas.lock();
        if cluster.is_killed(self.node) {
            return None;
        }
        let mut swapping = Swapping {
            wait: Duration::ZERO,
            answers: vec![Ok(Swapped::Unknown); transitions.len()],
            late: Vec::new(),
        };
        for (partition, members) in groups(&cluster, transitions) {
            // The groups follow each other; once one is only decided later, so are those behind it.
            let mut spent = Duration::ZERO;
            let mut behind = false;
            for members in members.chunks(GROUP_ROWS_MAX) {
                let (fate, wait, late) = cluster.begin_swap(self.node, operation);
                spent += wait;
                behind |= late;
                let group = Group {
                    partition: partition.clone(),
                    members: members.to_vec(),
                    fate,
                };
                if behind {
                    swapping.late.push(group);
                } else {
                    self.decide(&mut cluster, transitions, &group, &mut swapping.answers);
                }
            }
            swapping.wait = swapping.wait.max(spent);
        }
        Some(swapping)
    }

    fn decide(
        &self,
        cluster: &mut Cluster,
        transitions: &[Transition],
        group: &Group,
        answers: &mut [Result<Swapped<Expect>, Error>],
    ) {
        let fate = group.fate;
        let picked: Vec<&Transition> = group.members.iter().map(|at| &transitions[*at]).collect();
        if fate == SwapFate::Fails {
            for at in &group.members {
                answers[*at] = Err(unavailable("swap_tasks", "it was not sent"));
            }
        } else {
            let swapped = cluster.swap_tasks(self.node, &group.partition, &picked, fate);
            for (at, swapped) in group.members.iter().zip(swapped) {
                answers[*at] = Ok(swapped);
            }
        }
        for (at, one) in group.members.iter().zip(&picked) {
            let (id, answer) = (one.row.id, &answers[*at]);
            cluster.note(
                Who::Node(self.node),
                format_args!(
                    "swap_tasks {id} to {:?} {} {fate:?}: {answer:?}",
                    one.row.state, one.row.attempt
                ),
            );
        }
    }
}

fn groups(cluster: &Cluster, transitions: &[Transition]) -> BTreeMap<Partition, Vec<usize>> {
    let mut groups: BTreeMap<Partition, Vec<usize>> = BTreeMap::new();
    for (index, transition) in transitions.iter().enumerate() {
        let partition = cluster.home(transition.row.id);
        groups.entry(partition).or_default().push(index);
    }
    groups
}

pub(super) fn unavailable(operation: &'static str, reason: &str) -> Error {
    Error::Unavailable {
        operation,
        reason: reason.to_owned(),
    }
}
