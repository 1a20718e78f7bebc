//! The check of variables warns operators of environment variables that look like settings and are not.

use super::{
    FILE_VARIABLE, Problem,
    keys::{KEYS, Key},
};

/// The prefix of all variables of Tickwheel.
const PREFIX: &str = "TICKWHEEL_";

/// Least similarity of a variable that is suggested for an unknown one.
const LIKENESS_MIN: f64 = 0.8;

/// Variables of the client commands and of the commands that `tickwheel worker` runs.
const OTHERS: [&str; 12] = [
    "TICKWHEEL_SERVER",
    "TICKWHEEL_API_KEY",
    "TICKWHEEL_API_KEY_FILE",
    "TICKWHEEL_CA_FILE",
    "TICKWHEEL_CLIENT_CERT_FILE",
    "TICKWHEEL_CLIENT_KEY_FILE",
    "TICKWHEEL_REQUEST_HEADER",
    "TICKWHEEL_TASK_ID",
    "TICKWHEEL_ATTEMPT",
    "TICKWHEEL_CALLBACK",
    "TICKWHEEL_START_TIME",
    FILE_VARIABLE,
];

/// Beginnings of names that the tests of this project define.
const OF_TESTS: [&str; 7] = [
    "TICKWHEEL_TEST_",
    "TICKWHEEL_FUZZ_",
    "TICKWHEEL_STACK_",
    "TICKWHEEL_PROVE",
    "TICKWHEEL_UPDATE_",
    "TICKWHEEL_DIE_AT",
    "TICKWHEEL_BUFFER_",
];

/// Returns the variables that are not settings, each with the most similar one that is.
pub fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<Problem> {
    let names: Vec<String> = names.collect();
    let mut known: Vec<String> = KEYS.iter().map(Key::variable).collect();
    known.extend(KEYS.iter().filter_map(Key::file_variable));
    known.extend(OTHERS.map(str::to_owned));
    let unknown = names.iter().filter(|name| {
        name.starts_with(PREFIX)
            && !known.contains(name)
            && !OF_TESTS.iter().any(|start| name.starts_with(start))
            && !is_of_platform(name, &names)
    });
    let problems = unknown.cloned().map(|origin| {
        let own = |name: &str| name.trim_start_matches(PREFIX).to_owned();
        let alike = |name: &&String| strsim::jaro_winkler(&own(name), &own(&origin));
        let nearest = known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let reason = match nearest.filter(|name| alike(name) >= LIKENESS_MIN) {
            Some(name) => format!("unknown variable, it is ignored; did you mean {name}?"),
            None => {
                "unknown variable, it is ignored; `tickwheel config explain` lists all settings"
                    .to_owned()
            }
        };
        Problem { origin, reason }
    });
    problems.collect()
}

/// Tells whether a container platform sets a variable of this name, for a service whose name begins with `tickwheel`:
/// `NAME_SERVICE_HOST`, `NAME_SERVICE_PORT`, `NAME_SERVICE_PORT_HTTP`, `NAME_PORT` and `NAME_PORT_7420_TCP`, the last also with
/// `_PROTO`, `_PORT` or `_ADDR` behind it. Kubernetes and Docker do
/// (<https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables>).
fn is_of_platform(name: &str, all: &[String]) -> bool {
    let of_service = |rest: &str| rest == "HOST" || rest == "PORT" || rest.starts_with("PORT_");
    if let Some((_, rest)) = name.rsplit_once("_SERVICE_")
        && of_service(rest)
    {
        return true;
    }
    let ends = ["_PROTO", "_PORT", "_ADDR"];
    let end = ends.iter().find_map(|end| name.strip_suffix(end));
    if is_port(name) || end.is_some_and(is_port) {
        return true;
    }
    // Of another service than `tickwheel` this may be a mistyped setting, so its host has to be there, too.
    let host = |service: &str| format!("{service}_SERVICE_HOST");
    name.strip_suffix("_PORT")
        .is_some_and(|service| service == "TICKWHEEL" || all.contains(&host(service)))
}

/// Tells whether a name is one such as `TICKWHEEL_PORT_7420_TCP`.
fn is_port(name: &str) -> bool {
    let port = name.rsplit_once("_PORT_");
    let port = port.and_then(|(_, port)| port.split_once('_'));
    port.is_some_and(|(number, protocol)| {
        number.parse::<u16>().is_ok() && ["TCP", "UDP", "SCTP"].contains(&protocol)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said_of(names: &[&str]) -> Vec<String> {
        let found = unknown_variables(names.iter().map(|name| (*name).to_owned()));
        let said = found
            .into_iter()
            .map(|problem| format!("{}: {}", problem.origin, problem.reason));
        said.collect()
    }

    #[test]
    fn variables_of_container_platforms_pass_and_those_that_look_like_them_do_not() {
        let of_platforms = [
            "TICKWHEEL_SERVICE_HOST",
            "TICKWHEEL_SERVICE_PORT",
            "TICKWHEEL_SERVICE_PORT_HTTP",
            "TICKWHEEL_PORT",
            "TICKWHEEL_PORT_7420_TCP",
            "TICKWHEEL_PORT_7420_TCP_PROTO",
            "TICKWHEEL_PORT_7420_TCP_PORT",
            "TICKWHEEL_PORT_7420_TCP_ADDR",
            "TICKWHEEL_NODES_SERVICE_HOST",
            "TICKWHEEL_NODES_PORT",
            "TICKWHEEL_NODES_PORT_53_UDP",
            "TICKWHEEL_SERVICE_API_SERVICE_HOST",
            "TICKWHEEL_SERVICE_API_PORT",
            "TICKWHEEL_SERVICE_API_PORT_7420_TCP_ADDR",
        ];
        assert_eq!(said_of(&of_platforms), [""; 0]);
        for mistyped in [
            "TICKWHEEL_LISTEN_PORT",
            "TICKWHEEL_PORT_NUMBER",
            "TICKWHEEL_SERVICE_NAME",
            "TICKWHEEL_PORT_7420",
            "TICKWHEEL_STORE_TEST_",
        ] {
            assert_eq!(said_of(&[mistyped]).len(), 1, "{mistyped}");
        }
    }

    #[test]
    fn a_mistyped_variable_is_named_with_the_nearest_and_foreign_ones_are_left_alone() {
        let names = [
            "TICKWHEEL_STOER",
            "TICKWHEEL_DATADIR",
            "TICKWHEEL_XYZZY",
            "TICKWHEEL_STORE",
            "TICKWHEEL_CONFIG",
            "TICKWHEEL_SERVER",
            "TICKWHEEL_TEST_KAFKA",
            "PATH",
        ];
        assert_eq!(
            said_of(&names),
            [
                "TICKWHEEL_STOER: unknown variable, it is ignored; did you mean TICKWHEEL_STORE?",
                "TICKWHEEL_DATADIR: unknown variable, it is ignored; did you mean TICKWHEEL_DATA_DIR?",
                "TICKWHEEL_XYZZY: unknown variable, it is ignored; `tickwheel config explain` lists all settings",
            ]
        );
    }
}
