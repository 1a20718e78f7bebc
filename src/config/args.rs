//! The settings arguments give every command one flag for each key of the table of settings.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::keys::{KEYS, Key};

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
        self.values = KEYS.iter().filter_map(given).collect();
        Ok(())
    }
}

impl Args for SettingsArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("TOML file with settings [env: TICKWHEEL_CONFIG]");
        KEYS.iter().fold(command.arg(file), |command, key| {
            let default = match key.default {
                "" => "none",
                default => default,
            };
            let help = format!(
                "{} [default: {default}] [env: {}]",
                key.about,
                key.variable()
            );
            command.arg(
                Arg::new(key.name)
                    .long(key.flag)
                    .value_name(key.value)
                    .help(help),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
