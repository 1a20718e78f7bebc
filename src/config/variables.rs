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

/// Parts of names that other programs define: tests of this project, and Kubernetes and Docker for a service
/// that is called tickwheel.
const FOREIGN: [&str; 9] = [
    "TICKWHEEL_TEST_",
    "TICKWHEEL_FUZZ_",
    "TICKWHEEL_STACK_",
    "TICKWHEEL_PROVE",
    "TICKWHEEL_UPDATE_",
    "TICKWHEEL_DIE_AT",
    "TICKWHEEL_BUFFER_",
    "_SERVICE_",
    "_PORT",
];

/// Returns the variables that are not settings, each with the most similar one that is.
pub fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<Problem> {
    let mut known: Vec<String> = KEYS.iter().map(Key::variable).collect();
    known.extend(KEYS.iter().filter_map(Key::file_variable));
    known.extend(OTHERS.map(str::to_owned));
    let unknown = names.filter(|name| {
        name.starts_with(PREFIX)
            && !known.contains(name)
            && !FOREIGN.iter().any(|part| name.contains(part))
    });
    let problems = unknown.map(|origin| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_variable_is_named_with_the_nearest_and_foreign_ones_are_left_alone() {
        let names = [
            "TICKWHEEL_STOER",
            "TICKWHEEL_DATADIR",
            "TICKWHEEL_XYZZY",
            "TICKWHEEL_STORE",
            "TICKWHEEL_CONFIG",
            "TICKWHEEL_SERVER",
            "TICKWHEEL_SERVICE_HOST",
            "TICKWHEEL_PORT_7420_TCP",
            "TICKWHEEL_TEST_KAFKA",
            "PATH",
        ];
        let found = unknown_variables(names.into_iter().map(str::to_owned));
        let said: Vec<String> = found
            .into_iter()
            .map(|problem| format!("{}: {}", problem.origin, problem.reason))
            .collect();
        assert_eq!(
            said,
            [
                "TICKWHEEL_STOER: unknown variable, it is ignored; did you mean TICKWHEEL_STORE?",
                "TICKWHEEL_DATADIR: unknown variable, it is ignored; did you mean TICKWHEEL_DATA_DIR?",
                "TICKWHEEL_XYZZY: unknown variable, it is ignored; `tickwheel config explain` lists all settings",
            ]
        );
    }
}
