//! This judgement tells operators which conditions of the guarantees their Cassandra and their Kafka do not meet.
//!
//! `docs/guarantees.md` has the reason of each, and what is lost without it. A cluster of one or two servers is for trying out:
//! it cannot meet them, and is told so without being called broken.

use std::time::Duration;

use crate::{
    cli::finding::{Finding, bad, good},
    limits::TOPIC_RETENTION,
    model::time::{Millis, whole_millis},
    queue::kafka::{conditions as kafka, conditions::TopicState},
    store::cassandra::{conditions as cassandra, conditions::Repaired},
};

/// Copies of each row and of each record.
const COPIES: usize = 3;

/// Copies that must have a record.
const IN_SYNC_MIN: usize = 2;

/// Longest time between two repairs of all tables.
const REPAIR_EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Topics that a finding names.
const NAMED_MAX: usize = 3;

/// Judges the servers of the store.
pub(super) fn of_store(found: &cassandra::Conditions, keyspace: &str, now: Millis) -> Vec<Finding> {
    vec![replication(found, keyspace), repairs(found, keyspace, now)]
}

fn replication(found: &cassandra::Conditions, keyspace: &str) -> Finding {
    const ABOUT: &str = "replication";
    let (servers, least) = (found.servers, found.copies.values().min());
    match least.copied() {
        None => bad(ABOUT, format!("keyspace {keyspace} names no copies")),
        Some(copies) if copies >= COPIES => good(ABOUT, format!("{copies} copies of each row")),
        Some(copies) if servers < COPIES => good(
            ABOUT,
            format!("{copies} of each row on {servers}: for trying out, as no server may be away"),
        ),
        Some(copies) => bad(
            ABOUT,
            format!(
                "{copies} of each row on {servers} servers: rows are away with a server, and lost with its disk. Set {COPIES} \
                 with ALTER KEYSPACE, then run `nodetool repair -full {keyspace}`"
            ),
        ),
    }
}

fn repairs(found: &cassandra::Conditions, keyspace: &str, now: Millis) -> Finding {
    const ABOUT: &str = "repairs";
    let days = REPAIR_EVERY.as_secs() / 86_400;
    let wanted = format!("run `nodetool repair {keyspace}` on each server every {days} days");
    match &found.repaired {
        _ if found.servers == 1 => good(ABOUT, "one server needs none"),
        Repaired::Unknown => good(
            ABOUT,
            format!(
                "these servers do not tell: make sure that all tables are repaired every {days} days"
            ),
        ),
        Repaired::Unreadable(reason) => bad(
            ABOUT,
            format!("they cannot be read: {reason}: GRANT SELECT ON KEYSPACE system_distributed"),
        ),
        Repaired::Never => bad(ABOUT, format!("none is known: {wanted}")),
        Repaired::At(at) if now.since(*at) > REPAIR_EVERY => {
            let ago = now.since(*at).as_secs() / 86_400;
            bad(
                ABOUT,
                format!("the last one was finished {ago} days ago: {wanted}"),
            )
        }
        Repaired::At(at) => {
            let ago = now.since(*at).as_secs() / 3600;
            good(ABOUT, format!("the last one was finished {ago} h ago"))
        }
    }
}

/// The faults that a topic can have.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Too few copies.
    Thin,
    /// A copy that lacks records may lead.
    Unclean,
    /// Messages outlive the rows of their tasks.
    KeepsLong,
    /// Its settings cannot be read.
    Unknown,
}

impl Fault {
    const ALL: [Self; 4] = [Self::Thin, Self::Unclean, Self::KeepsLong, Self::Unknown];

    fn is_of(self, topic: &TopicState, brokers: usize) -> bool {
        match self {
            Self::Thin => {
                let few_in_sync = topic.in_sync_min.is_some_and(|min| min < IN_SYNC_MIN);
                brokers >= COPIES && (topic.copies < COPIES || few_in_sync)
            }
            Self::Unclean => topic.unclean == Some(true),
            Self::Unknown => topic.retention_ms.is_none(),
            Self::KeepsLong => {
                let retention_max = whole_millis(TOPIC_RETENTION);
                let kept = topic.retention_ms;
                kept.is_some_and(|kept| kept < 0 || kept > retention_max)
            }
        }
    }

    /// The fault, and its remedy, of some topics.
    fn text(self) -> String {
        match self {
            Self::Thin => format!(
                "have fewer than {COPIES} copies, or min.insync.replicas below {IN_SYNC_MIN}: the loss of a broker can lose \
                 records of `kafka` tasks"
            ),
            Self::Unclean => {
                "allow unclean elections: set unclean.leader.election.enable=false".to_owned()
            }
            Self::Unknown => "do not show their settings: grant DescribeConfigs".to_owned(),
            Self::KeepsLong => {
                let retention_max = whole_millis(TOPIC_RETENTION);
                format!("keep messages for longer than five days: set retention.ms={retention_max}")
            }
        }
    }
}

/// Judges the brokers and the topics of the service.
pub(super) fn of_queue(found: &kafka::Conditions) -> Vec<Finding> {
    const ABOUT: &str = "topics";
    let (brokers, topics) = (found.brokers, &found.topics);
    if topics.is_empty() {
        return vec![good(ABOUT, "there are none yet")];
    }
    let mut findings = Vec::new();
    for fault in Fault::ALL {
        let faulty = topics.iter().filter(|topic| fault.is_of(topic, brokers));
        let named: Vec<&str> = faulty.map(|topic| topic.name.as_str()).collect();
        if named.is_empty() {
            continue;
        }
        let (count, all, text) = (named.len(), topics.len(), fault.text());
        let shown: Vec<&str> = named.into_iter().take(NAMED_MAX).collect();
        let shown = shown.join(", ");
        findings.push(bad(ABOUT, format!("{count} of {all} {text} ({shown})")));
    }
    if findings.is_empty() {
        let alone = if brokers < COPIES {
            format!(" on {brokers} brokers: for trying out, as none may be lost")
        } else {
            String::new()
        };
        let count = topics.len();
        findings.push(good(
            ABOUT,
            format!("{count} are kept as they should be{alone}"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn servers(servers: usize, copies: usize, repaired: Repaired) -> Vec<bool> {
        let copies = [(String::new(), 5), ("dc1".to_owned(), copies)].into();
        let found = cassandra::Conditions {
            servers,
            copies,
            repaired,
        };
        healthy(&of_store(&found, "tickwheel", NOW))
    }

    fn healthy(findings: &[Finding]) -> Vec<bool> {
        findings
            .iter()
            .map(|finding| finding.result.is_ok())
            .collect()
    }

    #[test]
    fn copies_and_repairs_are_judged_by_the_number_of_servers() {
        let lately = Repaired::At(NOW.before(DAY));
        assert_eq!(servers(3, 3, lately.clone()), [true, true]);
        assert_eq!(servers(3, 1, lately), [false, true]);
        assert_eq!(servers(2, 1, Repaired::Never), [true, false]);
        assert_eq!(servers(1, 1, Repaired::Never), [true, true]);
        assert_eq!(servers(3, 3, Repaired::Unknown), [true, true]);
        let refused = Repaired::Unreadable("no rights".to_owned());
        assert_eq!(servers(3, 3, refused), [true, false]);
        // Both ends of seven days.
        assert_eq!(
            servers(3, 3, Repaired::At(NOW.before(7 * DAY))),
            [true, true]
        );
        let later = NOW.before(7 * DAY).before(Duration::from_millis(1));
        assert_eq!(servers(3, 3, Repaired::At(later)), [true, false]);
    }

    #[test]
    fn each_fault_of_a_topic_is_found() {
        let good = TopicState {
            name: "tickwheel.send_email.normal".to_owned(),
            copies: 3,
            retention_ms: Some(5 * 86_400_000),
            in_sync_min: Some(2),
            unclean: Some(false),
        };
        let judge = |brokers, topic: TopicState| {
            let topics = vec![good.clone(), topic];
            let findings = of_queue(&kafka::Conditions { brokers, topics });
            healthy(&findings)
        };
        assert_eq!(judge(3, good.clone()), [true]);
        let changes: [fn(&mut TopicState); 7] = [
            |topic| topic.copies = 2,
            |topic| topic.in_sync_min = Some(1),
            |topic| topic.unclean = Some(true),
            |topic| topic.retention_ms = Some(5 * 86_400_000 + 1),
            |topic| topic.retention_ms = Some(-1),
            |topic| topic.retention_ms = None,
            |topic| {
                topic.copies = 1;
                topic.unclean = Some(true);
            },
        ];
        let expected: [&[bool]; 7] = [
            &[false],
            &[false],
            &[false],
            &[false],
            &[false],
            &[false],
            &[false, false],
        ];
        for (change, expected) in changes.into_iter().zip(expected) {
            let mut topic = good.clone();
            change(&mut topic);
            assert_eq!(judge(3, topic.clone()), expected, "{topic:?}");
        }
        let mut thin = good.clone();
        thin.copies = 1;
        assert_eq!(judge(1, thin), [true], "one broker is for trying out");
        let none = of_queue(&kafka::Conditions::default());
        assert_eq!(healthy(&none), [true]);
    }
}
