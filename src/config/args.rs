//! The settings arguments give every command one flag for each key of the table of settings.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::keys::{Form, KEYS, Key};

/// The settings of the command line.
#[derive(Debug, Clone, Default)]
pub struct SettingsArgs {
    pub(super) file: Option<PathBuf>,
    pub(super) values: Vec<(&'static Key, String)>,
}

impl FromArgMatches for SettingsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>("config").cloned();
        let given = |key: &'static Key| {
            let value = matches.get_one::<String>(key.name)?;
            Some((key, value.clone()))
        };
        self.values = with_flag().filter_map(given).collect();
        Ok(())
    }
}

impl Args for SettingsArgs {
    fn augment_args(command: Command) -> Command {
        with_flag().fold(command.arg(file()), |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The names of the settings that a store needs.
const OF_STORE: [&str; 11] = [
    "store",
    "data_dir",
    "cassandra",
    "keyspace",
    "cassandra_user",
    "cassandra_password_file",
    "cassandra_ca",
    "cassandra_cert",
    "cassandra_key",
    "cassandra_datacenter",
    "cassandra_rack",
];

/// The settings that have a flag: all but passwords, which other users of the machine would see.
fn with_flag() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| key.form != Form::Password)
}

/// The settings of a store on the command line.
#[derive(Debug, Clone, Default)]
pub struct StoreArgs(pub(super) SettingsArgs);

impl StoreArgs {
    /// Tells whether any of them was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.0.file.is_some() || !self.0.values.is_empty()
    }
}

impl FromArgMatches for StoreArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.file = matches.get_one::<PathBuf>("config").cloned();
        let of_store = with_flag().filter(|key| OF_STORE.contains(&key.name));
        let given = |key: &'static Key| {
            let value = matches.get_one::<String>(key.name)?;
            Some((key, value.clone()))
        };
        self.0.values = of_store.filter_map(given).collect();
        Ok(())
    }
}

impl Args for StoreArgs {
    fn augment_args(command: Command) -> Command {
        let of_store = with_flag().filter(|key| OF_STORE.contains(&key.name));
        of_store.fold(command.arg(file()), |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn file() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("TOML file with settings [env: TICKWHEEL_CONFIG]")
}

fn flag(key: &'static Key) -> Arg {
    let default = match key.default {
        "" => "none",
        default => default,
    };
    let help = format!(
        "{} [default: {default}] [env: {}]",
        key.about,
        key.variable()
    );
    let arg = Arg::new(key.name)
        .long(key.flag)
        .value_name(key.value)
        .help(help);
    match key.form {
        Form::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Form::Text | Form::Secret | Form::Password | Form::List | Form::Number => arg,
    }
}
