//! The place of a node tells the link which servers to ask first, and an operator when there is no such place.
//!
//! It changes who coordinates a request, never which copies must agree: those are a quorum of all datacenters, and
//! conditional writes are SERIAL over all. With the LOCAL levels two datacenters would decide apart, and a task could run
//! in both.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use scylla::{
    client::session::Session,
    cluster::Node,
    policies::load_balancing::{DefaultPolicy, LoadBalancingPolicy},
};

use super::Settings;
use crate::store::Error;

/// Returns the policy that asks the nearest servers first, and the others when these are away.
pub(super) fn nearest(settings: &Settings) -> Arc<dyn LoadBalancingPolicy> {
    let policy = DefaultPolicy::builder().token_aware(true);
    let policy = match (&settings.local_datacenter, &settings.local_rack) {
        (Some(datacenter), Some(rack)) => {
            policy.prefer_datacenter_and_rack(datacenter.clone(), rack.clone())
        }
        (Some(datacenter), None) => policy.prefer_datacenter(datacenter.clone()),
        (None, _) => return policy.build(),
    };
    policy.permit_dc_failover(true).build()
}

/// A server's datacenter and rack.
type Place = (Option<String>, Option<String>);

fn places(session: &Session) -> Vec<Place> {
    let state = session.get_cluster_state();
    let place = |node: &Arc<Node>| (node.datacenter.clone(), node.rack.clone());
    state.get_nodes_info().iter().map(place).collect()
}

/// Counts the servers of the datacenter that has the fewest.
pub(super) fn fewest(session: &Session) -> usize {
    least(&places(session))
}

fn least(places: &[Place]) -> usize {
    let mut counts: BTreeMap<&Option<String>, usize> = BTreeMap::new();
    for (datacenter, _) in places {
        *counts.entry(datacenter).or_default() += 1;
    }
    counts.into_values().min().unwrap_or(1)
}

/// Waits for servers that have not told yet which they are. Refuses a datacenter that no server is in: a mistyped name would
/// prefer nothing, and nobody would notice.
pub(super) fn check(session: &Session, settings: &Settings) -> Result<(), Error> {
    let places = places(session);
    if is_placeholder(&places) {
        return Err(Error::Unavailable {
            operation: "connect",
            reason: "the servers answer, and have not told yet which they are".to_owned(),
        });
    }
    match unknown(settings, &places) {
        Some(Unknown::Datacenter(reason)) => Err(Error::Unsuitable { reason }),
        Some(Unknown::Rack(reason)) => {
            // Racks come and go; a node must start without them.
            tracing::warn!(reason, "the rack to prefer is not there");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Tells whether these are the addresses that the driver was given and no more: it takes them for the servers when a connection
/// stands and their list cannot be read.
fn is_placeholder(places: &[Place]) -> bool {
    places.iter().all(|(datacenter, _)| datacenter.is_none())
}

/// A place that is not there.
#[derive(Debug, PartialEq, Eq)]
enum Unknown {
    Datacenter(String),
    Rack(String),
}

fn unknown(settings: &Settings, places: &[Place]) -> Option<Unknown> {
    let wanted = settings.local_datacenter.as_deref()?;
    let of_wanted = |place: &&Place| place.0.as_deref() == Some(wanted);
    let here: Vec<&Place> = places.iter().filter(of_wanted).collect();
    let listed = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    if here.is_empty() {
        let known = places.iter().filter_map(|place| place.0.as_deref());
        let known = listed(known.collect());
        return Some(Unknown::Datacenter(format!(
            "cassandra_datacenter: no server is in {wanted}, there are {known}"
        )));
    }
    let rack = settings.local_rack.as_deref()?;
    let known: BTreeSet<&str> = here.iter().filter_map(|place| place.1.as_deref()).collect();
    (!known.contains(rack)).then(|| {
        Unknown::Rack(format!(
            "cassandra_rack: no server of {wanted} is in {rack}, there are {}",
            listed(known)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_there_is_named_with_those_that_are() {
        let place =
            |datacenter: &str, rack: &str| (Some(datacenter.to_owned()), Some(rack.to_owned()));
        let places = [
            place("east", "r1"),
            place("east", "r2"),
            place("west", "r1"),
        ];
        let asked = |datacenter: Option<&str>, rack: Option<&str>| {
            let mut settings = Settings::new(Vec::new(), "k");
            settings.local_datacenter = datacenter.map(str::to_owned);
            settings.local_rack = rack.map(str::to_owned);
            unknown(&settings, &places)
        };
        assert_eq!(asked(None, None), None);
        assert_eq!(asked(Some("east"), Some("r2")), None);
        let no_datacenter = "cassandra_datacenter: no server is in north, there are east, west";
        assert_eq!(
            asked(Some("north"), None),
            Some(Unknown::Datacenter(no_datacenter.to_owned()))
        );
        let no_rack = "cassandra_rack: no server of west is in r2, there are r1";
        assert_eq!(
            asked(Some("west"), Some("r2")),
            Some(Unknown::Rack(no_rack.to_owned()))
        );
    }

    #[test]
    fn addresses_alone_are_no_servers() {
        assert!(is_placeholder(&[(None, None), (None, None)]));
        assert!(!is_placeholder(&[(Some("east".to_owned()), None)]));
    }

    #[test]
    fn the_smallest_datacenter_bounds_the_copies() {
        let place = |datacenter: &str| (Some(datacenter.to_owned()), None);
        assert_eq!(least(&[place("a"), place("b"), place("a"), place("a")]), 1);
        assert_eq!(least(&[place("a"), place("a")]), 2);
    }

    #[test]
    fn the_policy_names_the_place() {
        let mut settings = Settings::new(Vec::new(), "k");
        settings.local_datacenter = Some("east".to_owned());
        settings.local_rack = Some("r1".to_owned());
        let shown = format!("{:?}", nearest(&settings));
        assert!(shown.contains("east") && shown.contains("r1"), "{shown}");
    }
}
