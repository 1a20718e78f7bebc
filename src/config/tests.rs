//! These tests check the settings for operators: every key, every place they come from, every kind of
//! mistake.

use std::collections::HashMap;

use clap::{Args as _, FromArgMatches as _};

use super::*;
use crate::limits::CONTENT_BYTES_MAX_DEFAULT;

fn args(flags: &[&str]) -> SettingsArgs {
    let command = SettingsArgs::augment_args(clap::Command::new("serve"));
    let matches = command.try_get_matches_from([&["serve"], flags].concat());
    SettingsArgs::from_arg_matches(&matches.unwrap()).unwrap()
}

fn problems(text: &str) -> Vec<String> {
    let Invalid(problems) = Settings::from_file("f", text).unwrap_err();
    let problems = problems.into_iter();
    problems
        .map(|problem| format!("{}: {}", problem.origin, problem.reason))
        .collect()
}

#[test]
fn a_flag_goes_before_the_environment_before_the_file_before_the_default() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "listen = \"127.0.0.1:1\"\nwheels = 32\nkeyspace = \"file\"\n";
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let environment = HashMap::from([
        (FILE_VARIABLE.to_owned(), path),
        ("TICKWHEEL_LISTEN".to_owned(), "127.0.0.1:2".to_owned()),
        ("TICKWHEEL_WHEELS".to_owned(), "64".to_owned()),
    ]);
    let settings = Settings::load(&args(&["--listen", "127.0.0.1:3"]), |name| {
        environment.get(name).cloned()
    });
    let settings = settings.unwrap();
    assert_eq!(settings.listen.port(), 3);
    assert_eq!(settings.wheels, Some(64));
    assert_eq!(settings.keyspace, "file");
    assert_eq!(settings.slots, 100_000_000);
}

#[test]
fn the_printed_file_is_the_defaults() {
    let text = print_default();
    assert_eq!(Settings::from_file("f", &text), Ok(Settings::default()));
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let keys: Vec<&str> = lines.filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(keys.len(), KEYS.len());
    assert_eq!(
        Settings::from_file("f", &keys.join("\n")),
        Ok(Settings::default())
    );
}

#[test]
fn every_default_is_a_value_and_differs_from_a_blank() {
    let settings = Settings::default();
    assert_eq!(settings.roles, Role::ALL);
    assert_eq!(settings.content_bytes_max, CONTENT_BYTES_MAX_DEFAULT);
    assert!(settings.shape().is_ok());
    assert_eq!(settings.contradictions(), []);
    for key in KEYS {
        assert_eq!(key.flag, key.name.replace('_', "-"));
    }
}

#[test]
fn an_unknown_key_names_the_nearest() {
    assert_eq!(
        problems("liste = 1"),
        ["f: liste: unknown key; did you mean listen?"]
    );
    assert_eq!(
        problems("data-dir = \"x\""),
        ["f: data-dir: unknown key; did you mean data_dir?"]
    );
    assert_eq!(
        problems("xyzzy = 1"),
        ["f: xyzzy: unknown key; `tickwheel config print-default` lists all"]
    );
}

#[test]
fn everything_wrong_is_said_at_once() {
    let text = "store = \"cassandra\"\nqueue = \"kafka\"\nroles = [\"api\", \"boss\"]\ntick = \"90s\"\nwheels = 3\n";
    let lacking = format!("store: {NEEDS_CLUSTER}");
    let of_servers: &[&str] = if cfg!(feature = "cluster") {
        &[
            "cassandra: store = \"cassandra\" needs its addresses, such as \"10.0.0.1:9042\"",
            "kafka: queue = \"kafka\" needs its addresses, such as \"10.0.0.2:9092\"",
        ]
    } else {
        &[&lacking]
    };
    let before: &[&str] = &[
        "f: roles: \"boss\" is not a role: all, api, scanner, controller, executor, status",
        "f: tick: \"90s\" is not a duration such as \"20s\" or \"1m 30s\", up to 60s",
    ];
    let behind: &[&str] = &["wheels: must be a power of two from 1 to 4096"];
    assert_eq!(problems(text), [before, of_servers, behind].concat());
}

#[test]
fn a_queue_on_servers_says_what_it_needs() {
    let needed = if cfg!(feature = "cluster") {
        "kafka: queue = \"kafka\" needs its addresses, such as \"10.0.0.2:9092\"".to_owned()
    } else {
        format!("queue: {NEEDS_CLUSTER}")
    };
    assert_eq!(problems("queue = \"kafka\""), [needed]);
}

#[test]
fn roles_that_leave_an_embedded_store_without_a_scanner_are_refused() {
    let said = [
        "roles: store = \"embedded\" has no other node: without the role scanner nobody fires its tasks; add scanner, or use all",
    ];
    for roles in [
        "[\"api\"]",
        "[\"api\", \"status\", \"controller\", \"executor\"]",
    ] {
        assert_eq!(problems(&format!("roles = {roles}")), said);
    }
    for roles in ["[\"scanner\"]", "[\"all\"]", "[\"api\", \"scanner\"]"] {
        assert!(Settings::from_file("f", &format!("roles = {roles}")).is_ok());
    }
}

#[test]
fn a_broken_file_says_where() {
    let problems = problems("wheels = \n");
    assert!(
        problems.iter().all(|text| text.contains("line 1")),
        "{problems:?}"
    );
}

#[test]
fn lists_are_written_as_lists_or_with_commas() {
    let text = "kafka = \"a:1, b:2\"\ncassandra = [\"c:3\"]\nroles = \"status,scanner\"";
    let settings = Settings::from_file("f", text).unwrap();
    assert_eq!(settings.kafka, ["a:1", "b:2"]);
    assert_eq!(settings.cassandra, ["c:3"]);
    assert_eq!(settings.roles, [Role::Scanner, Role::Status]);
}

/// The password of the mail server is in the settings, and in nothing that is shown.
#[test]
fn a_password_is_read_and_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "smtps://ada:s3cr3t@mail.example.org\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let from = ("TICKWHEEL_SMTP_FROM", "tickwheel@example.org");
    let by_file = [("TICKWHEEL_SMTP_URL_FILE", path.as_str()), from];
    let url = "smtp://ada:s3cr3t@localhost";
    let by_text = [("TICKWHEEL_SMTP_URL", url), from];
    for variables in [by_file, by_text] {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let explained = explain(Some("smtp_url"), None, environment).unwrap();
        assert_eq!(explained[0].value, "\"(set, not shown)\"");
        assert_eq!(explained[0].origin, variables[0].0);
        assert!(!format!("{explained:?}").contains("s3cr3t"));
        let settings = Settings::load(&args(&[]), environment);
        if cfg!(feature = "tls") || variables == by_text {
            let settings = settings.unwrap();
            let login = settings.smtp_url.clone().unwrap().login.unwrap();
            assert_eq!((&*login.user, &*login.password), ("ada", "s3cr3t"));
            assert!(!format!("{settings:?}").contains("s3cr3t"));
        } else {
            let refused = settings.unwrap_err().to_string();
            assert!(
                refused.contains("TLS") && !refused.contains("s3cr3t"),
                "{refused}"
            );
        }
    }
}

#[test]
fn mistakes_about_e_mails_are_told_without_the_password() {
    let load = |variables: &[(&str, &str)]| {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let refused = Settings::load(&args(&[]), environment).unwrap_err();
        refused.to_string()
    };
    let (url, from) = ("TICKWHEEL_SMTP_URL", "TICKWHEEL_SMTP_FROM");
    for (variables, says) in [
        (
            &[(url, "smtp://ada:s3cr3t@localhost")][..],
            "need each other",
        ),
        (&[(from, "tickwheel@example.org")], "need each other"),
        (
            &[(url, "smtp://ada:s3cr3t@mail.example.org")],
            "in the clear",
        ),
        (&[(url, "smtp:ada:s3cr3t@localhost")], "must be smtps://"),
        (&[(from, "Ada <ada@example.org>")], "must be an address"),
        (
            &[
                (url, "smtp://ada:s3cr3t@localhost"),
                ("TICKWHEEL_SMTP_URL_FILE", "x"),
            ],
            "set one of them",
        ),
        (
            &[("TICKWHEEL_SMTP_URL_FILE", "/nowhere/s3")],
            "cannot be read",
        ),
        (
            &[
                (url, "smtp://ada:s3cr3t@localhost"),
                (from, "tickwheel@example.org"),
                ("TICKWHEEL_SMTP_CA", "/etc/mail-ca.pem"),
            ],
            "over TLS alone",
        ),
    ] {
        let refused = load(variables);
        assert!(
            refused.contains(says) && !refused.contains("s3cr3t"),
            "{refused}"
        );
    }
}

fn load(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, String> {
    let environment = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let loaded = Settings::load(&args(flags), environment);
    loaded.map_err(|refused| refused.to_string())
}

#[test]
fn passwords_of_servers_come_from_files_or_variables_and_are_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), " s3cr3t \n").unwrap();
    let path = file.path().to_str().unwrap();
    let user = ["--cassandra-user", "ada"];
    let by_flag = load(&[user, ["--cassandra-password-file", path]].concat(), &[]);
    let by_variable = load(&user, &[("TICKWHEEL_CASSANDRA_PASSWORD_FILE", path)]);
    let by_text = load(&user, &[("TICKWHEEL_CASSANDRA_PASSWORD", " s3cr3t ")]);
    for loaded in [by_flag, by_variable, by_text] {
        let settings = loaded.unwrap();
        let login = settings.cassandra_access().login.unwrap();
        assert_eq!((&*login.user, &*login.password), ("ada", " s3cr3t "));
        assert!(!format!("{settings:?}").contains("s3cr3t"));
    }
    let environment =
        |name: &str| (name == "TICKWHEEL_KAFKA_PASSWORD").then(|| "s3cr3t".to_owned());
    let explained = explain(Some("kafka_password"), None, environment).unwrap();
    assert_eq!(explained[0].value, "\"(set, not shown)\"");
    assert_eq!(explained[0].flag, "--kafka-password-file");
    let command = SettingsArgs::augment_args(clap::Command::new("serve"));
    let flags: Vec<&str> = command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    assert!(flags.contains(&"kafka-password-file") && !flags.contains(&"kafka-password"));
    // A broken file of settings may break in the line of the password.
    std::fs::write(file.path(), "kafka_password = \"s3cr3t\n").unwrap();
    let refused = explain(None, Some(file.path()), |_| None).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("line 1") && !refused.contains("s3cr3t"),
        "{refused}"
    );
}

#[test]
fn credentials_that_contradict_themselves_say_what_to_do() {
    let password = ("TICKWHEEL_KAFKA_PASSWORD", "s3cr3t");
    let user = ["--kafka-user", "ada"];
    for (flags, variables, says) in [
        (&user[..], &[][..], "set kafka_password_file"),
        (&[], &[password], "set kafka_user"),
        (
            &user,
            &[password, ("TICKWHEEL_KAFKA_PASSWORD_FILE", "/x")],
            "set one of them",
        ),
        (
            &["--kafka-user", "ada", "--kafka-password-file", "/no/such"],
            &[],
            "/no/such cannot be read",
        ),
        (
            &["--kafka-cert", "c"],
            &[],
            "kafka_cert and kafka_key need each other",
        ),
        (
            &["--kafka-ca", "c", "--kafka-security-protocol", "plaintext"],
            &[],
            "plaintext does not encrypt",
        ),
        (
            &["--kafka-user", "ada", "--kafka-security-protocol", "ssl"],
            &[password],
            "ssl has no login",
        ),
        (
            &["--kafka-security-protocol", "sasl_ssl"],
            &[],
            "set kafka_user and kafka_password_file",
        ),
        (
            &["--kafka-security-protocol", "tls"],
            &[],
            "auto, plaintext, ssl, sasl_plaintext, sasl_ssl",
        ),
        (
            &["--kafka-sasl-mechanism", "MD5"],
            &[],
            "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            &["--cassandra-cert", "c", "--cassandra-key", "k"],
            &[],
            "set cassandra_ca",
        ),
        (&["--cassandra-rack", "r"], &[], "set cassandra_datacenter"),
    ] {
        let refused = load(flags, variables).unwrap_err();
        assert!(
            refused.contains(says) && !refused.contains("s3cr3t"),
            "{says}: {refused}"
        );
    }
}

#[test]
#[cfg(feature = "tls")]
fn the_protocol_of_kafka_follows_from_what_is_set() {
    let password = ("TICKWHEEL_KAFKA_PASSWORD", "s3cr3t");
    for (flags, variables, protocol) in [
        (&[][..], &[][..], Protocol::Plaintext),
        (&["--kafka-ca", "c"], &[], Protocol::Ssl),
        (&["--kafka-security-protocol", "SSL"], &[], Protocol::Ssl),
        (
            &["--kafka-user", "ada"],
            &[password],
            Protocol::SaslPlaintext,
        ),
        (
            &["--kafka-user", "ada", "--kafka-ca", "c"],
            &[password],
            Protocol::SaslSsl,
        ),
    ] {
        let settings = load(flags, variables).unwrap();
        assert_eq!(Protocol::of(&settings.kafka_access()), protocol);
    }
}

#[test]
fn a_password_in_the_clear_to_another_machine_is_told() {
    let passwords = [
        ("TICKWHEEL_KAFKA_PASSWORD", "s"),
        ("TICKWHEEL_CASSANDRA_PASSWORD", "s"),
    ];
    let bare = |host: &str| {
        let (cassandra, kafka) = (format!("{host}:9042"), format!("{host}:9092"));
        let flags = [
            ["--cassandra", &cassandra],
            ["--cassandra-user", "ada"],
            ["--kafka", &kafka],
            ["--kafka-user", "ada"],
            ["--kafka-sasl-mechanism", "PLAIN"],
        ];
        load(&flags.concat(), &passwords).unwrap().bare_passwords()
    };
    assert_eq!(bare("127.0.0.1").len(), 0);
    assert_eq!(bare("10.0.0.1").len(), 2);
}
