//! The reach arguments tell client commands, for the user, how to reach the service and which credentials to show.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{ClientArgs, Exit, Failure};
use crate::client::{Access, Client, ClientBuilder};

/// The flags of the connection stand apart in the help of a command, behind its own.
pub(super) const HEADING: &str = "Connection";

/// Variables that hold credentials, or name files that do.
pub(super) const CREDENTIALS: [&str; 5] = [
    "TICKWHEEL_API_KEY",
    "TICKWHEEL_API_KEY_FILE",
    "TICKWHEEL_CLIENT_CERT_FILE",
    "TICKWHEEL_CLIENT_KEY_FILE",
    "TICKWHEEL_REQUEST_HEADER",
];

/// The credentials that a command shows, and the authorities that it believes.
#[derive(Clone, Args)]
pub(super) struct AccessArgs {
    /// API key that the calls carry. Other users of the machine see the arguments of commands: rather set the variable, or use
    /// --api-key-file.
    #[arg(
        long,
        env = "TICKWHEEL_API_KEY",
        hide_env_values = true,
        value_name = "KEY",
        help_heading = HEADING
    )]
    api_key: Option<String>,
    /// File with that key; --api-key goes before it.
    #[arg(long, env = "TICKWHEEL_API_KEY_FILE", value_name = "FILE", help_heading = HEADING)]
    api_key_file: Option<PathBuf>,
    /// Authorities in PEM form, one of which signed the certificate of the service; those of the machine by default.
    #[arg(long, env = "TICKWHEEL_CA_FILE", value_name = "FILE", help_heading = HEADING)]
    ca: Option<PathBuf>,
    /// Certificate in PEM form for a service that asks its clients for one; needs --client-key.
    #[arg(long, env = "TICKWHEEL_CLIENT_CERT_FILE", value_name = "FILE", help_heading = HEADING)]
    client_cert: Option<PathBuf>,
    /// Private key of that certificate in PEM form.
    #[arg(long, env = "TICKWHEEL_CLIENT_KEY_FILE", value_name = "FILE", help_heading = HEADING)]
    client_key: Option<PathBuf>,
    /// Header that the calls carry, for a proxy in between; may be given several times.
    #[arg(
        long = "request-header",
        env = "TICKWHEEL_REQUEST_HEADER",
        hide_env_values = true,
        value_name = "NAME: VALUE",
        help_heading = HEADING
    )]
    request_headers: Vec<String>,
}

impl std::fmt::Debug for AccessArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessArgs")
            .field("api_key_file", &self.api_key_file)
            .field("ca", &self.ca)
            .field("client_cert", &self.client_cert)
            .finish_non_exhaustive()
    }
}

impl AccessArgs {
    /// Returns the credentials, with the contents of their files.
    pub(super) fn access(&self) -> Result<Access, Failure> {
        access(
            key_of(self.api_key.as_deref(), self.api_key_file.as_deref())?,
            [&self.ca, &self.client_cert, &self.client_key].map(Option::as_deref),
            &self.request_headers,
        )
    }
}

/// Returns the credentials that the environment names, for commands whose flags are those of a node.
pub(super) fn access_of_environment() -> Result<Access, Failure> {
    let text = |name: &str| std::env::var(name).ok();
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let files =
        ["CA", "CLIENT_CERT", "CLIENT_KEY"].map(|name| path(&format!("TICKWHEEL_{name}_FILE")));
    let headers: Vec<String> = text("TICKWHEEL_REQUEST_HEADER").into_iter().collect();
    let key_file = path("TICKWHEEL_API_KEY_FILE");
    access(
        key_of(text("TICKWHEEL_API_KEY").as_deref(), key_file.as_deref())?,
        files.each_ref().map(Option::as_deref),
        &headers,
    )
}

fn access(
    api_key: Option<String>,
    [ca, certificate, key]: [Option<&Path>; 3],
    headers: &[String],
) -> Result<Access, Failure> {
    let read = |what: &str, path: Option<&Path>| {
        let path = path.filter(|path| !path.as_os_str().is_empty());
        path.map(|path| read(what, path)).transpose()
    };
    let identity = match (
        read("the client certificate", certificate)?,
        read("the key of the client certificate", key)?,
    ) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(Failure::usage(
                "a client certificate needs its key, and the key its certificate: give both --client-cert and --client-key",
            ));
        }
    };
    let headers = headers.iter().map(|header| {
        let named = header.split_once(':');
        let named = named.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        // Without its text, which may be a token.
        named.ok_or_else(|| Failure::usage("a header is written `NAME: VALUE`"))
    });
    Ok(Access {
        api_key,
        ca: read("the CA", ca)?,
        identity,
        headers: headers.collect::<Result<_, _>>()?,
    })
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::usage(format!(
            "{what} cannot be read from {}: {error}",
            path.display()
        ))
    })
}

fn key_of(key: Option<&str>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    let given = key.map(str::trim).filter(|key| !key.is_empty());
    let file = file.filter(|path| !path.as_os_str().is_empty());
    match (given, file) {
        (Some(key), _) => Ok(Some(key.to_owned())),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path).map_err(|error| Failure {
                exit: Exit::Usage,
                text: format!(
                    "the API key cannot be read from {}: {error}",
                    path.display()
                ),
            })?;
            Ok(Some(text.trim().to_owned()))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the builder of a client with these credentials.
pub(super) fn builder(server: &str, access: Access) -> ClientBuilder {
    Client::builder().server(server).access(access)
}

impl ClientArgs {
    /// Makes a client.
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        Ok(builder(&self.server, self.access.access()?).build()?)
    }
}
