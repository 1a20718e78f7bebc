//! The commands `tickwheel api-key ...` make, list and revoke API keys for administrators.
//!
//! They ask a running service. With the flags of a store they open that store itself: there is no key yet to ask a service with
//! when the first one is made.

use std::{
    io::{self, Write},
    sync::Arc,
};

use clap::{Args, Subcommand};

use super::{
    ClientArgs, Exit, Failure, Format,
    dead_letter::{Printer, count_of_none},
    fields::by_flags,
    node, private, times, variables,
};
use crate::{
    api::{
        api_key::{ApiKeyRequest, ApiKeyResponse, ApiRole},
        text::InstantText,
    },
    app,
    client::{self, NewStart, RateLimit, StartTime},
    config::{Settings, StoreArgs},
    flow::base::records::{
        api_keys::ApiKeys,
        key_changes::{Created, Revoked},
    },
    http::show::{key_response, wish},
    model::{access::KeyId, time::Millis},
    time_source::TimeSource,
};

const EXAMPLES: &str = "Examples:
  tickwheel api-key create --role admin --name me --data-dir tickwheel-data     the first key, while the service is stopped
  tickwheel api-key create --role producer --name shop --callback send_email    at the running service
  tickwheel api-key create --role worker --name mailer --callback send_email --expires 2160h

The key is printed once, on standard output. With the flags of a store, or their variables and without --server, the store is
opened directly; otherwise the service is asked.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make an API key and print it: the only time that it can be read.
    #[command(after_help = EXAMPLES)]
    Create(Box<CreateArgs>),
    /// List API keys: names, roles and limits, never the keys themselves.
    List(Box<PlaceArgs>),
    /// Revoke an API key. It works nowhere two seconds later.
    Revoke(Box<RevokeArgs>),
}

/// The service, or its store.
#[derive(Debug, Args)]
pub(super) struct PlaceArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// A key to make.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Role of its holder: viewer, producer, worker, operator or admin.
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: ApiRole,
    /// Name of the key, for people; logs and the audit show it. The role by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Callback that it is limited to; may be repeated. Without it, all.
    #[arg(long = "callback", value_name = "NAME")]
    callbacks: Vec<String>,
    /// From when on it is refused: RFC 3339 with an offset, or from now, such as 2160h.
    #[arg(long, value_name = "TIME", value_parser = times::start)]
    expires: Option<NewStart>,
    /// Let a viewer see payloads.
    #[arg(long)]
    payloads: bool,
    /// Calls in a second at each node; heartbeats and settles do not count.
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// Calls at once after a pause.
    #[arg(long, value_name = "COUNT", requires = "rate")]
    burst: Option<u32>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// A key to revoke.
#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// Its id, as `api-key list` shows it; it is the part of the key behind `twk_`.
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
}

fn role(text: &str) -> Result<ApiRole, String> {
    let all = [
        ApiRole::Viewer,
        ApiRole::Producer,
        ApiRole::Worker,
        ApiRole::Operator,
        ApiRole::Admin,
    ];
    let known = all.into_iter().find(|role| role.name() == text);
    known.ok_or_else(|| "expected viewer, producer, worker, operator or admin".to_owned())
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    // Whether the store is opened or the service is asked may hang on one.
    variables::warn();
    match command {
        Command::Create(args) => create(&args).await,
        Command::List(args) => list(&args).await,
        Command::Revoke(args) => revoke(&args).await,
    }
}

impl PlaceArgs {
    /// Opens the store that the flags name; none when the service is to be asked.
    async fn keys(&self) -> Result<Option<ApiKeys>, Failure> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let names_store = self.store.is_given()
            || (variable("TICKWHEEL_SERVER").is_none()
                && self.client.server == super::SERVER_DEFAULT
                && ["DATA_DIR", "CASSANDRA", "CONFIG"]
                    .iter()
                    .any(|name| variable(&format!("TICKWHEEL_{name}")).is_some()));
        if !names_store {
            return Ok(None);
        }
        let settings = Settings::load_store(&self.store, |name| std::env::var(name).ok())?;
        let time = TimeSource::real();
        let store = app::open_store(&node::store(&settings)?, &time).await;
        let store = store.map_err(|error| {
            let mut failure = Failure::from(error);
            failure.text.push_str(
                "; a service that runs is asked by --server, with the key of an admin as --api-key",
            );
            failure
        })?;
        Ok(Some(ApiKeys::of_store(Arc::clone(&store), time)))
    }

    fn format(&self) -> Format {
        self.client.print.output
    }
}

async fn create(args: &CreateArgs) -> Result<Exit, Failure> {
    let now = TimeSource::real().now();
    let instant = |start: &NewStart| -> Result<InstantText, Failure> {
        Ok(match start {
            NewStart::At(StartTime(at)) => at.clone(),
            NewStart::In(delay) => {
                let delay = delay.duration().unwrap_or_default();
                now.after(delay).into()
            }
        })
    };
    let request = ApiKeyRequest {
        name: args
            .name
            .clone()
            .unwrap_or_else(|| args.role.name().to_owned()),
        role: args.role,
        callbacks: (!args.callbacks.is_empty()).then(|| args.callbacks.clone()),
        expire_time: args.expires.as_ref().map(instant).transpose()?,
        payloads: args.payloads.then_some(true),
        rate: args.rate.map(|per_second| RateLimit {
            per_second,
            burst: args.burst,
        }),
    };
    let made = match args.place.keys().await? {
        Some(keys) => create_in(&keys, request, now).await?,
        None => {
            let client = args.place.client.connect()?;
            let made = client.create_api_key(&request).await;
            made.map_err(by_flags)?
        }
    };
    private::warn_of_open_output("the key");
    let mut out = io::stdout().lock();
    match args.place.format() {
        // Nothing but the key, so that it can go into a file or a variable.
        Format::Table => {
            writeln!(out, "{}", made.key.as_deref().unwrap_or_default())?;
            writeln!(
                io::stderr(),
                "the key {} ({}, {}): it cannot be shown again",
                made.id,
                made.name,
                made.role.name()
            )?;
        }
        Format::Json => writeln!(out, "{}", text(serde_json::to_string_pretty(&made))?)?,
        Format::Jsonl => writeln!(out, "{}", text(serde_json::to_string(&made))?)?,
    }
    Ok(Exit::Ok)
}

fn text(written: serde_json::Result<String>) -> Result<String, Failure> {
    written.map_err(|error| Failure::failed(error.to_string()))
}

async fn create_in(
    keys: &ApiKeys,
    request: ApiKeyRequest,
    now: Millis,
) -> Result<ApiKeyResponse, Failure> {
    let wish =
        wish(request, now).map_err(|error| by_flags(client::Error::of_item(error.problem())))?;
    let created = keys.create(wish).await;
    match created.map_err(|fault| Failure::failed(fault.to_string()))? {
        Created::Made(text, key) => Ok(ApiKeyResponse {
            key: Some(text.reveal()),
            ..key_response(text.id, &key)
        }),
        Created::NotAdmin => Err(Failure::usage(
            "there is no key yet, and from the first one on every call needs a key: make one with --role admin first",
        )),
        Created::TooMany => Err(Failure::usage("there are too many keys: revoke some")),
    }
}

async fn list(args: &PlaceArgs) -> Result<Exit, Failure> {
    let keys = match args.keys().await? {
        Some(keys) => {
            let all = keys.all().await;
            let all = all.map_err(|fault| Failure::failed(fault.to_string()))?;
            all.iter().map(|(id, key)| key_response(*id, key)).collect()
        }
        None => args.client.connect()?.api_keys().await?,
    };
    let heads = ["ID", "NAME", "ROLE", "CALLBACKS", "EXPIRES"];
    let mut printer = Printer::new(args.format(), heads);
    let mut out = io::stdout().lock();
    for key in &keys {
        let callbacks = key.callbacks.as_ref();
        let columns = [
            key.id.clone(),
            key.name.clone(),
            key.role.name().to_owned(),
            callbacks.map_or_else(|| "all".to_owned(), |names| names.join(",")),
            key.expire_time
                .as_ref()
                .map_or_else(|| "never".to_owned(), |time| time.0.clone()),
        ];
        printer.row(&mut out, key, columns)?;
    }
    printer.end(&mut out)?;
    drop(out);
    count_of_none(&printer, "API key")?;
    Ok(Exit::Ok)
}

async fn revoke(args: &RevokeArgs) -> Result<Exit, Failure> {
    match args.place.keys().await? {
        None => {
            args.place
                .client
                .connect()?
                .revoke_api_key(&args.id)
                .await?
        }
        Some(keys) => {
            let absent = || Failure {
                exit: Exit::NotFound,
                text: format!("there is no API key {:?}", args.id),
            };
            let id = KeyId::read(&args.id).ok_or_else(absent)?;
            let revoked = keys.revoke(id).await;
            match revoked.map_err(|fault| Failure::failed(fault.to_string()))? {
                Revoked::Done(_) => {}
                Revoked::Absent => return Err(absent()),
                Revoked::LastAdmin => {
                    return Err(Failure::usage(
                        "it is the last key of an admin, and there are other keys: make another one, or revoke the others first",
                    ));
                }
            }
        }
    }
    writeln!(io::stdout().lock(), "revoked {}", args.id)?;
    Ok(Exit::Ok)
}
