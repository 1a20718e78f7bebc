//! The key describes one setting for the table of settings: its names, its form, its default.

use super::{Settings, text::list};

/// The form of a value in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    List,
    Number,
    /// A text that is not shown, and may lie in a file.
    Secret,
    /// A text that is not shown and has no flag: the flag and the key next to it name a file with it.
    Password,
    /// A flag that needs no value.
    Switch,
}

/// A setting.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// The name with dashes.
    pub(super) flag: &'static str,
    pub(super) form: Form,
    /// As text; a list is separated by commas.
    pub(super) default: &'static str,
    /// The form of a value, for the help.
    pub(super) value: &'static str,
    pub(super) about: &'static str,
    /// The reason for the default.
    pub(super) why: &'static str,
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Key {
    /// Returns the flag; that of a password names the file with it.
    pub(super) fn flag(&self) -> String {
        match self.form {
            Form::Password => format!("--{}-file", self.flag),
            Form::Text | Form::List | Form::Number | Form::Secret | Form::Switch => {
                format!("--{}", self.flag)
            }
        }
    }

    pub(super) fn variable(&self) -> String {
        format!("TICKWHEEL_{}", self.name.to_uppercase())
    }

    /// Returns the variable that names a file with the value, for a secret.
    pub(super) fn file_variable(&self) -> Option<String> {
        let is_secret = self.form == Form::Secret;
        is_secret.then(|| format!("{}_FILE", self.variable()))
    }

    /// Returns the default as it is written in a file.
    pub(super) fn default_as_toml(&self) -> String {
        match self.form {
            Form::Text | Form::Secret | Form::Password => format!("{:?}", self.default),
            Form::Number | Form::Switch => self.default.to_owned(),
            Form::List => format!("{:?}", list(self.default)),
        }
    }
}

/// Assigns a value if it could be read.
pub(super) fn put<T>(field: &mut T, read: Result<T, String>) -> Result<(), String> {
    *field = read?;
    Ok(())
}
