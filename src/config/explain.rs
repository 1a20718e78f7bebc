//! The explanation tells operators what each setting means, and where its value comes from.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    FILE_VARIABLE, Invalid, Problem, Settings,
    environment::value_of,
    file::{as_text, not_toml, unknown},
    keys::{Form, KEYS, Key},
};

/// A setting, its value, and the origin of the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The key of the file.
    pub name: &'static str,
    /// The flag.
    pub flag: String,
    /// The environment variable.
    pub variable: String,
    /// Its meaning.
    pub about: &'static str,
    /// The reason for the default.
    pub why: &'static str,
    /// The default, as it is written in a file.
    pub default: String,
    /// The value, as it is written in a file.
    pub value: String,
    /// `default`, the variable, or the file.
    pub origin: String,
    /// The mistake in the value, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Explains one setting, or all of them. A name may be written as a key, a flag or a variable.
///
/// # Errors
/// When no setting has this name, or the file cannot be read.
pub fn explain(
    name: Option<&str>,
    file: Option<&Path>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Explained>, Invalid> {
    let keys: Vec<&Key> = match name {
        None => KEYS.iter().collect(),
        Some(name) => vec![named(name)?],
    };
    let variable = || environment(FILE_VARIABLE).map(PathBuf::from);
    let path = file.map(Path::to_path_buf).or_else(variable);
    let table = path.as_deref().map(table).transpose()?.unwrap_or_default();
    let explained = |key: &Key| {
        let in_file = table.get(key.name).and_then(as_text);
        let path = path.as_deref().unwrap_or_else(|| Path::new(""));
        let of_environment = value_of(key, &environment);
        let (text, origin) = if let Ok(Some((text, variable))) = &of_environment {
            (text.clone(), variable.clone())
        } else if let Err(problem) = &of_environment {
            (key.default.to_owned(), problem.origin.clone())
        } else if let Some(text) = in_file {
            (text, path.display().to_string())
        } else {
            (key.default.to_owned(), "default".to_owned())
        };
        let unreadable = of_environment.err().map(|problem| problem.reason);
        let problem = (key.set)(&mut Settings::default(), &text).err();
        let problem = unreadable.or(problem);
        Explained {
            name: key.name,
            flag: key.flag(),
            variable: key.variable(),
            about: key.about,
            why: key.why,
            default: key.default_as_toml(),
            value: key.as_toml(&text),
            origin,
            problem,
        }
    };
    Ok(keys.into_iter().map(explained).collect())
}

fn named(name: &str) -> Result<&'static Key, Invalid> {
    let plain = name
        .trim_start_matches('-')
        .replace('-', "_")
        .to_lowercase();
    let plain = plain.strip_prefix("tickwheel_").unwrap_or(&plain);
    let key = KEYS.iter().find(|key| key.name == plain);
    key.ok_or_else(|| invalid(name, unknown(plain)))
}

fn table(path: &Path) -> Result<toml::Table, Invalid> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| invalid(&name, format!("cannot be read: {error}")))?;
    text.parse()
        .map_err(|error: toml::de::Error| invalid(&name, not_toml(&text, &error)))
}

fn invalid(origin: &str, reason: String) -> Invalid {
    Invalid(vec![Problem {
        origin: origin.to_owned(),
        reason,
    }])
}

impl Key {
    /// Returns a value of this setting as it is written in a file.
    fn as_toml(&self, text: &str) -> String {
        match self.form {
            Form::Text => format!("{text:?}"),
            Form::Secret | Form::Password if text.is_empty() => "\"\"".to_owned(),
            Form::Secret | Form::Password => "\"(set, not shown)\"".to_owned(),
            Form::Number | Form::Switch => text.to_owned(),
            Form::List => format!("{:?}", super::text::list(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_says_where_its_value_comes_from() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            "partitions = 32\nkafka = [\"a:1\", \"b:2\"]\ntick = \"2s\"",
        )
        .unwrap();
        let environment = |name: &str| (name == "TICKWHEEL_PARTITIONS").then(|| "33000".to_owned());
        let one = |name: &str| {
            let found = explain(Some(name), Some(file.path()), environment).unwrap();
            assert_eq!(found.len(), 1);
            found[0].clone()
        };
        let partitions = one("--partitions");
        assert_eq!(
            (partitions.value.as_str(), partitions.origin.as_str()),
            ("33000", "TICKWHEEL_PARTITIONS")
        );
        assert!(partitions.problem.unwrap().contains("1 to 4096"));
        let kafka = one("TICKWHEEL_KAFKA");
        assert_eq!(kafka.value, "[\"a:1\", \"b:2\"]");
        assert_eq!(kafka.origin, file.path().display().to_string());
        let data_dir = one("data-dir");
        assert_eq!(
            (data_dir.origin.as_str(), data_dir.default),
            ("default", data_dir.value)
        );
    }

    #[test]
    fn an_unknown_setting_names_the_nearest() {
        let error = explain(Some("wheel"), None, |_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "wheel: unknown key; did you mean wheels?"
        );
        assert_eq!(explain(None, None, |_| None).unwrap().len(), KEYS.len());
    }
}
